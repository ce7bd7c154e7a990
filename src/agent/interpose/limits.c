// SPDX-License-Identifier: MIT
// The limits that a program asks for, and sets, are about its own memory: see limits.h.

#include "agent/interpose/limits.h"
#include "agent/session/agent.h"
#include "agent/session/real.h"
#include "agent/session/system_call.h"
#include "base/system/agent_map.h"
#include "base/text/decimal.h"
#include <errno.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

// Above a hard limit, for what the agent may take later: without rights, a process cannot raise it.
#define LATER (UINT64_C(64) << 30)
#define TRIES 4

extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));
extern char gc_hidden_begin[] __attribute__((visibility("hidden")));

// The limits that the program believes in. `held` is the soft limit that the kernel was given for
// it. Any thread may write, as with the limits themselves; readers take each for itself.
static struct {
    _Atomic bool set; // there is one, and the kernel's is another
    _Atomic uint64_t soft, hard, held;
} program_limits[AGENT_MAP_SUMS];

static bool started;

static const int resources[AGENT_MAP_SUMS] = {RLIMIT_AS, RLIMIT_DATA};

bool limits_may(unsigned capability)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{0}, {0}};
    return !syscall_raw(SYS_capget, &header, data) &&
           data[capability / 32].effective >> capability % 32 & 1;
}

static int change(int resource, const struct rlimit *wanted, struct rlimit *before)
{
    return (int)syscall_raw(SYS_prlimit64, 0, resource, wanted, before);
}

static uint64_t add(uint64_t limit, uint64_t more)
{
    return limit == RLIM_INFINITY || limit + more < limit ? RLIM_INFINITY : limit + more;
}

static uint64_t smaller(uint64_t one, uint64_t other)
{
    return one < other ? one : other;
}

// Gives the kernel the program's limit plus the agent's memory. As much of that as the process may.
static int hold(enum agent_map_sum sum)
{
    const uint64_t soft = atomic_load_explicit(&program_limits[sum].soft, memory_order_relaxed);
    const uint64_t hard = atomic_load_explicit(&program_limits[sum].hard, memory_order_relaxed);
    const uint64_t ours = atomic_load_explicit(&agent_map_sums[sum], memory_order_relaxed);
    // Where the soft limit of data is 0, the kernel goes by the hard one.
    const bool by_hard = sum == AGENT_MAP_DATA && soft == 0;
    struct rlimit wanted = {.rlim_cur = by_hard ? 0 : add(soft, ours),
                            .rlim_max = add(hard, by_hard ? ours : LATER)};
    struct rlimit now;
    int error = change(resources[sum], &wanted, NULL);
    if (error && !system_limit(resources[sum], &now)) {
        wanted.rlim_max = smaller(wanted.rlim_max, now.rlim_max);
        wanted.rlim_cur = smaller(wanted.rlim_cur, wanted.rlim_max);
        error = change(resources[sum], &wanted, NULL);
    }
    if (!error)
        atomic_store_explicit(&program_limits[sum].held, wanted.rlim_cur, memory_order_relaxed);
    return error;
}

// A filter of system calls may forbid it, and a child of vfork is not us.
static bool may_hold(void)
{
    return !seccomp_holds && !(agent.pid && agent_in_vfork_child());
}

// The agent has taken more, or less. Again, if another thread has changed it meanwhile.
static void on_change(void)
{
    const int saved = errno;
    for (int sum = 0; sum < AGENT_MAP_SUMS && may_hold(); sum++) {
        uint64_t ours = 0;
        for (int i = 0;
             i < TRIES && atomic_load_explicit(&program_limits[sum].set, memory_order_relaxed) &&
             ours != atomic_load_explicit(&agent_map_sums[sum], memory_order_relaxed);
             i++) {
            ours = atomic_load_explicit(&agent_map_sums[sum], memory_order_relaxed);
            hold((enum agent_map_sum)sum);
        }
    }
    errno = saved;
}

static void note(enum agent_map_sum sum, const struct rlimit *limit)
{
    atomic_store_explicit(&program_limits[sum].soft, limit->rlim_cur, memory_order_relaxed);
    atomic_store_explicit(&program_limits[sum].hard, limit->rlim_max, memory_order_relaxed);
    const bool set = limit->rlim_cur != RLIM_INFINITY || limit->rlim_max != RLIM_INFINITY;
    atomic_store_explicit(&program_limits[sum].set, set, memory_order_relaxed);
    if (set)
        atomic_store_explicit(&agent_map_changed, on_change, memory_order_relaxed);
}

// "soft,hard," of each in turn, if they are others than the kernel's.
static bool read_pair(const char **text, struct rlimit *limit)
{
    char *end;
    limit->rlim_cur = strtoull(*text, &end, 10);
    if (end == *text || *end != ',')
        return false;
    *text = end + 1;
    limit->rlim_max = strtoull(*text, &end, 10);
    if (end == *text || *end != ',')
        return false;
    *text = end + 1;
    return true;
}

void limits_start(const char *text)
{
    const size_t image = (uintptr_t)_end - (uintptr_t)__ehdr_start;
    const size_t data = (uintptr_t)_end - (uintptr_t)gc_hidden_begin;
    agent_map_claim(data, AGENT_MAP_PRIVATE);
    agent_map_claim(image - data, AGENT_MAP_SHARED);
    for (int sum = 0; sum < AGENT_MAP_SUMS; sum++) {
        struct rlimit limit;
        if ((text && read_pair(&text, &limit)) || !system_limit(resources[sum], &limit))
            note((enum agent_map_sum)sum, &limit);
    }
    started = true;
    on_change();
}

