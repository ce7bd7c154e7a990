// SPDX-License-Identifier: MIT
#ifndef CAIRN_TESTS_MERGE_FIXTURE_H
#define CAIRN_TESTS_MERGE_FIXTURE_H

// Small profiles, merged, and the values of their nodes.

#include "make_profile.h"
#include "merge_from_memory.h"
#include "profile/merge/rank_costs.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
// after those above
#include <cmocka.h>

#define AT(module, offset) place_make(module, offset)

static inline struct profile *merge(size_t count, struct profile **profiles,
                                    enum merge_processes how)
{
    char *error = NULL;
    struct profile *merged = profile_merge(
        &(struct merge_source){count, merge_from_memory, profiles, NULL}, how, &error);
    if (!merged)
        fail_msg("%s", error);
    return merged;
}

static inline struct profile *merge2(struct profile *one, struct profile *other)
{
    return merge(2, (struct profile *[]){one, other}, MERGE_BY_PROGRAM);
}

// What a rank has of a metric, in all trees together.
static inline uint64_t rank_sum(const struct profile *profile, uint32_t rank, unsigned metric)
{
    uint64_t sum = 0;
    struct rank_cursor cursor;
    rank_cursor_start(&cursor, profile, rank);
    for (const struct rank_cost *cost; (cost = rank_cursor_next(&cursor));)
        sum += cost->metric == metric ? cost->value : 0;
    return sum;
}

static inline uint64_t sum(const struct profile *profile, const char *metric, bool statements)
{
    uint64_t sum = 0;
    for (unsigned m = 0; m < profile->metric_count; m++)
        for (unsigned t = 0; t < profile->tree_count; t++)
            for (uint32_t i = 0; i < profile->trees[t].count; i++)
                if (strcmp(profile->metrics[m].name, metric) == 0 &&
                    (profile->trees[t].nodes[i].function == 0) == statements)
                    sum += profile->trees[t].values[(size_t)i * profile->metric_count + m];
    return sum;
}

static inline uint64_t value(const struct profile *profile, unsigned tree, uint32_t node,
                             const char *metric)
{
    for (unsigned m = 0; m < profile->metric_count; m++)
        if (strcmp(profile->metrics[m].name, metric) == 0)
            return profile->trees[tree].values[(size_t)node * profile->metric_count + m];
    fail_msg("there is no metric %s", metric);
    return 0;
}

// The child of a node that is the function at an offset of the program; fails if it is not alone.
static inline uint32_t child(const struct profile *profile, unsigned tree, uint32_t parent,
                             uint64_t offset)
{
    uint32_t found = UINT32_MAX;
    for (uint32_t i = 1; i < profile->trees[tree].count; i++) {
        const struct profile_node *node = &profile->trees[tree].nodes[i];
        if (node->parent == parent && node->function && place_offset(node->function) == offset) {
            assert_int_equal(found, UINT32_MAX);
            found = i;
        }
    }
    assert_int_not_equal(found, UINT32_MAX);
    return found;
}

static inline void set_frame(struct profile *profile, unsigned tree, uint32_t node, uint64_t count)
{
    profile->trees[tree].values[(size_t)node * profile->metric_count] = count;
}

// main calls f and, in a thread, g. `skip` moves the module numbers.
static inline struct profile *small(unsigned skip, uint64_t scale, const char *program)
{
    struct profile *profile = make_profile("cpu", "ns", 1000000);
    char path[64];
    for (unsigned i = 0; i < skip; i++) {
        snprintf(path, sizeof path, "/lib/skipped%u.so", i);
        make_module(profile, path);
    }
    snprintf(path, sizeof path, "/bin/%s", program);
    unsigned exe = make_module(profile, path);
    unsigned process = make_process(profile, 100 + skip, 1, path);
    unsigned tree = make_tree(profile, process, 0);
    uint32_t main_ = make_frame(profile, tree, 0, AT(exe, 0x10), AT(exe, 0x100));
    uint32_t f = make_frame(profile, tree, main_, AT(exe, 0x110), AT(exe, 0x200));
    set_frame(profile, tree, f, 7);
    make_statement(profile, tree, main_, AT(exe, 0x120), 5 * scale);
    make_statement(profile, tree, f, AT(exe, 0x220 + skip), 3 * scale);
    tree = make_tree(profile, process, AT(exe, 0x300));
    uint32_t g = make_frame(profile, tree, 0, 0, AT(exe, 0x300));
    make_statement(profile, tree, g, AT(exe, 0x310), 11 * scale);
    return profile;
}

#endif
