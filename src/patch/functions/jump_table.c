// SPDX-License-Identifier: MIT
#include "patch/functions/jump_table.h"
#include "patch/functions/functions.h"
#include "patch/x86_64/decode.h"
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define REGISTERS 16
#define ENTRIES_MOST 4096
#define CHUNK 64 // entries that are read at once

struct table {
    uintptr_t start;
    unsigned entry_bytes; // 4: distances from the start; 8: addresses
    uint32_t count;       // entries; 0: not known
};

// The contents of registers after the instructions before the jump.
struct register_trace {
    uintptr_t address[REGISTERS]; // by lea; 0: not known
    uintptr_t table;              // that the last entry was loaded from
    int64_t compared;             // the last constant
    unsigned since_load, since_compare;
};

static void follow(struct register_trace *trace, const struct instruction *in, uintptr_t pc)
{
    const bool plain = in->map == MAP_ONE && !in->vector && in->has_modrm;
    trace->since_load++;
    trace->since_compare++;
    if (plain && in->opcode == 0x8d && in->rip_relative) {
        trace->address[in->reg] = pc + in->length + (uintptr_t)(intptr_t)in->disp;
    } else if (plain && in->opcode == 0x63 && in->mod == 0 && in->index != NO_REGISTER &&
               in->base < REGISTERS && in->scale == 4) {
        trace->table = trace->address[in->base];
        trace->since_load = 0;
    } else if (in->map == MAP_ONE && !in->vector &&
               (in->opcode == 0x3c || in->opcode == 0x3d ||
                (plain && in->opcode >= 0x80 && in->opcode <= 0x83 && (in->reg & 7) == 7))) {
        trace->compared = in->immediate;
        trace->since_compare = 0;
    }
}

// The place of the last jump: the search for the next of the same function starts there. Under the
// lock.
static struct {
    uintptr_t function, pc;
    struct register_trace trace;
} last;

static bool find_table(const struct patch_function *function, uintptr_t jump, struct table *table)
{
    struct register_trace trace = {.since_load = UINT32_MAX / 2, .since_compare = UINT32_MAX / 2};
    struct instruction in;
    uintptr_t pc = function->start;
    if (last.function == function->start && last.pc <= jump) {
        pc = last.pc;
        trace = last.trace;
    }
    last.function = 0;
    for (; pc < jump; pc += in.length) {
        if (!decode((const unsigned char *)pc, function->end - pc, &in))
            return false;
        follow(&trace, &in, pc);
    }
    if (pc != jump || !decode((const unsigned char *)pc, function->end - pc, &in))
        return false;
    last.function = function->start;
    last.pc = pc;
    last.trace = trace;
    table->count = 0;
    if (trace.since_compare < 12 && trace.compared >= 0 && trace.compared < ENTRIES_MOST)
        table->count = (uint32_t)trace.compared + 1;
    if (in.mod == 3) {
        table->start = trace.since_load < 8 ? trace.table : 0;
        table->entry_bytes = 4;
    } else {
        const bool indexed = in.index != NO_REGISTER && in.base == NO_REGISTER;
        table->start = indexed && !in.rip_relative ? (uintptr_t)(intptr_t)in.disp : 0;
        table->entry_bytes = 8;
    }
    return table->start != 0;
}

// By a system call: it may be no table, and nothing be there.
static unsigned read_entries(const struct table *table, uint32_t first, uintptr_t target[CHUNK])
{
    uintptr_t words[CHUNK] = {0};
    const bool near = table->entry_bytes == 4;
    const uintptr_t at = table->start + (uintptr_t)first * table->entry_bytes;
    struct iovec to = {words, CHUNK * table->entry_bytes};
    struct iovec from = {(void *)at, to.iov_len};
    // Not beyond the page, which may be the last.
    const size_t left = 4096 - at % 4096;
    if (left < to.iov_len && left >= table->entry_bytes)
        to.iov_len = from.iov_len = left;
    const long bytes = syscall(SYS_process_vm_readv, syscall(SYS_getpid), &to, 1, &from, 1, 0);
    const unsigned count = bytes < 0 ? 0 : (unsigned)((size_t)bytes / table->entry_bytes);
    for (unsigned i = 0; i < count; i++) {
        int32_t distance = 0;
        __builtin_memcpy(&distance, (const char *)words + i * sizeof distance, sizeof distance);
        target[i] = near ? table->start + (uintptr_t)(intptr_t)distance : words[i];
    }
    return count;
}

// Whether an entry leads to the function, or to a part of it.
static bool belongs(const struct patch_function *function, const struct table *table,
                    uintptr_t target, uintptr_t *part)
{
    *part = 0;
    if (target >= function->start && target < function->end)
        return true;
    struct patch_function *other = functions_at(target);
    if (!other || functions_plt_slot(other->module, target))
        return false;
    functions_examine(other);
    *part = other->start;
    return other->inside == function->start || (table->count && !other->whole);
}

static bool check(const struct patch_function *function, const struct table *table,
                  void (*each)(uintptr_t part, void *context), void *context)
{
    uintptr_t target[CHUNK], part;
    const uint32_t most = table->count ? table->count : ENTRIES_MOST;
    for (uint32_t first = 0; first < most;) {
        const unsigned count = read_entries(table, first, target);
        for (unsigned i = 0; i < count && first + i < most; i++) {
            // If their number is not known, the first invalid entry is behind the last.
            if (!belongs(function, table, target[i], &part))
                return !table->count && first + i > 0;
            if (part)
                each(part, context);
        }
        if (count == 0)
            return false;
        first += count;
    }
    return true;
}

bool jump_table_stays(uintptr_t jump, void (*each)(uintptr_t part, void *context), void *context)
{
    struct table table;
    struct patch_function *function = functions_at(jump);
    return function && find_table(function, jump, &table) && check(function, &table, each, context);
}
