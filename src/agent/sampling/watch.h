// SPDX-License-Identifier: MIT
#ifndef CAIRN_AGENT_THREAD_WATCH_H
#define CAIRN_AGENT_THREAD_WATCH_H

// "Tell me when a context, an edge or a function passes a threshold."
//
//   sample's handler:  counters[hash of watch and path] += weight; if that passes the threshold,
//                      the path is copied into a free message, and a descriptor rings
//   cairn_poll():      takes messages, and calls back; in normal context
//
// Counters lie in a table of fixed size, by 64-bit hashes in buckets of eight. In a full bucket the
// smallest one makes room: a path that gets hot slowly among very many is reported late, or begins
// anew; no path is reported that did not cost so much. (But for two paths of one hash: one in
// 2^64.)

#include "agent/session/agent.h"
#include "tree/tree.h"
#include <cairn.h>

#define WATCHES 16
#define WATCH_WAYS 8
#define WATCH_BUCKETS 4096 // a power of two
#define WATCH_MESSAGES 64
#define WATCH_FRAMES 64 // of a message

// A serial of 0 is no watch.
struct watch {
    _Atomic uint32_t serial;
    enum cairn_kind kind;
    uint64_t threshold;
    cairn_visit *visit;
    void *context;
};

struct watch_counter {
    _Atomic uint64_t key; // 0: free
    _Atomic uint64_t value;
};

enum watch_message_state { WATCH_MESSAGE_FREE, WATCH_MESSAGE_BUSY, WATCH_MESSAGE_READY };

struct watch_message {
    _Atomic uint32_t state; // the thread that takes it from free or ready has it alone
    uint32_t serial;        // of the watch
    uint64_t value;
    uint32_t depth, count;
    struct edge edges[WATCH_FRAMES]; // innermost first
};

struct watch_board {
    struct watch_counter counters[WATCH_BUCKETS][WATCH_WAYS];
    struct watch_message messages[WATCH_MESSAGES];
};

extern struct watching {
    // How many there are; the handler looks at it first. Relaxed: a watch begins at some moment.
    _Atomic uint32_t count;
    _Atomic int descriptor;              // that rings; -1: there is none
    _Atomic(struct watch_board *) board; // made by the first watch, and never taken away
    // Written under the lock of api/watch.c, the serial last and with release; handlers read.
    struct watch watches[WATCHES];
} watching;

static inline bool watch_is_on(void)
{
    return atomic_load_explicit(&watching.count, memory_order_relaxed) != 0;
}

// A sample of this weight at the node, before it is charged: the node is still there. Signal-safe.
void watch_sample(ref_t node, uint64_t weight);

#endif
