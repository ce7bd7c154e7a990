// SPDX-License-Identifier: MIT
#ifndef CAIRN_LIVE_OPTION_RULES_H
#define CAIRN_LIVE_OPTION_RULES_H

// The limits and defaults of options, and the rules between them. Both ways to record share these:
// `cairn record` (cmd/record/) and cairn_start() (agent/api/options.c). Each words a fault itself.

#include "live/live.h"

#define OPTION_LEAST_MEMORY (UINT64_C(1) << 20)
#define OPTION_MOST_MEMORY (UINT64_C(16) << 30) // the reach of 31 bits that count units of 8 bytes
#define OPTION_MEMORY (UINT64_C(256) << 20)

enum {
    OPTION_RATE = 1000, // samples a second
    OPTION_MOST_RATE = 10000,

    // Hot trees: epsilon is a fifth of phi, and counters are 1/epsilon.
    OPTION_EPSILONS_IN_PHI = 5,
    OPTION_PHIS = 10000, // 1/phi
    OPTION_MOST_COUNTERS = 100000000,
    // The memory for each counter: a node of 32 bytes, and as much again for its edge, its share of
    // the edges' hash, and ancestors without a counter.
    OPTION_COUNTER_BYTES = 64,

    // Bounded trees: the frames of a sample, and the buffer of a thread.
    OPTION_DEPTH = 16,
    OPTION_MOST_DEPTH = 4096,
    OPTION_BUFFER = 1 << 20,
    OPTION_LEAST_BUFFER = 16 << 10,
    OPTION_BOUNDED_NODE_BYTES = 64, // node, edge and links

    OPTION_PROCESS_BYTES = 256 << 10, // of a process besides its trees: modules, threads, notes
};

enum option_fault {
    OPTION_FITS,
    OPTION_COUNTERS_TOO_MANY,   // more than OPTION_MOST_COUNTERS
    OPTION_COUNTERS_NEED_MEMORY, // for option_hot_bytes()
    OPTION_BUFFER_TOO_SMALL,    // less than option_least_buffer()
    OPTION_BUFFER_NEEDS_MEMORY, // for a buffer and OPTION_PROCESS_BYTES
};

static inline uint64_t option_hot_bytes(uint64_t counters)
{
    return counters * OPTION_COUNTER_BYTES + OPTION_PROCESS_BYTES;
}

static inline uint64_t option_least_buffer(const struct live_options *options)
{
    const uint64_t bytes = (uint64_t)options->bounded_depth * OPTION_BOUNDED_NODE_BYTES * 4;
    return bytes < OPTION_LEAST_BUFFER ? OPTION_LEAST_BUFFER : bytes;
}

// Whether the trees fit into the memory of a process.
static inline enum option_fault option_check_tree(const struct live_options *options,
                                                  uint64_t memory)
{
    switch (options->tree) {
    case LIVE_TREE_HOT:
        if (options->hot_counters > OPTION_MOST_COUNTERS)
            return OPTION_COUNTERS_TOO_MANY;
        return option_hot_bytes(options->hot_counters) > memory ? OPTION_COUNTERS_NEED_MEMORY
                                                                : OPTION_FITS;
    case LIVE_TREE_BOUNDED:
    case LIVE_TREE_FUNCTIONS:
        if (options->bounded_bytes < option_least_buffer(options))
            return OPTION_BUFFER_TOO_SMALL;
        return options->bounded_bytes + OPTION_PROCESS_BYTES > memory ? OPTION_BUFFER_NEEDS_MEMORY
                                                                      : OPTION_FITS;
    default:
        return OPTION_FITS;
    }
}

#endif
