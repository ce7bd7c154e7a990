// SPDX-License-Identifier: MIT
#ifndef CAIRN_EVENT_RING_H
#define CAIRN_EVENT_RING_H

// The kernel's record of each tick of a thread's clock, in a page behind the event's own: where the
// program was, and the kernel's call chain if the tick came while it worked for the program. The
// signal of a tick inside the kernel comes when the kernel returns; so several ticks can have left
// something by then.
//
//   [ event's page | data: record, record, ...   ring of one page ]

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct perf_event_attr;

#define RING_BYTES 4096 // of data
#define RING_FRAMES 48  // of the kernel, that are asked for: deeper chains lack their oldest ones

struct ring_sample {
    uintptr_t pc;   // in the program
    unsigned count; // frames of the kernel; 0: the program itself was running
    uint64_t
        address[RING_FRAMES]; // where the kernel was, and the return addresses above, oldest last
};

struct ring {
    void *page;
    uint64_t at, end;
};

// Sets the attributes that an event needs for it.
void ring_ask(struct perf_event_attr *attributes);

// The same for an event whose records are counts: the newest one of them, if there is any; all are
// read then. Signal-safe.
struct ring_count {
    uint64_t count, enabled, running; // times in ns
};
void ring_ask_count(struct perf_event_attr *attributes);
bool ring_newest_count(void *page, struct ring_count *count);

// The same for an event whose records are switches of a thread off a processor, and on it. Signal-safe.
struct ring_switch {
    uint64_t ns; // CLOCK_MONOTONIC
    bool is_out, is_preempted;
};
void ring_ask_switches(struct perf_event_attr *attributes);
bool ring_next_switch(struct ring *ring, struct ring_switch *change);

// Reads what there is, from the oldest record on. Nothing is where it is said to be, until it was
// looked at: another thread may take the pages away (zeroes are left). Signal-safe.
struct ring ring_begin(void *page);
bool ring_next(struct ring *ring, struct ring_sample *sample);

// All that ring_begin() has seen is read. Signal-safe.
void ring_finish(const struct ring *ring);

#endif
