// SPDX-License-Identifier: MIT
#ifndef CAIRN_ANALYZE_TREE_NAME_SUMS_H
#define CAIRN_ANALYZE_TREE_NAME_SUMS_H

// The cost of the threads of each name, and of the processes of each program.

#include "analyze/index/hash_index.h"
#include "analyze/tree/build.h"

struct name_sum {
    char *name;
    uint64_t members; // threads, or processes
    uint64_t cost;
};

// The costliest first.
struct name_sums {
    struct name_sum *sums;
    size_t count, capacity;
    struct hash_index by_name;
};

// Of what the options choose. `costs` are those of the profile's trees; NULL: all their time.
struct name_sums name_sums_threads(struct functions *functions, const struct profile *profile,
                                   const struct build_options *options, const uint64_t *costs);
struct name_sums name_sums_programs(struct functions *functions, const struct profile *profile,
                                    const struct build_options *options, const uint64_t *costs);
void name_sums_free(struct name_sums *sums);

// "cc1 (4), as (4), make": the first ones, and how many more there are. To be freed.
char *name_sums_list(const struct name_sums *sums);

#endif
