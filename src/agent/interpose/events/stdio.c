// SPDX-License-Identifier: MIT
// Streams of stdio do their I/O inside of libc, by functions that no symbol leads to. But a stream
// has a table of functions, and libc keeps a few such tables, which it has protected against
// writing when it was loaded. There each word that leads to _IO_file_read() or _IO_file_write() is
// changed to lead to us; what we call are those.

#include "agent/interpose/events/io.h"
#include "event/clock.h"
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <sys/mman.h>

#define PAGE 4096

static struct {
    ssize_t (*read)(FILE *stream, void *buffer, ssize_t bytes);
    ssize_t (*write)(FILE *stream, const void *buffer, ssize_t bytes);
} real;

static ssize_t stream_read(FILE *stream, void *buffer, ssize_t bytes)
{
    if (!counted_is_on(LIVE_EVENT_IO))
        return real.read(stream, buffer, bytes);
    const uint64_t begun = clock_now(LIVE_EVENT_WALL);
    const ssize_t result = real.read(stream, buffer, bytes);
    io_note(IO_IN, result, begun, __builtin_frame_address(0), fileno_unlocked(stream));
    return result;
}

static ssize_t stream_write(FILE *stream, const void *buffer, ssize_t bytes)
{
    if (!counted_is_on(LIVE_EVENT_IO))
        return real.write(stream, buffer, bytes);
    const uint64_t begun = clock_now(LIVE_EVENT_WALL);
    const ssize_t result = real.write(stream, buffer, bytes);
    io_note(IO_OUT, result, begun, __builtin_frame_address(0), fileno_unlocked(stream));
    return result;
}

// Where an object keeps what it writes while it is loaded, and then protects.
struct protected_part {
    uintptr_t inside; // an address there
    uintptr_t start, end;
};

static int find_part(struct dl_phdr_info *info, size_t bytes, void *context)
{
    struct protected_part *part = context;
    (void)bytes;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        const uintptr_t start = info->dlpi_addr + header->p_vaddr;
        if (header->p_type != PT_GNU_RELRO || part->inside - start >= header->p_memsz)
            continue;
        part->start = start;
        part->end = (start + header->p_memsz) & ~(uintptr_t)(PAGE - 1);
        return 1;
    }
    return 0;
}

static bool change_word(uintptr_t *word, uintptr_t value)
{
    void *page = (void *)((uintptr_t)word & ~(uintptr_t)(PAGE - 1));
    if (mprotect(page, PAGE, PROT_READ | PROT_WRITE))
        return false;
    // Relaxed: other threads call the one or the other, which do the same.
    __atomic_store_n(word, value, __ATOMIC_RELAXED);
    mprotect(page, PAGE, PROT_READ);
    return true;
}

// How many were changed.
static unsigned change_words(const struct protected_part *part, uintptr_t from, uintptr_t to)
{
    unsigned changed = 0;
    const uintptr_t first = (part->start + sizeof from - 1) & ~(sizeof from - 1);
    for (uintptr_t at = first; at + sizeof from <= part->end; at += sizeof from)
        changed += *(uintptr_t *)at == from && change_word((uintptr_t *)at, to);
    return changed;
}

static bool intercepted;

bool stdio_intercept(void)
{
    if (intercepted) // a child of fork
        return true;
    struct protected_part part = {.inside = (uintptr_t)dlsym(RTLD_NEXT, "_IO_file_jumps")};
    real.read = (__typeof__(real.read))dlsym(RTLD_NEXT, "_IO_file_read");
    real.write = (__typeof__(real.write))dlsym(RTLD_NEXT, "_IO_file_write");
    if (!part.inside || !real.read || !real.write || !dl_iterate_phdr(find_part, &part))
        return false;
    intercepted = true;
    return change_words(&part, (uintptr_t)real.read, (uintptr_t)stream_read) &&
           change_words(&part, (uintptr_t)real.write, (uintptr_t)stream_write);
}

void stdio_release(void)
{
    struct protected_part part = {.inside = (uintptr_t)dlsym(RTLD_NEXT, "_IO_file_jumps")};
    if (!intercepted || !dl_iterate_phdr(find_part, &part))
        return;
    intercepted = false;
    change_words(&part, (uintptr_t)stream_read, (uintptr_t)real.read);
    change_words(&part, (uintptr_t)stream_write, (uintptr_t)real.write);
}
