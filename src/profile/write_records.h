// SPDX-License-Identifier: MIT
#ifndef CAIRN_PROFILE_WRITE_RECORDS_H
#define CAIRN_PROFILE_WRITE_RECORDS_H

// From the nouns of a profile to records in chunks (docs/format.md). Records of one kind are
// collected in one payload each and become chunks together, because many small chunks would not
// compress.

#include "profile/chunks/chunk.h"
#include "profile/profile.h"

struct batch {
    struct bytes payload[CHUNK_TYPES];
    struct bytes out; // chunks, ready to be written
    int level;        // of compression
};

void batch_free(struct batch *batch);

// Turns what was collected into chunks, in an order in which what refers to something comes after
// it.
void batch_flush(struct batch *batch);

// The same if a payload has grown large: damage then costs at most about that much.
void batch_flush_large(struct batch *batch);

void write_session(struct batch *batch, const struct profile *profile);
void write_module(struct batch *batch, unsigned id, const struct profile_module *module);
void write_process(struct batch *batch, uint32_t index, const struct profile_process *process);
// The same without the command, which an earlier record has.
void write_process_again(struct batch *batch, uint32_t index,
                         const struct profile_process *process);
void write_tree(struct batch *batch, uint32_t index, const struct profile_tree *tree);

// Nodes that are encoded together: a caller with more of them, one after the other, need not keep
// them.
#define WRITE_SECTION (1u << 16)

// The nodes first .. first + count - 1 of a tree; nodes and values point to the first of them.
struct written_nodes {
    uint32_t tree, first, count;
    const struct profile_node *nodes;
    const uint64_t *values; // count * metrics
    unsigned metrics;
};
void write_nodes(struct batch *batch, const struct written_nodes *written);

// Drops the nodes of a tree, all of which are written from number 0 on again.
void write_anew(struct batch *batch, uint32_t tree);

// New values of nodes that were written before; indices ascend.
struct written_values {
    uint32_t tree, count;
    const uint32_t *indices;
    const uint64_t *values; // count * metrics
    unsigned metrics;
};
void write_values(struct batch *batch, const struct written_values *written);
void write_note(struct batch *batch, const char *text);
void write_blame(struct batch *batch, const struct profile_blame *blame);
void write_kernel(struct batch *batch, const char *kernel);
void write_function(struct batch *batch, const struct profile_function *function);
void write_overhead(struct batch *batch, const struct profile_overhead *overhead);
void write_state(struct batch *batch, uint64_t duration_ns, bool complete);

// A whole profile, from file head to state. The batch's level is chosen by its size.
void write_profile(struct batch *batch, const struct profile *profile);

#endif
