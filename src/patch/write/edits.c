// SPDX-License-Identifier: MIT
#include "patch/write/edits.h"
#include "base/gc_hidden.h"
#include "patch/write/code_write.h"
#include "patch/write/growing_list.h"
#include "patch/write/traps.h"
#include <errno.h>
#include <linux/membarrier.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TRAP 0xcc
#define CHUNK 4096 // bytes of code that one system call writes
#define PENDING 65536
#define RUNS 256

// One place in the code, and what it is to be.
struct edit {
    uintptr_t address;
    uint8_t bytes, starts;
    unsigned char code[EDIT_MOST];
};
static struct growing_list edits;

static int memory = -1; // the descriptor that code is written through

// Code that waits to be written: what follows each other by one system call.
static struct pending_run {
    uintptr_t start, end; // end: of the room that the last piece has
    size_t bytes;
} runs[RUNS];
static unsigned run_count;
static unsigned char pending[PENDING] GC_HIDDEN;
static size_t pending_bytes;

int edits_write_now(uintptr_t address, const void *bytes, size_t count)
{
    if (memory < 0)
        memory = code_open();
    return memory < 0 ? memory : code_write(memory, address, bytes, count);
}

int edits_flush(void)
{
    int error = 0;
    size_t at = 0;
    for (unsigned i = 0; i < run_count && !error; at += runs[i++].bytes)
        error = edits_write_now(runs[i].start, pending + at, runs[i].bytes);
    if (!error)
        run_count = 0, pending_bytes = 0;
    return error;
}

int edits_write_later(uintptr_t address, const void *bytes, size_t count, size_t room)
{
    struct pending_run *last = run_count ? &runs[run_count - 1] : NULL;
    const bool follows = last && address == last->end;
    // The room that the piece before has left is padding.
    const size_t padding = follows ? address - last->start - last->bytes : 0;
    if (pending_bytes + padding + count > PENDING || (!follows && run_count == RUNS)) {
        const int error = edits_flush();
        return error ? error : edits_write_later(address, bytes, count, room);
    }
    if (!follows) {
        last = &runs[run_count++];
        *last = (struct pending_run){.start = address};
    }
    memset(pending + pending_bytes, 0xcc, padding);
    memcpy(pending + pending_bytes + padding, bytes, count);
    pending_bytes += padding + count;
    last->bytes += padding + count;
    last->end = address + room;
    return 0;
}

int edits_add(uintptr_t address, const void *bytes, size_t count, uint8_t starts)
{
    struct edit *edit = growing_list_add(&edits, sizeof *edit);
    if (!edit)
        return -ENOMEM;
    edit->address = address;
    edit->bytes = (uint8_t)count;
    edit->starts = starts | 1;
    memcpy(edit->code, bytes, count);
    return 0;
}

// Many edits are in order, and most others nearly. In place, and without libc.
static void sort(struct edit *edit, size_t count)
{
    size_t gap = 1;
    while (gap < count / 3)
        gap = 3 * gap + 1;
    for (; gap > 0; gap /= 3)
        for (size_t i = gap; i < count; i++) {
            const struct edit one = edit[i];
            size_t at = i;
            for (; at >= gap && edit[at - gap].address > one.address; at -= gap)
                edit[at] = edit[at - gap];
            edit[at] = one;
        }
}

// A detour must not take bytes that a jump to a stub has, or that have moved with it.
static size_t drop_overlapping(struct edit *edit, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (!kept || edit[i].address >= edit[kept - 1].address + edit[kept - 1].bytes)
            edit[kept++] = edit[i];
    return kept;
}

// Traps first, wherever an instruction begins or began; then what lies between; then these.
enum rewrite_pass { PASS_TRAPS, PASS_REST, PASS_WHOLE };

static void make_pass(const struct edit *edit, enum rewrite_pass pass, unsigned char *code)
{
    memcpy(code, pass == PASS_TRAPS ? (const void *)edit->address : edit->code, edit->bytes);
    for (unsigned i = 0; i < edit->bytes && pass != PASS_WHOLE; i++)
        if (edit->starts >> i & 1)
            code[i] = TRAP;
}

// One system call for all edits within a chunk; the bytes between them are written as they are.
static int write_pass(const struct edit *edit, size_t count, enum rewrite_pass pass)
{
    static unsigned char chunk[CHUNK] GC_HIDDEN; // under the lock
    for (size_t i = 0; i < count;) {
        const uintptr_t start = edit[i].address;
        size_t used = 0;
        for (; i < count && edit[i].address - start <= CHUNK - EDIT_MOST; i++) {
            const size_t offset = edit[i].address - start;
            memcpy(chunk + used, (const void *)(start + used), offset - used);
            make_pass(&edit[i], pass, chunk + offset);
            used = offset + edit[i].bytes;
        }
        int error = edits_write_now(start, chunk, used);
        if (error)
            return error;
    }
    return 0;
}

// Every thread has seen all code written so far before it runs on.
static int synchronise_cores(void)
{
    return syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0) ? -ENOSYS : 0;
}

static int write_with_traps(const struct edit *edit, size_t count)
{
    // Again and again: a forked child has to say so anew.
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0))
        return -ENOSYS;
    static const enum rewrite_pass passes[] = {PASS_TRAPS, PASS_REST, PASS_WHOLE};
    int error = synchronise_cores(); // stubs and islands that were written just now
    for (size_t i = 0; i < sizeof passes / sizeof *passes && !error; i++) {
        error = write_pass(edit, count, passes[i]);
        error = error ? error : synchronise_cores();
    }
    return error;
}

int edits_commit(enum threading threading)
{
    struct edit *edit = (struct edit *)edits.start;
    size_t count = edits.used / sizeof *edit;
    if (count == 0)
        return 0;
    sort(edit, count);
    count = drop_overlapping(edit, count);
    if (threading == THREADS_NONE)
        return write_pass(edit, count, PASS_WHOLE);
    const int error = traps_begin() ? write_with_traps(edit, count) : -EAGAIN;
    traps_end();
    return error;
}

void edits_drop(void)
{
    growing_list_clear(&edits);
    if (memory >= 0)
        code_close(memory);
    memory = -1;
}
