// SPDX-License-Identifier: MIT
#ifndef CAIRN_EVENT_EVENT_H
#define CAIRN_EVENT_EVENT_H

// An event is something that costs, and happens at a place of the program. On each event a tracker
// (track/tracker.h) names the context, and a tree (tree/tree.h) remembers the cost.
//
//   cpu, wall   a clock of each thread ticks          event/clock.h, agent/sampling/sample.c
//   calls       hooks see each call                   track/calls/
//   alloc       interposed functions see each block   agent/interpose/events/alloc.c
//   io          interposed functions see each call    agent/interpose/events/io.c
//   lock        interposed functions see each call    agent/interpose/events/lock.c
//   offcpu      the kernel notes each switch          event/offcpu.h, sampling/counter_samples.c
//   perf's      counters of each thread overflow      event/counter.h, sampling/counter_samples.c
//
// The tool and the agent share this table. agent/event_starts.c begins events in the agent.

#include "live/live.h"
#include <stdbool.h>

struct event {
    const char *name; // after -e, and of its metric
    const char *unit;
    const char *one, *many; // what is counted
    const char *meaning;
    bool by_clock; // samples of it are taken; else each is counted where it happens
};

// A number beyond the table is taken for cpu: it may come from damaged memory.
static inline const struct event *event_of(unsigned number)
{
    static const struct event events[LIVE_EVENTS] = {
        [LIVE_EVENT_CPU] = {.name = "cpu",
                            .unit = "ns",
                            .one = "sample",
                            .many = "samples",
                            .meaning = "time that threads run on a processor, in the kernel too",
                            .by_clock = true},
        [LIVE_EVENT_WALL] = {.name = "wall",
                             .unit = "ns",
                             .one = "sample",
                             .many = "samples",
                             .meaning = "time that passes while threads exist, waiting included",
                             .by_clock = true},
        [LIVE_EVENT_CALLS] = {.name = "calls",
                              .unit = "calls",
                              .one = "call",
                              .many = "calls",
                              .meaning = "every call, by hooks in functions or at call sites"},
        [LIVE_EVENT_ALLOC] = {.name = "alloc",
                              .unit = "bytes",
                              .one = "block",
                              .many = "blocks",
                              .meaning = "memory: allocated, freed, live, at the peak, mapped"},
        [LIVE_EVENT_IO] = {.name = "io",
                           .unit = "bytes",
                           .one = "operation",
                           .many = "operations",
                           .meaning = "bytes read and written, operations, and the time they take"},
        [LIVE_EVENT_LOCK] = {.name = "lock",
                             .unit = "ns",
                             .one = "operation",
                             .many = "operations",
                             .meaning = "waiting for locks and threads, and who held the locks"},
        [LIVE_EVENT_OFFCPU] = {.name = "offcpu",
                               .unit = "ns",
                               .one = "wait",
                               .many = "waits",
                               .meaning = "time that threads are off the processor, and why"},
        // Each one has a name of its own.
        [LIVE_EVENT_COUNTER] = {.name = "perf event",
                                .unit = "counts",
                                .one = "sample",
                                .many = "samples",
                                .meaning = "what the kernel or the processor counts"},
    };
    return &events[number < LIVE_EVENTS ? number : LIVE_EVENT_CPU];
}

#endif
