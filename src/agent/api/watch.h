// SPDX-License-Identifier: MIT
#ifndef CAIRN_AGENT_API_WATCH_H
#define CAIRN_AGENT_API_WATCH_H

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

// How many watches there are; the handler looks at it first. Relaxed: a watch begins at some
// moment.
extern _Atomic uint32_t watch_count;

static inline bool watch_is_on(void)
{
    return atomic_load_explicit(&watch_count, memory_order_relaxed) != 0;
}

// A sample of this weight at the node, before it is charged: the node is still there. Signal-safe.
void watch_sample(ref_t node, uint64_t weight);

// In a forked child: watches stay; their counts and the descriptor are the parent's.
void watch_after_fork(void);

#endif
