// SPDX-License-Identifier: MIT
#include "base/huge.h"
#include <sys/mman.h>
#include <sys/syscall.h>

#define COLLAPSE 25 // MADV_COLLAPSE of Linux 6.1: others know it as an error

void *huge_map(size_t bytes, int protection, int flags, int fd, off_t offset)
{
    char *memory = mmap(NULL, bytes + HUGE_BYTES, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return mmap(NULL, bytes, protection, flags, fd, offset);
    const size_t before = ((size_t)offset - (size_t)memory) % HUGE_BYTES;
    const size_t whole = (bytes + 4095) & ~(size_t)4095, behind = bytes + HUGE_BYTES - before;
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

static long advise(uintptr_t address, size_t bytes, long advice)
{
#if defined(__x86_64__)
    long result = SYS_madvise;
    __asm__ volatile("syscall"
                     : "+a"(result)
                     : "D"(address), "S"(bytes), "d"(advice)
                     : "rcx", "r11", "memory");
    return result;
#else
    (void)address;
    (void)bytes;
    (void)advice;
    return -1;
#endif
}

bool huge_make(uintptr_t address)
{
    // Of a part of the file that has no page at all, the kernel makes none.
    __atomic_fetch_or((unsigned char *)address, 0, __ATOMIC_RELAXED);
    return advise(address, HUGE_BYTES, COLLAPSE) == 0;
}
