// SPDX-License-Identifier: MIT
// A program that works at a given stack depth: a hot leaf that comes and goes on top of DEPTH
// frames.
//
//   deep DEPTH ROUNDS [HZ FILE]
//
// Prints a checksum. With HZ it samples itself: HZ times a second of CPU time a signal handler asks
// a library for the whole stack, and FILE gets how long that took. Compiled with -DSTACK_OF=1 the
// library is glibc (backtrace), with 2 libunwind (unw_backtrace): linking libunwind would rebind
// the former to itself, so each has a program of its own.

#include <linux/perf_event.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef STACK_OF
#define STACK_OF 0
#endif
#if STACK_OF == 1
#include <execinfo.h>
#define STACK(frames, limit) backtrace(frames, limit)
#elif STACK_OF == 2
#define UNW_LOCAL_ONLY
#include <libunwind.h>
#define STACK(frames, limit) unw_backtrace(frames, limit)
#endif

#define ALONE __attribute__((noipa))

static uint64_t checksum = 1;

ALONE static void work(unsigned steps)
{
    uint64_t value = checksum;
    for (unsigned i = 0; i < steps; i++)
        value = value * 6364136223846793005u + 1442695040888963407u;
    checksum = value;
}

ALONE static void leaf(unsigned steps)
{
    work(steps);
    checksum ^= steps;
}

ALONE static void middle(unsigned steps)
{
    leaf(steps);
    leaf(steps / 2);
    checksum++;
}

ALONE static void descend(unsigned depth, unsigned rounds)
{
    if (depth)
        descend(depth - 1, rounds);
    else
        for (unsigned i = 0; i < rounds; i++)
            middle(1000 + i % 64);
    checksum += depth; // not a tail call
}

#if STACK_OF
enum { FRAME_LIMIT = 1 << 15, SAMPLE_LIMIT = 1 << 16 };
static void *frames[FRAME_LIMIT];
static uint32_t times[SAMPLE_LIMIT];
static unsigned samples;
static uint64_t frames_total;

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void take_sample(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)info, (void)context;
    uint64_t begin = now_ns();
    int count = STACK(frames, FRAME_LIMIT);
    uint64_t spent = now_ns() - begin;
    frames_total += count > 0 ? (uint64_t)count : 0;
    if (samples < SAMPLE_LIMIT)
        times[samples++] = (uint32_t)spent;
}

// The same source of signals as cairn's own: the thread's task clock, a synchronous SIGTRAP.
static void start_sampling(unsigned rate)
{
    struct perf_event_attr attr = {
        .size = sizeof attr,
        .type = PERF_TYPE_SOFTWARE,
        .config = PERF_COUNT_SW_TASK_CLOCK,
        .sample_period = 1000000000u / rate,
        .remove_on_exec = 1,
        .sigtrap = 1,
    };
    struct sigaction action = {.sa_sigaction = take_sample, .sa_flags = SA_SIGINFO | SA_RESTART};
    STACK(frames, 16); // what the library prepares at its first call is not what we measure
    sigaction(SIGTRAP, &action, NULL);
    if (syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC) < 0) {
        attr.exclude_kernel = 1;
        if (syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC) < 0) {
            perror("deep: perf_event_open");
            exit(1);
        }
    }
}

static int compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void write_times(const char *path)
{
    signal(SIGTRAP, SIG_IGN);
    FILE *file = fopen(path, "w");
    uint64_t sum = 0;
    if (!file || !samples) {
        fprintf(stderr, "deep: no samples, or cannot write %s\n", path);
        exit(1);
    }
    for (unsigned i = 0; i < samples; i++)
        sum += times[i];
    qsort(times, samples, sizeof *times, compare);
    fprintf(file, "{\"samples\": %u, \"mean\": %.1f, \"p50\": %u, \"frames\": %.1f}\n", samples,
            (double)sum / samples, times[samples / 2], (double)frames_total / samples);
    fclose(file);
}
#endif

// 10,000 frames and a library's own needs fit the usual 8 MB; more needs more.
static void need_stack(unsigned depth, char **argv)
{
    struct rlimit limit;
    const rlim_t needed = (rlim_t)depth * 96 + (1 << 20);
    getrlimit(RLIMIT_STACK, &limit);
    if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= needed)
        return;
    limit.rlim_cur = needed;
    if (!setrlimit(RLIMIT_STACK, &limit))
        execv("/proc/self/exe", argv);
    fprintf(stderr, "deep: no stack for %u frames\n", depth);
    exit(1);
}

int main(int argc, char **argv)
{
    if (argc != 3 && argc != 5) {
        fprintf(stderr, "usage: deep DEPTH ROUNDS [HZ FILE]\n");
        return 2;
    }
    unsigned depth = (unsigned)atoi(argv[1]), rounds = (unsigned)atoi(argv[2]);
    need_stack(depth, argv);
#if STACK_OF
    if (argc == 5)
        start_sampling((unsigned)atoi(argv[3]));
#endif
    descend(depth, rounds);
#if STACK_OF
    if (argc == 5)
        write_times(argv[4]);
#endif
    printf("%016llx\n", (unsigned long long)checksum);
    return 0;
}
