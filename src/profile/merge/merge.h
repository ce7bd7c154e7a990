// SPDX-License-Identifier: MIT
#ifndef CAIRN_PROFILE_MERGE_MERGE_H
#define CAIRN_PROFILE_MERGE_MERGE_H

// Several profiles as one: of runs, ranks or machines, or of the same program measured in different
// ways.
//
// Modules are the same if path and build id are. Metrics of the same name and unit add up, others
// stand side by side. All processes stay in the list; their trees are added up per program and
// start routine. Trees of exact calls, which know instrumented functions alone, are laid upon trees
// that were walked, which know all: see merge_partial.h.

#include "profile/profile.h"

enum merge_processes {
    MERGE_BY_PROGRAM,
    MERGE_APART, // every process, and thread, keeps the trees that it has
};

// The profiles, one at a time: of a thousand ranks, only one need be in memory beside the result.
struct merge_source {
    size_t count;
    // The profile of this number, valid until another one is asked for; each is asked for more than
    // once. NULL and one line in *error.
    const struct profile *(*get)(void *context, size_t number, char **error);
    void *context;
    // Of their files: the costs of each are kept, as those of a rank. NULL: sums are enough.
    char *const *names;
};

// NULL and one line in *error, to be freed. The given profiles stay as they are.
struct profile *profile_merge(const struct merge_source *source, enum merge_processes processes,
                              char **error);

#endif
