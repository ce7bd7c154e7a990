// SPDX-License-Identifier: MIT
// Writes to all entries of a program at once, beside the transactions (patch/transaction.h): bursts
// begin and end in signal handlers, which must not wait for their lock; and entries are in order,
// so there is nothing to collect and to sort.

#include "base/system/agent_map.h"
#include "patch/entries/entries.h"
#include "patch/entries/entries_module.h"
#include "patch/write/code_write.h"
#include <linux/membarrier.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

// Bytes of code that one system call writes: on the stack, or where few entries are switched, and
// when all are.
#define CHUNK 1024
#define LARGE_CHUNK (UINT64_C(64) << 10)
#define BYTE_NO_OP 0x90
#define TRAP 0xcc
#define RETURN 0xc3     // as the first byte of a relay: it is shut
#define RELAY_CELL_AT 5 // the lowest byte of the cell in a relay that counts

// The state for libraries that come later.
static _Atomic bool entries_are_on, relays_are_shut, relays_rest;

// Of the thread that switches entries.
static unsigned char *large_chunk;

void entries_switch_prepare(void)
{
    if (!large_chunk)
        large_chunk = agent_map(LARGE_CHUNK);
}

// ---- entries

static void make_entry(const struct patched_module *module, uintptr_t entry, bool on,
                       unsigned char bytes[ENTRY_BYTES])
{
    if (!on) {
        memcpy(bytes, entries_no_op, ENTRY_BYTES);
        return;
    }
    int32_t distance = (int32_t)((uintptr_t)module->relay - (entry + ENTRY_BYTES));
    bytes[0] = 0xe8;
    memcpy(bytes + 1, &distance, sizeof distance);
}

// Which bytes of the entries a pass over the code writes.
enum switch_pass { PASS_TRAP, PASS_REST, PASS_WHOLE };

static void make_pass(const struct patched_module *module, uintptr_t entry, bool on,
                      enum switch_pass pass, unsigned char bytes[ENTRY_BYTES])
{
    unsigned char target[ENTRY_BYTES];
    make_entry(module, entry, on, target);
    switch (pass) {
    case PASS_WHOLE:
        memcpy(bytes, target, ENTRY_BYTES);
        break;
    case PASS_TRAP:
        memcpy(bytes, (const void *)entry, ENTRY_BYTES);
        bytes[0] = TRAP;
        break;
    case PASS_REST:
        bytes[0] = TRAP;
        memcpy(bytes + 1, target + 1, ENTRY_BYTES - 1);
        break;
    }
}

// The bytes that are written at once.
struct entry_chunk {
    unsigned char *bytes;
    size_t size;
};

static struct entry_chunk chunk_of(unsigned char bytes[CHUNK], size_t most)
{
    return large_chunk ? (struct entry_chunk){large_chunk, most}
                       : (struct entry_chunk){bytes, CHUNK};
}

// Entries of a module: some, by their numbers in order, or all.
struct extent {
    const struct patched_module *module;
    const uint32_t *number; // NULL: all
    size_t count;
};

static struct extent all_of(const struct patched_module *module)
{
    return (struct extent){.module = module, .count = module->count};
}

static struct extent quiet_of(const struct patched_module *module)
{
    return (struct extent){module, module->quiet, module->quiet_count};
}

static uintptr_t entry_of(const struct extent *extent, size_t i)
{
    return extent->module->entry[extent->number ? extent->number[i] : i];
}

// One system call for all entries within a chunk; the bytes between them are written as they are.
static int write_entries(int fd, const struct extent *extent, bool on, enum switch_pass pass,
                         struct entry_chunk chunk)
{
    for (size_t i = 0; i < extent->count;) {
        const uintptr_t start = entry_of(extent, i);
        size_t used = 0;
        for (; i < extent->count && entry_of(extent, i) - start < chunk.size - ENTRY_BYTES; i++) {
            const uintptr_t entry = entry_of(extent, i);
            const bool is_long =
                !memcmp((const void *)entry, entries_long_no_op, sizeof entries_long_no_op);
            size_t offset = entry - start;
            memcpy(chunk.bytes + used, (const void *)(start + used), offset - used);
            make_pass(extent->module, entry, on, pass, chunk.bytes + offset);
            used = offset + ENTRY_BYTES;
            if (is_long)
                chunk.bytes[used++] = BYTE_NO_OP;
        }
        int error = code_write(fd, start, chunk.bytes, used);
        if (error)
            return error;
    }
    return 0;
}

int entries_settle_module(struct patched_module *module)
{
    const struct extent all = all_of(module);
    unsigned char bytes[CHUNK];
    const struct entry_chunk chunk = chunk_of(bytes, LARGE_CHUNK);
    int fd = code_open();
    if (fd < 0)
        return fd;
    module->quiet_count = 0;
    // The program's own no-ops may be five of one byte: they become one first.
    int error = write_entries(fd, &all, false, PASS_WHOLE, chunk);
    if (!error && atomic_load_explicit(&entries_are_on, memory_order_relaxed))
        error = write_entries(fd, &all, true, PASS_WHOLE, chunk);
    code_close(fd);
    return error;
}

// Every thread has seen all code written so far before it runs on.
static void synchronise_cores(void)
{
    syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0);
}

