// SPDX-License-Identifier: MIT
#ifndef CAIRN_CMD_TOP_MODEL_H
#define CAIRN_CMD_TOP_MODEL_H

// A recording that `cairn top` watches: its profile as it was read last, and what has come since
// the reading before.
//
// Contexts of two readings are the same if the names on their paths are: numbers of trees and nodes
// change when the file is rewritten.

#include "analyze/analysis.h"
#include "profile/queries/totals.h"

// Values of a node of top_model.tree.
enum top_value { TOP_ALL, TOP_NOW, TOP_VALUES };

enum top_state {
    TOP_RUNS,
    TOP_ENDED, // in good order
    TOP_CUT,   // nobody writes to the profile any more, and it has no end
};

// All costs by context, as a reading found them.
struct top_costs {
    uint64_t *keys, *values; // `metrics` of each
    size_t count;
    unsigned metrics;
    struct hash_index by_key;
};

// Sums of the recording at a reading.
struct top_sums {
    uint64_t duration_ns, samples, cost_ns, handler_ns;
};

struct top_model {
    const char *path;
    enum top_state state;
    struct analysis analysis; // profile NULL: nothing was read
    struct profile_totals totals;
    struct calltree *whole; // all metrics
    uint64_t *keys;         // by node of `whole`
    struct top_costs before;
    struct top_sums sums, sums_before;
    unsigned metric;       // that the tree has
    struct calltree *tree; // the same nodes as `whole`, with TOP_VALUES
};

// Reads the profile, if it has changed. 0, or -1 and one line in *error: the last reading stays.
int top_read(struct top_model *model, char **error);
void top_free(struct top_model *model);

// Chooses the metric, an index in the profile, and makes the tree of it.
void top_choose(struct top_model *model, unsigned metric);

// The next metric that is a cost, or calls.
unsigned top_next_metric(const struct top_model *model);

// The name of a node below its parent's, in all readings. The root's parent has 0.
uint64_t top_key(uint64_t parent, const struct functions *functions, uint32_t function);

#endif
