// SPDX-License-Identifier: MIT
#ifndef CAIRN_PROFILE_RECORD_H
#define CAIRN_PROFILE_RECORD_H

// Constants that write_records.c and read_records.c share, besides docs/format.md.

#include "profile/profile.h"

enum {
    PROCESS_FORKED = 1,
    PROCESS_ENDED = 2,
    PROCESS_EXCLUDES_KERNEL = 4,
    PROCESS_MERGED = 8,
    PROCESS_HAS_COMMAND = 16,
};

// Kinds of records about the kernel.
enum { KERNEL_STATE, KERNEL_FUNCTION };

// Kinds of records about ranks.
enum { RANK_NAME, RANK_COSTS };

// samples .. purged, the state of a hot tree, waits .. hook_ns; without the verdicts
enum { STATS_SUMS = 17 };

enum { ENCODE_NUMBERS = sizeof(struct live_encode) / sizeof(uint64_t) };

enum { ALLOC_NUMBERS = sizeof(struct profile_alloc) / sizeof(uint64_t) };

// Sites are relative to the function that they lie in, if it is in the same section: calls and
// instructions lie near the beginning of their function, and small numbers compress.
static inline uint64_t record_site_base(const struct profile_node *nodes, uint32_t first,
                                        uint32_t i)
{
    if (nodes[i].parent == PROFILE_NO_PARENT || nodes[i].parent < first)
        return 0;
    place_t function = nodes[nodes[i].parent - first].function;
    if (place_module(function) != place_module(nodes[i].site) ||
        place_offset(function) == PLACE_OFFSET_UNKNOWN)
        return 0;
    return place_offset(function);
}

#endif