// Chooses the entries to switch in each module.
typedef struct extent choice(const struct patched_module *module);

static int write_pass(int fd, choice *choose, bool on, enum switch_pass pass)
{
    unsigned char bytes[CHUNK];
    // Few entries lie far apart, and what lies between them is not to be written.
    const struct entry_chunk chunk = chunk_of(bytes, choose == all_of ? LARGE_CHUNK : CHUNK);
    for (const struct patched_module *module = entries_first_module(); module;
         module = module->next) {
        const struct extent extent = choose(module);
        int error =
            entries_module_is_here(module) ? write_entries(fd, &extent, on, pass, chunk) : 0;
        if (error)
            return error;
    }
    return 0;
}

static int switch_some(int fd, choice *choose, bool on, bool alone)
{
    if (alone)
        return write_pass(fd, choose, on, PASS_WHOLE);
    // First a trap, so that no thread runs into half an instruction; entries_trapped() sends them
    // past it.
    static const enum switch_pass passes[] = {PASS_TRAP, PASS_REST, PASS_WHOLE};
    syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0);
    int error = 0;
    for (size_t i = 0; i < sizeof passes / sizeof *passes && !error; i++) {
        error = write_pass(fd, choose, on, passes[i]);
        synchronise_cores();
    }
    return error;
}

int entries_switch(bool on, bool alone)
{
    int fd = code_open();
    if (fd < 0)
        return fd;
    atomic_store_explicit(&entries_are_on, on, memory_order_relaxed);
    const int error = switch_some(fd, all_of, on, alone);
    code_close(fd);
    return error;
}

uintptr_t entries_trapped(uintptr_t pc)
{
    return entries_is_return(pc - 1 + ENTRY_BYTES) ? pc - 1 + ENTRY_BYTES : 0;
}

// ---- relays

void entries_rest_relays(void)
{
    atomic_store_explicit(&relays_rest, true, memory_order_relaxed);
}

static unsigned char relay_cell(const struct patched_module *module)
{
    const bool rest = atomic_load_explicit(&relays_rest, memory_order_relaxed);
    return module->relay_cell + (rest ? sizeof(int64_t) : 0);
}

void entries_settle_relay(const struct patched_module *module, unsigned char *relay)
{
    if (atomic_load_explicit(&relays_are_shut, memory_order_relaxed))
        relay[0] = RETURN;
    if (atomic_load_explicit(&relays_rest, memory_order_relaxed))
        relay[RELAY_CELL_AT] = relay_cell(module);
}

int entries_shut(void)
{
    int fd = code_open(), error = 0;
    if (fd < 0)
        return fd;
    atomic_store_explicit(&relays_are_shut, true, memory_order_relaxed);
    for (const struct patched_module *module = entries_first_module(); module;
         module = module->next) {
        const unsigned char byte = RETURN;
        int failed = code_write(fd, (uintptr_t)module->relay, &byte, 1);
        error = failed ? failed : error;
    }
    code_close(fd);
    return error;
}

// ---- bursts

// So many bursts after it became quiet, or about, an entry has to show again that it is busy.
#define QUIET_BURSTS 64

static void leave_some(struct patched_module *module, uint32_t round)
{
    size_t kept = 0;
    for (size_t i = 0; i < module->quiet_count; i++)
        if ((module->quiet[i] + round) % QUIET_BURSTS)
            module->quiet[kept++] = module->quiet[i];
    module->quiet_count = kept;
}

int entries_burst(bool running, bool alone)
{
    static uint32_t round; // of the thread that may switch
    int fd = code_open(), error = 0;
    if (fd < 0)
        return fd;
    atomic_store_explicit(&relays_rest, !running, memory_order_relaxed);
    round += running;
    for (struct patched_module *module = entries_first_module(); module && !error;
         module = module->next) {
        // One byte: threads that run there see one cell or the other.
        const unsigned char byte = relay_cell(module);
        error = code_write(fd, (uintptr_t)module->relay + RELAY_CELL_AT, &byte, 1);
        if (!running)
            leave_some(module, round);
    }
    if (!error)
        error = switch_some(fd, quiet_of, running, alone);
    code_close(fd);
    return error;
}

static struct patched_module *quieted; // of the thread that may switch
static uint32_t quieted_number;

static struct extent quieted_of(const struct patched_module *module)
{
    return (struct extent){module, &quieted_number, module == quieted};
}

// False if it is in the list yet.
static bool add_quiet(struct patched_module *module, uint32_t number)
{
    size_t i = module->quiet_count;
    while (i > 0 && module->quiet[i - 1] > number)
        i--;
    if (i > 0 && module->quiet[i - 1] == number)
        return false;
    for (size_t j = module->quiet_count++; j > i; j--)
        module->quiet[j] = module->quiet[j - 1];
    module->quiet[i] = number;
    return true;
}

void entries_quieten(uintptr_t back, bool alone)
{
    ptrdiff_t number = -1;
    struct patched_module *module = entries_first_module();
    while (module && (number = entries_index(module, back)) < 0)
        module = module->next;
    if (!module || !add_quiet(module, (uint32_t)number))
        return;
    int fd = code_open();
    if (fd < 0)
        return;
    quieted = module;
    quieted_number = (uint32_t)number;
    switch_some(fd, quieted_of, false, alone);
    code_close(fd);
}