// A child of vfork may have set others, which we know nothing of, and so may another process.
static bool is_held(enum agent_map_sum sum)
{
    struct rlimit now;
    return atomic_load_explicit(&program_limits[sum].set, memory_order_relaxed) &&
           !system_limit(resources[sum], &now) &&
           now.rlim_cur == atomic_load_explicit(&program_limits[sum].held, memory_order_relaxed);
}

// As the program has it.
static int read_limit(enum agent_map_sum sum, struct rlimit *limit)
{
    if (!is_held(sum))
        return system_limit(resources[sum], limit);
    *limit = (struct rlimit){program_limits[sum].soft, program_limits[sum].hard};
    return 0;
}

char *limits_print(char *text)
{
    *text = 0;
    if (!atomic_load_explicit(&agent_map_changed, memory_order_relaxed))
        return text;
    for (int sum = 0; sum < AGENT_MAP_SUMS; sum++) {
        struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
        read_limit((enum agent_map_sum)sum, &limit);
        text = stpcpy(decimal_write(text, limit.rlim_cur), ",");
        text = stpcpy(decimal_write(text, limit.rlim_max), ",");
    }
    return text;
}

void limits_let_go(void)
{
    for (int sum = 0; sum < AGENT_MAP_SUMS && !seccomp_holds; sum++)
        if (is_held((enum agent_map_sum)sum))
            change(resources[sum],
                   &(struct rlimit){program_limits[sum].soft, program_limits[sum].hard}, NULL);
}

void limits_take_back(void)
{
    if (atomic_load_explicit(&agent_map_changed, memory_order_relaxed))
        on_change();
}

uint64_t limits_of_space(void)
{
    return atomic_load_explicit(&program_limits[AGENT_MAP_SPACE].set, memory_order_relaxed)
               ? atomic_load_explicit(&program_limits[AGENT_MAP_SPACE].soft, memory_order_relaxed)
               : RLIM_INFINITY;
}

bool limits_have_room_for(size_t bytes)
{
    if (limits_of_space() == RLIM_INFINITY)
        return true;
    agent_map_claim(bytes, AGENT_MAP_SHARED);
    const bool has_room =
        add(limits_of_space(),
            atomic_load_explicit(&agent_map_sums[AGENT_MAP_SPACE], memory_order_relaxed)) <=
        program_limits[AGENT_MAP_SPACE].held;
    agent_map_release(bytes, AGENT_MAP_SHARED);
    return has_room;
}

// ---- as the program asks

// AGENT_MAP_SUMS: it is not about memory, or not for us to look at.
static enum agent_map_sum sum_of(int resource)
{
    if (!started || (agent.pid && agent_in_vfork_child()))
        return AGENT_MAP_SUMS;
    return resource == RLIMIT_AS     ? AGENT_MAP_SPACE
           : resource == RLIMIT_DATA ? AGENT_MAP_DATA
                                     : AGENT_MAP_SUMS;
}

static int fail(int error)
{
    errno = error;
    return -1;
}

// The kernel's answer without the agent.
static int exchange(enum agent_map_sum sum, const struct rlimit *wanted, struct rlimit *before)
{
    struct rlimit old;
    if (read_limit(sum, &old))
        return -1;
    if (wanted && wanted->rlim_cur > wanted->rlim_max)
        return fail(EINVAL);
    if (wanted && wanted->rlim_max > old.rlim_max &&
        (seccomp_holds || !limits_may(CAP_SYS_RESOURCE)))
        return fail(EPERM);
    if (wanted) {
        note(sum, wanted);
        if (hold(sum)) {
            note(sum, &old);
            return -1;
        }
    }
    if (before)
        *before = old;
    return 0;
}

long limits_call(long number, const unsigned long argument[5])
{
    const bool any = number == SYS_prlimit64;
    const bool self = !any || argument[0] == 0 || (pid_t)argument[0] == agent.pid;
    const enum agent_map_sum sum = self ? sum_of((int)argument[any]) : AGENT_MAP_SUMS;
    if (sum == AGENT_MAP_SUMS)
        return syscall_next(number, argument[0], argument[1], argument[2], argument[3],
                            argument[4]);
    if (any)
        return exchange(sum, (const struct rlimit *)argument[2], (struct rlimit *)argument[3]);
    return number == SYS_setrlimit ? exchange(sum, (const struct rlimit *)argument[1], NULL)
                                   : exchange(sum, NULL, (struct rlimit *)argument[1]);
}

// On x86-64 the names for large files mean the same functions.
#define LIMIT_CALL(name, arguments, number, ...)                                                   \
    int name##_entry arguments __asm__(#name);                                                     \
    int name##_entry64 arguments __asm__(#name "64");                                              \
    INTERPOSED int name##_entry arguments                                                          \
    {                                                                                              \
        return (int)limits_call(number, (const unsigned long[5]){__VA_ARGS__});                    \
    }                                                                                              \
    INTERPOSED int name##_entry64 arguments                                                        \
    {                                                                                              \
        return (int)limits_call(number, (const unsigned long[5]){__VA_ARGS__});                    \
    }

LIMIT_CALL(getrlimit, (int resource, struct rlimit *limit), SYS_getrlimit, (unsigned long)resource,
           (unsigned long)limit)
LIMIT_CALL(setrlimit, (int resource, const struct rlimit *limit), SYS_setrlimit,
           (unsigned long)resource, (unsigned long)limit)
LIMIT_CALL(prlimit,
           (pid_t process, int resource, const struct rlimit *limit, struct rlimit *before),
           SYS_prlimit64, (unsigned long)process, (unsigned long)resource, (unsigned long)limit,
           (unsigned long)before)
