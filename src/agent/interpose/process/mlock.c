// SPDX-License-Identifier: MIT
// mlockall(): a program that wants all of its memory to be there means its own. Of ours, most is
// address space alone, and more than an ordinary user may lock: so its mappings are locked one by
// one, and ours are left out.

#include "agent/interpose/limits.h"
#include "agent/session/agent.h"
#include "agent/session/real.h"
#include "agent/session/system_call.h"
#include "base/system/agent_map.h"
#include "loadmap/maps.h"
#include <errno.h>
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE ((uintptr_t)4096)
#define KINDS (MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT)
#define OURS (AGENT_MAP_KNOWN + 2)

extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));

// In order of address.
struct ours {
    size_t count;
    struct agent_range range[OURS];
};

static void add(struct ours *ours, uintptr_t start, uintptr_t end)
{
    size_t at = ours->count++;
    for (; at > 0 && ours->range[at - 1].start > start; at--)
        ours->range[at] = ours->range[at - 1];
    ours->range[at] = (struct agent_range){start & -PAGE, (end + PAGE - 1) & -PAGE};
}

static void find_ours(struct ours *ours)
{
    struct agent_range range[AGENT_MAP_KNOWN];
    const size_t count = agent_map_list(range);
    ours->count = 0;
    add(ours, (uintptr_t)__ehdr_start, (uintptr_t)_end);
    if (agent.process)
        add(ours, (uintptr_t)agent.process, (uintptr_t)agent.process + agent.slice_mapped);
    for (size_t i = 0; i < count; i++)
        add(ours, range[i].start, range[i].end);
}

struct locking {
    struct ours ours;
    int flags;
    bool counts;       // and does not lock yet
    uintptr_t counted; // bytes of the program's
    struct maps_lines lines;
};

// As in the kernel, memory that cannot be locked (of devices) is not.
static void take_piece(struct locking *locking, uintptr_t start, uintptr_t end)
{
    if (start >= end)
        return;
    if (locking->counts)
        locking->counted += end - start;
    else
        syscall(SYS_mlock2, start, end - start, locking->flags & MCL_ONFAULT ? MLOCK_ONFAULT : 0);
}

static void take_mapping(void *context, const struct maps_mapping *mapping)
{
    struct locking *locking = context;
    uintptr_t start = mapping->start;
    if ((intptr_t)start < 0)
        return; // the kernel's
    for (size_t i = 0; i < locking->ours.count; i++) {
        const struct agent_range *range = &locking->ours.range[i];
        if (range->end <= start || range->start >= mapping->end)
            continue;
        take_piece(locking, start, range->start);
        start = range->end;
    }
    take_piece(locking, start, mapping->end);
}

// The kernel's answer to a process without the agent: 0, or the error. < 0: not known.
static int refusal(struct locking *locking)
{
    struct rlimit limit;
    locking->counts = true;
    if (!maps_visit(&locking->lines, take_mapping, locking) || system_limit(RLIMIT_MEMLOCK, &limit))
        return -1;
    locking->counts = false;
    if (limit.rlim_cur == RLIM_INFINITY || limits_may(CAP_IPC_LOCK))
        return 0;
    if (limit.rlim_cur == 0)
        return EPERM;
    return locking->counted > limit.rlim_cur ? ENOMEM : 0;
}

static int lock_all(int flags)
{
    struct locking locking = {.flags = flags};
    find_ours(&locking.ours);
    const int why = refusal(&locking);
    if (why > 0) {
        errno = why;
        return -1;
    }
    if (why < 0 || (flags & MCL_FUTURE && REAL(mlockall)(flags & ~MCL_CURRENT)))
        return REAL(mlockall)(flags);
    if (!(flags & MCL_FUTURE) && agent_map_locked)
        munlockall(); // there is no other way to take that back
    agent_map_locked = flags & MCL_FUTURE;
    maps_visit(&locking.lines, take_mapping, &locking);
    return 0;
}

INTERPOSED int mlockall(int flags)
{
    if (!agent.armed || flags & ~KINDS || !(flags & (MCL_CURRENT | MCL_FUTURE)) || seccomp_holds)
        return REAL(mlockall)(flags);
    if (flags & MCL_CURRENT)
        return lock_all(flags);
    agent_map_locked = true;
    return REAL(mlockall)(flags);
}
