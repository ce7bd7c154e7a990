// SPDX-License-Identifier: MIT
#include "cmd/record/overhead.h"
#include "base/now.h"
#include "cmd/events/sources.h"
#include <fcntl.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    TRIES = 9,            // of each kind, in turns: the least of each counts
    SPIN_NS = 500 * 1000, // of work, and how often that is interrupted
    TICK_NS = 40 * 1000,
    ROUNDS = 20,         // of two processes that wake each other
    GIVE_UP_SECONDS = 5, // on a machine that has no time for us
};

static volatile sig_atomic_t ticks;
static volatile unsigned sink;

static void on_tick(int number)
{
    (void)number;
    ticks++;
}

static uint64_t spin(unsigned rounds)
{
    const uint64_t start = now_ns(CLOCK_THREAD_CPUTIME_ID);
    for (unsigned i = 0; i < rounds; i++)
        sink += i;
    return now_ns(CLOCK_THREAD_CPUTIME_ID) - start;
}

// The events that the agent would open for a thread. False: they are not permitted.
static bool open_events(enum live_event event, uint64_t period_ns, int descriptors[2])
{
    descriptors[0] = open_task_clock(true, period_ns);
    descriptors[1] = event == LIVE_EVENT_WALL ? open_switches() : -1;
    return descriptors[0] >= 0 && (event != LIVE_EVENT_WALL || descriptors[1] >= 0);
}

static void close_events(const int descriptors[2])
{
    for (int i = 0; i < 2; i++)
        if (descriptors[i] >= 0)
            close(descriptors[i]);
}

static void switch_on(const int descriptors[2])
{
    for (int i = 0; i < 2; i++)
        if (descriptors[i] >= 0)
            ioctl(descriptors[i], PERF_EVENT_IOC_ENABLE, 0);
}

static uint64_t difference(uint64_t more, uint64_t less)
{
    return more > less ? more - less : 0;
}

// The least of each counts: all that can come between makes it more.
static uint64_t measure_tick(void)
{
    uint64_t without = UINT64_MAX, with = UINT64_MAX, taken = 0;
    const unsigned probe = 100000;
    const uint64_t took = spin(probe);
    const unsigned rounds = (unsigned)(SPIN_NS * (uint64_t)probe / (took ? took : 1));
    for (int i = 0; i < TRIES; i++) {
        const uint64_t plain = spin(rounds);
        int descriptors[2];
        if (!open_events(LIVE_EVENT_CPU, TICK_NS, descriptors)) {
            close_events(descriptors);
            return 0;
        }
        ticks = 0;
        switch_on(descriptors);
        const uint64_t sampled = spin(rounds);
        close_events(descriptors);
        without = plain < without ? plain : without;
        taken = sampled < with ? (uint64_t)ticks : taken;
        with = sampled < with ? sampled : with;
    }
    return taken ? difference(with, without) / taken : 0;
}

// The orders to two processes that wake each other, and the second one's loop: with clocks, like
// those of a thread of the program, or without.
enum { PLAIN, SAMPLED };

static void answer(int from, int to, enum live_event event, uint64_t period_ns)
{
    int descriptors[2] = {-1, -1};
    char now = PLAIN, asked;
    while (read(from, &asked, 1) == 1) {
        if (asked != now && asked == SAMPLED && open_events(event, period_ns, descriptors))
            switch_on(descriptors);
        else if (asked != now)
            close_events(descriptors);
        now = asked;
        if (write(to, &asked, 1) != 1)
            return;
    }
}

struct partner {
    int to, from;
    clockid_t clock;
};

// The CPU time of both: the kernel charges a part of each switch to the one that comes.
static uint64_t used(const struct partner *partner)
{
    return now_ns(CLOCK_THREAD_CPUTIME_ID) + now_ns(partner->clock);
}

static uint64_t exchange(const struct partner *partner, char how)
{
    uint64_t start = 0;
    for (int i = 0; i <= ROUNDS; i++) {
        if (write(partner->to, &how, 1) != 1 || read(partner->from, &how, 1) != 1)
            return 0;
        if (i == 0) // in which the other one has got ready
            start = used(partner);
    }
    return used(partner) - start;
}

static int compare(const void *left, const void *right)
{
    const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

// Of one wait: off the processor, and on again. There are two kinds of tries: where another timer
// is due first, the kernel need not set that of the event. Most find it due first, so most count.
static uint64_t compare_exchanges(const struct partner *partner, enum live_event event,
                                  uint64_t period_ns)
{
    uint64_t without[TRIES], with[TRIES];
    for (int i = 0; i < TRIES; i++) {
        without[i] = exchange(partner, PLAIN);
        int descriptors[2];
        if (!open_events(event, period_ns, descriptors)) {
            close_events(descriptors);
            return 0;
        }
        switch_on(descriptors);
        with[i] = exchange(partner, SAMPLED);
        close_events(descriptors);
    }
    qsort(without, TRIES, sizeof *without, compare);
    qsort(with, TRIES, sizeof *with, compare);
    return difference(with[TRIES * 3 / 4], without[TRIES / 2]) / (2 * ROUNDS);
}

static uint64_t measure_switch(enum live_event event, uint64_t period_ns)
{
    // On one processor, so that each waits for the other to be switched off.
    cpu_set_t here;
    CPU_ZERO(&here);
    CPU_SET((unsigned)sched_getcpu(), &here);
    int there[2], back[2];
    if (sched_setaffinity(0, sizeof here, &here) || pipe2(there, O_CLOEXEC) ||
        pipe2(back, O_CLOEXEC))
        return 0;
    const pid_t other = fork();
    if (other < 0)
        return 0;
    if (other == 0) {
        close(there[1]);
        close(back[0]);
        answer(there[0], back[1], event, period_ns);
        _exit(0);
    }
    close(there[0]);
    close(back[1]);
    struct partner partner = {.to = there[1], .from = back[0]};
    const uint64_t result = clock_getcpuclockid(other, &partner.clock)
                                ? 0
                                : compare_exchanges(&partner, event, period_ns);
    close(there[1]);
    close(back[0]);
    waitpid(other, NULL, 0);
    return result;
}

static struct profile_overhead measure(enum live_event event, uint64_t period_ns)
{
    struct profile_overhead overhead = {.tick_ns = measure_tick()};
    if (overhead.tick_ns)
        overhead.switch_ns = measure_switch(event, period_ns);
    return overhead;
}

struct profile_overhead measure_overhead(enum live_event event, uint64_t period_ns)
{
    struct profile_overhead overhead = {0};
    int result[2];
    if (pipe2(result, O_CLOEXEC))
        return overhead;
    const pid_t child = fork();
    if (child == 0) {
        sigset_t none;
        sigemptyset(&none);
        signal(SIGALRM, SIG_DFL);
        signal(SIGPIPE, SIG_IGN);
        signal(SIGTRAP, on_tick);
        sigprocmask(SIG_SETMASK, &none, NULL);
        alarm(GIVE_UP_SECONDS);
        overhead = measure(event, period_ns);
        const ssize_t written = write(result[1], &overhead, sizeof overhead);
        _exit(written == sizeof overhead ? 0 : 1);
    }
    close(result[1]);
    if (child > 0) {
        if (read(result[0], &overhead, sizeof overhead) != sizeof overhead)
            overhead = (struct profile_overhead){0};
        waitpid(child, NULL, 0);
    }
    close(result[0]);
    return overhead;
}
