// SPDX-License-Identifier: MIT
// mlockall(): a program that wants all of its memory to be there means its own. Of ours, most is
// address space alone, and more than an ordinary user may lock: so its mappings are locked one by
// one, and ours are left out.

#include "agent/agent.h"
#include "agent/real.h"
#include "agent/syscall.h"
#include "base/reserve.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE ((uintptr_t)4096)
#define KINDS (MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT)
#define OURS (RESERVE_KNOWN + 2)

extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));

// In order of address.
struct ours {
    size_t count;
    struct reserve_range range[OURS];
};

static void add(struct ours *ours, uintptr_t start, uintptr_t end)
{
    size_t at = ours->count++;
    for (; at > 0 && ours->range[at - 1].start > start; at--)
        ours->range[at] = ours->range[at - 1];
    ours->range[at] = (struct reserve_range){start & -PAGE, (end + PAGE - 1) & -PAGE};
}

static void find_ours(struct ours *ours)
{
    struct reserve_range range[RESERVE_KNOWN];
    const size_t count = reserve_list(range);
    ours->count = 0;
    add(ours, (uintptr_t)__ehdr_start, (uintptr_t)_end);
    if (agent.process)
        add(ours, (uintptr_t)agent.process, (uintptr_t)agent.process + agent.slice_mapped);
    for (size_t i = 0; i < count; i++)
        add(ours, range[i].start, range[i].end);
}

// Numbers in a file of /proc, whatever is between them.
struct numbers {
    int file;
    ssize_t bytes, at;
    char buffer[1024];
};

static int next_byte(struct numbers *numbers)
{
    if (numbers->at == numbers->bytes) {
        numbers->bytes = read(numbers->file, numbers->buffer, sizeof numbers->buffer);
        numbers->at = 0;
    }
    return numbers->bytes <= 0 ? -1 : (unsigned char)numbers->buffer[numbers->at++];
}

static int value_of(int digit)
{
    return digit >= '0' && digit <= '9'   ? digit - '0'
           : digit >= 'a' && digit <= 'f' ? digit - 'a' + 10
                                          : 16;
}

// False: no digit stands there. *end: what stands behind it.
static bool next_number(struct numbers *numbers, unsigned base, uintptr_t *number, int *end)
{
    bool found = false;
    *number = 0;
    while (value_of(*end = next_byte(numbers)) < (int)base) {
        *number = *number * base + (uintptr_t)value_of(*end);
        found = true;
    }
    return found;
}

static bool is_capable(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{0}, {0}};
    return !syscall(SYS_capget, &header, data) && data[0].effective >> CAP_IPC_LOCK & 1;
}

// What the kernel would say to a process without us: 0, or why not. < 0: nobody knows.
static int refusal(const struct ours *ours)
{
    struct rlimit limit;
    struct numbers statm = {.file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC)};
    uintptr_t pages, own = 0;
    int end;
    if (statm.file < 0)
        return -1;
    const bool known = next_number(&statm, 10, &pages, &end);
    close(statm.file);
    if (!known || getrlimit(RLIMIT_MEMLOCK, &limit))
        return -1;
    if (limit.rlim_cur == RLIM_INFINITY || is_capable())
        return 0;
    for (size_t i = 0; i < ours->count; i++)
        own += (ours->range[i].end - ours->range[i].start) / PAGE;
    if (limit.rlim_cur == 0)
        return EPERM;
    return pages > own && pages - own > limit.rlim_cur / PAGE ? ENOMEM : 0;
}

// As the kernel does it, what cannot be locked (memory of devices) is not.
static void lock(uintptr_t start, uintptr_t end, int flags)
{
    if (start < end)
        syscall(SYS_mlock2, start, end - start, flags & MCL_ONFAULT ? MLOCK_ONFAULT : 0);
}

static void lock_around(const struct ours *ours, uintptr_t start, uintptr_t end, int flags)
{
    for (size_t i = 0; i < ours->count; i++) {
        const struct reserve_range *range = &ours->range[i];
        if (range->end <= start || range->start >= end)
            continue;
        lock(start, range->start, flags);
        start = range->end;
    }
    lock(start, end, flags);
}

static int lock_all(int flags)
{
    struct ours ours;
    struct numbers maps = {.file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC)};
    uintptr_t start, last;
    int end, why;
    find_ours(&ours);
    if (maps.file < 0 || (why = refusal(&ours)) < 0)
        goto as_it_is;
    if (why) {
        close(maps.file);
        errno = why;
        return -1;
    }
    if (!(flags & MCL_FUTURE) && reserve_locked)
        munlockall(); // there is no other way to take that back
    else if (flags & MCL_FUTURE && REAL(mlockall)(flags & ~MCL_CURRENT))
        goto as_it_is;
    reserve_locked = flags & MCL_FUTURE;
    while (next_number(&maps, 16, &start, &end) && end == '-' &&
           next_number(&maps, 16, &last, &end)) {
        lock_around(&ours, start, last, flags);
        while (end >= 0 && end != '\n')
            end = next_byte(&maps);
    }
    close(maps.file);
    return 0;
as_it_is:
    if (maps.file >= 0)
        close(maps.file);
    return REAL(mlockall)(flags);
}

INTERPOSED int mlockall(int flags)
{
    if (!agent.armed || flags & ~KINDS || !(flags & (MCL_CURRENT | MCL_FUTURE)) || confine_holds)
        return REAL(mlockall)(flags);
    if (flags & MCL_CURRENT)
        return lock_all(flags);
    reserve_locked = true;
    return REAL(mlockall)(flags);
}
