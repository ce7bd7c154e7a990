// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_ENCODE_TRACKER_H
#define CAIRN_TRACK_ENCODE_TRACKER_H

// The encode tracker's own state, of the whole process.

#include "encode/graph/graph.h"
#include "encode/numbering.h"
#include "encode/reencode_policy.h"
#include "track/encode/encode.h"

struct encode_epoch;

struct encode {
    _Atomic uint32_t wanted; // enum reencode: the next hook encodes anew
    bool started, verify;
    enum live_by by;          // whose functions take part
    bool threaded;            // there may be threads
    bool reencode_always;     // for tests: encodes anew all the time, at random
    bool stopped;             // for good: contexts are walked, and nothing is patched any more
    _Atomic uint32_t unloads; // so far; written under the lock: code addresses have another meaning
    _Atomic bool invalidated; // no number counts until the next encoding is published
    struct encode_epoch *_Atomic epoch; // in force; handlers read both
    struct encode_thread *threads;      // under the lock, as is all that follows
    struct pool pool;
    struct graph graph;
    uint32_t unknown_callee; // what open functions lead to
    struct numbering numbering;
    struct reencode_policy policy;
    struct policy_counters policy_counters;
    uint64_t encoded_at, cooled_at; // nanoseconds
    struct live_encode *counts;
};

extern struct encode encode __attribute__((visibility("hidden")));

static inline void encode_count(uint64_t *counter, uint64_t amount)
{
    // Relaxed: sums.
    __atomic_fetch_add(counter, amount, __ATOMIC_RELAXED);
}

#endif
