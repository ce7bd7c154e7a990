// SPDX-License-Identifier: MIT
#include "base/system/huge.h"
#include "base/system/agent_map.h"
#include "base/system/kernel.h"
#include <sys/mman.h>
#include <sys/syscall.h>

// Of newer kernels; others know them as errors.
#define POPULATE_WRITE 23 // Linux 5.14
#define COLLAPSE 25       // Linux 6.1
#define WIPE_ON_FORK 18   // Linux 4.14
#define PAGE_BYTES 4096

static bool is_aligned(const void *memory, off_t offset)
{
    return ((uintptr_t)memory - (uintptr_t)offset) % HUGE_BYTES == 0;
}

// By way of an address space that is larger, and has such an address in it.
static void *map_within(size_t bytes, int protection, int flags, int fd, off_t offset)
{
    char *memory = mmap(NULL, bytes + HUGE_BYTES, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return mmap(NULL, bytes, protection, flags, fd, offset);
    const size_t before = ((size_t)offset - (size_t)memory) % HUGE_BYTES;
    const size_t whole = (bytes + PAGE_BYTES - 1) & -(size_t)PAGE_BYTES,
                 behind = bytes + HUGE_BYTES - before;
    if (before)
        munmap(memory, before);
    memory += before;
    if (behind > whole)
        munmap(memory + whole, behind - whole);
    void *mapped = mmap(memory, bytes, protection, flags | MAP_FIXED, fd, offset);
    if (mapped == MAP_FAILED)
        munmap(memory, whole);
    return mapped;
}

void *huge_map(size_t bytes, int protection, int flags, int fd, off_t offset)
{
    char *hint = agent_map_hint(bytes + HUGE_BYTES);
    hint += ((size_t)offset - (size_t)hint) % HUGE_BYTES;
    void *memory = mmap(hint, bytes, protection, flags, fd, offset);
    if (memory == MAP_FAILED || is_aligned(memory, offset))
        return memory;
    munmap(memory, bytes);
    return map_within(bytes, protection, flags, fd, offset);
}

static long advise(uintptr_t address, size_t bytes, long advice)
{
    if (agent_map_without_advice)
        return -1;
    return kernel_call(SYS_madvise, (long)address, (long)bytes, advice, 0);
}

bool huge_make(uintptr_t address)
{
    // Of a part of the file that has no page at all, the kernel makes none.
    __atomic_fetch_or((unsigned char *)address, 0, __ATOMIC_RELAXED);
    return advise(address, HUGE_BYTES, COLLAPSE) == 0;
}

void huge_fill(uintptr_t address, size_t bytes)
{
    const uintptr_t first = address & -(uintptr_t)PAGE_BYTES;
    const uintptr_t end = (address + bytes + PAGE_BYTES - 1) & -(uintptr_t)PAGE_BYTES;
    advise(first, end - first, POPULATE_WRITE);
}

void huge_wipe_in_child(uintptr_t address, size_t bytes)
{
    const uintptr_t first = (address + PAGE_BYTES - 1) & -(uintptr_t)PAGE_BYTES;
    const uintptr_t end = (address + bytes) & -(uintptr_t)PAGE_BYTES;
    advise(first, end - first, WIPE_ON_FORK);
}
