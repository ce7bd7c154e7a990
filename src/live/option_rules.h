// SPDX-License-Identifier: MIT
#ifndef CAIRN_LIVE_OPTION_RULES_H
#define CAIRN_LIVE_OPTION_RULES_H

// The limits and defaults of options, and the rules between them. Both ways to record share these:
// `cairn record` (cmd/record/) and cairn_start() (agent/api/options.c). Each words a fault itself.

#include "live/live.h"

#define RULE_LEAST_MEMORY (UINT64_C(1) << 20)
#define RULE_MOST_MEMORY (UINT64_C(16) << 30) // the reach of 31 bits that count units of 8 bytes
#define RULE_MEMORY (UINT64_C(256) << 20)

enum {
    RULE_RATE = 1000, // samples a second
    RULE_MOST_RATE = 10000,
    RULE_MOST_ALLOC_PERIOD = 1 << 30, // bytes

    // Hot trees: epsilon is a fifth of phi, and counters are 1/epsilon.
    RULE_EPSILONS_IN_PHI = 5,
    RULE_PHIS = 10000, // 1/phi
    RULE_MOST_COUNTERS = 100000000,
    // The memory for each counter: a node of 32 bytes, and as much again for its edge, its share of
    // the edges' hash, and ancestors without a counter.
    RULE_COUNTER_BYTES = 64,

    // Bounded trees: the frames of a sample, and the buffer of a thread.
    RULE_DEPTH = 16,
    RULE_MOST_DEPTH = 4096,
    RULE_BUFFER = 1 << 20,
    RULE_LEAST_BUFFER = 16 << 10,
    RULE_BOUNDED_NODE_BYTES = 64, // node, edge and links

    RULE_PROCESS_BYTES = 256 << 10, // of a process besides its trees: modules, threads, notes
};

enum option_fault {
    RULE_FITS,
    RULE_COUNTERS_TOO_MANY,    // more than RULE_MOST_COUNTERS
    RULE_COUNTERS_NEED_MEMORY, // for option_hot_bytes()
    RULE_BUFFER_TOO_SMALL,     // less than option_least_buffer()
    RULE_BUFFER_NEEDS_MEMORY,  // for a buffer and RULE_PROCESS_BYTES
};

static inline uint64_t option_hot_bytes(uint64_t counters)
{
    return counters * RULE_COUNTER_BYTES + RULE_PROCESS_BYTES;
}

static inline uint64_t option_least_buffer(const struct live_options *options)
{
    const uint64_t bytes = (uint64_t)options->bounded_depth * RULE_BOUNDED_NODE_BYTES * 4;
    return bytes < RULE_LEAST_BUFFER ? RULE_LEAST_BUFFER : bytes;
}

// Whether the trees fit into the memory of a process.
static inline enum option_fault option_check_tree(const struct live_options *options,
                                                  uint64_t memory)
{
    switch (options->tree) {
    case LIVE_TREE_HOT:
        if (options->hot_counters > RULE_MOST_COUNTERS)
            return RULE_COUNTERS_TOO_MANY;
        return option_hot_bytes(options->hot_counters) > memory ? RULE_COUNTERS_NEED_MEMORY
                                                                : RULE_FITS;
    case LIVE_TREE_BOUNDED:
    case LIVE_TREE_FUNCTIONS:
        if (options->bounded_bytes < option_least_buffer(options))
            return RULE_BUFFER_TOO_SMALL;
        return options->bounded_bytes + RULE_PROCESS_BYTES > memory ? RULE_BUFFER_NEEDS_MEMORY
                                                                    : RULE_FITS;
    default:
        return RULE_FITS;
    }
}

// Whether a recording of this event can begin in a process that runs already.
static inline bool option_attaches(enum live_event event)
{
    return event == LIVE_EVENT_CPU || event == LIVE_EVENT_WALL || event == LIVE_EVENT_ALLOC ||
           event == LIVE_EVENT_IO || event == LIVE_EVENT_LOCK;
}

#endif
