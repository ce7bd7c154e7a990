// SPDX-License-Identifier: MIT
#ifndef CAIRN_AGENT_API_CONTEXTS_H
#define CAIRN_AGENT_API_CONTEXTS_H

// The contexts of this process at one moment: all its trees laid upon each other, in memory of the
// reader's own. The trees go on growing meanwhile.
//
//   contexts[0]  the root           every other context stands behind its parent
//   contexts[i]  parent, (call site, function), own cost, cost with all below, error

#include "live/live.h"
#include "tree/stable.h"

struct api_context {
    uint32_t parent;
    uint32_t depth; // frames up to the root
    struct edge edge;
    uint64_t own, total, error, weight;
};

struct api_contexts {
    struct api_context *contexts;
    uint32_t count, most;
    uint32_t *slots; // hash of (parent, edge): index, 0 is free
    uint32_t slot_count;
    size_t mapped; // of contexts and slots together
};

void api_contexts_close(struct api_contexts *contexts);

// Whether the tree is of this side of the last purge.
bool api_is_asked_for(const struct live_thread *record);

// Whether the second value of a node is the weight of its edge, rather than an error.
bool api_has_weights(void);

// All trees of this process that are not purged. 0 or -errno.
int api_contexts_read(struct api_contexts *contexts);

// Those of one context, edge or function as one: an edge's and a function's parent is the root.
enum api_grouping { API_BY_EDGE, API_BY_FUNCTION };
int api_contexts_group(struct api_contexts *groups, const struct api_contexts *contexts,
                       enum api_grouping grouping);

// One tree as it is now; no node if it is being made. 0 or -ENOMEM. The caller must close it.
struct api_tree {
    struct stable_tree stable;
    void *memory;
    size_t mapped;
};
int api_read_tree(struct api_tree *tree, ref_t ref);
void api_close_tree(struct api_tree *tree);

#endif
