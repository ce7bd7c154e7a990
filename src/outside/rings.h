// SPDX-License-Identifier: MIT
#ifndef CAIRN_OUTSIDE_RINGS_H
#define CAIRN_OUTSIDE_RINGS_H

// Perf events on foreign processes, and the rings that the kernel writes their records into, one
// for each processor. All events on a processor write into the same ring.
//
//   event of thread 1 on CPU 0 ─┐                       event of thread 1 on CPU 1 ─┐
//   event of thread 2 on CPU 0 ─┴─► ring of CPU 0       event of thread 2 on CPU 1 ─┴─► ring of CPU 1
//
// Records of several rings are read in the order of their times.

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct rings;

struct rings_options {
    uint64_t period_ns;
    bool kernel;       // samples in the kernel, too: else their time weighs on the next one
    bool only_threads; // that a thread makes are sampled, and no processes
};

enum rings_from { RINGS_NOW, RINGS_FROM_EXEC };

#define RINGS_ALL_PROCESSES ((pid_t)-1)

// NULL: no memory.
struct rings *rings_new(const struct rings_options *options);
void rings_free(struct rings *rings);

// Samples a thread, and all threads and processes that it will make. 0 or -errno.
int rings_add(struct rings *rings, pid_t thread, enum rings_from from);

// How much of a stack a sample has; whether it has the kernel's part.
uint32_t rings_stack_bytes(const struct rings *rings);
bool rings_see_kernel(const struct rings *rings);

// One for each ring: readable when there is much in it. Valid until the next rings_add().
struct pollfd *rings_poll(struct rings *rings, unsigned *count);

// Reads what there is: begin, next until it returns NULL, finish; or begin once more. Only records
// up to that time; those of a moment ago may not be all there yet.
void rings_begin(struct rings *rings, uint64_t until_ns);
const void *rings_next(struct rings *rings, size_t *bytes); // valid until the next call
void rings_finish(struct rings *rings);

#endif
