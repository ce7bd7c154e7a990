// SPDX-License-Identifier: MIT
#include "patch/write/code_write.h"
#include "base/system/agent_map.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE 4096
#define REACH (UINT64_C(1) << 31)
#define STEP (UINT64_C(1) << 20) // between addresses that are tried

int code_open(void)
{
    // Plain system calls: libc's open() is a point where a thread may be cancelled.
    long fd = syscall(SYS_openat, AT_FDCWD, "/proc/self/mem", O_RDWR | O_CLOEXEC, 0);
    return fd < 0 ? -errno : (int)fd;
}

void code_close(int fd)
{
    syscall(SYS_close, fd);
}

int code_write(int fd, uintptr_t address, const void *bytes, size_t count)
{
    long written = syscall(SYS_pwrite64, fd, bytes, count, address);
    return written == (long)count ? 0 : written < 0 ? -errno : -EIO;
}

// jmp *0(%rip); the address
void code_make_relay(unsigned char code[CODE_RELAY_BYTES], void (*target)(void))
{
    static const unsigned char jump[6] = {0xff, 0x25, 0, 0, 0, 0};
    memcpy(code, jump, sizeof jump);
    memcpy(code + sizeof jump, &target, sizeof target);
}

static void *map_at(uintptr_t address, size_t bytes, int protection)
{
    // The system call itself: libc's mmap() may be what is being patched.
    long memory = syscall(SYS_mmap, address, bytes, protection,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (memory != -1 && (uintptr_t)memory != address) { // a kernel that takes it for a hint
        syscall(SYS_munmap, memory, bytes);
        return NULL;
    }
    return memory == -1 ? NULL : (void *)memory;
}

static void *map_below(uintptr_t from, uintptr_t to, size_t bytes, int protection)
{
    void *memory = NULL;
    for (uintptr_t at = from & -(uintptr_t)PAGE; at > to && at <= from && !memory; at -= STEP)
        memory = map_at(at, bytes, protection);
    return memory;
}

// Best a gigabyte below, half of what can be reached: modules nearby reach it, too, and what the
// program maps and unmaps below its libraries is seldom as much. A hole there is the program's.
static void *map_near(uintptr_t low, uintptr_t high, size_t bytes, int protection)
{
    const uintptr_t bottom = high > REACH ? high - REACH + 2 * STEP : STEP;
    const uintptr_t top = low + REACH - 2 * STEP - bytes;
    const uintptr_t middle = low > bottom + REACH / 2 ? low - REACH / 2 : bottom;
    void *memory = map_below(middle, bottom, bytes, protection);
    if (!memory && low > STEP)
        memory = map_below(low - STEP, middle, bytes, protection);
    return memory ? memory : map_below(top & -STEP, high, bytes, protection);
}

void *code_page_near(uintptr_t low, uintptr_t high, const void *bytes, size_t count)
{
    void *page = map_near(low, high, PAGE, PROT_READ | PROT_WRITE);
    if (!page)
        return NULL;
    memcpy(page, bytes, count);
    if (!mprotect(page, PAGE, PROT_READ | PROT_EXEC)) {
        agent_map_claim(PAGE, AGENT_MAP_SHARED); // no data: it cannot be written
        return page;
    }
    munmap(page, PAGE);
    return NULL;
}

void *code_map_at(uintptr_t address, size_t bytes)
{
    void *memory = map_at(address, bytes, PROT_READ | PROT_EXEC);
    if (memory)
        agent_map_claim(bytes, AGENT_MAP_SHARED);
    return memory;
}

void *code_map_near(uintptr_t low, uintptr_t high, size_t bytes)
{
    bytes = (bytes + PAGE - 1) & -(size_t)PAGE;
    void *memory = map_near(low, high, bytes, PROT_READ | PROT_EXEC);
    if (memory)
        agent_map_claim(bytes, AGENT_MAP_SHARED);
    return memory;
}
