// SPDX-License-Identifier: MIT
#ifndef CAIRN_PROFILE_RECORDER_LIVE_CONTEXTS_H
#define CAIRN_PROFILE_RECORDER_LIVE_CONTEXTS_H

// The contexts that a process asked for, from its slice to the profile: the new ones since the last
// time. Nothing there is believed; decoding finds the parts that make no sense.

#include "profile/write_records.h"

struct live_contexts_written {
    ref_t sections; // head of the list as it was
    uint32_t nodes; // 0: none yet
    uint64_t bytes; // of all sections
    struct profile_contexts counts;
    uint16_t *modules; // as they were written
    unsigned module_count;
};

// A slice, and what is new in the list of its sections, oldest first.
struct live_contexts_state {
    const struct live_contexts *contexts;
    const struct arena *arena;
    uint64_t bytes; // of the slice that may be touched
    const ref_t *sections;
    size_t section_count;
    uint32_t ready;          // nodes that may be written
    const uint16_t *modules; // from the process' modules to the profile's
    unsigned module_count;
};

// How many nodes are whole. Ask this before the list of sections is read, which then has all that
// they refer to.
uint32_t live_contexts_ready(const struct live_contexts_written *written,
                             const struct live_contexts *contexts, const struct arena *arena,
                             uint64_t bytes);

// Bytes of the slice that are set aside for more of them, and cost nothing as yet.
uint64_t live_contexts_reserved(const struct live_contexts *contexts, const struct arena *arena,
                                uint64_t bytes);

// Writes it. True if anything was new.
bool live_contexts_update(struct live_contexts_written *written,
                          const struct live_contexts_state *state, struct batch *batch,
                          uint32_t process);

#endif
