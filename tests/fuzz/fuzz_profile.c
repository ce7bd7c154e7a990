// SPDX-License-Identifier: MIT
// The profile reader on any file: what it accepts must be sound, can be written and read again,
// merged and folded. mutate_profile.c makes the inputs.

#include "merge_from_memory.h"
#include "profile/merge/fold.h"
#include "profile/queries/time_range.h"
#include "profile/queries/totals.h"
#include "profile/ranks.h"
#include "profile/reader.h"
#include "profile/timeline.h"
#include "profile/write_records.h"
#include <stdlib.h>

// What everybody who uses a profile relies on.
static void check(bool holds)
{
    if (!holds)
        abort();
}

static void check_place(const struct profile *profile, place_t place)
{
    check(place_module(place) < profile->module_count);
}

static void check_tree(const struct profile *profile, const struct profile_tree *tree)
{
    check(tree->process < profile->process_count && tree->count > 0);
    check_place(profile, tree->start);
    check(tree->creator <= profile->creation_count);
    check(!tree->creator || !profile->creations[tree->creator - 1].function);
    check(tree->nodes[0].parent == PROFILE_NO_PARENT);
    for (uint32_t i = 0; i < tree->count; i++) {
        check_place(profile, tree->nodes[i].site);
        check_place(profile, tree->nodes[i].function);
        volatile uint64_t touched = tree->values[(size_t)i * profile->metric_count];
        (void)touched;
        if (i == 0)
            continue;
        uint32_t parent = tree->nodes[i].parent;
        check(parent < i);
        check(parent == 0 || tree->nodes[parent].function != 0); // statements have no children
    }
}

// As many charges as it says, of nodes and metrics that there are; the sum of their weights.
static uint64_t check_charges(const struct profile *profile, const struct profile_tree *tree)
{
    uint64_t count = 0, weight = 0;
    struct timeline_cursor cursor = timeline_begin(profile, tree);
    for (struct timeline_charge charge; timeline_next(&cursor, &charge); count++) {
        check(charge.node < tree->count && charge.metric < profile->metric_count);
        weight += charge.weight;
    }
    check(count == tree->charges.count);
    return weight;
}

static void check_creations(const struct profile *profile)
{
    for (uint32_t i = 0; i < profile->creation_count; i++) {
        const struct profile_creation *step = &profile->creations[i];
        check(step->parent == PROFILE_NO_PARENT || step->parent < i);
        check_place(profile, step->site);
        check_place(profile, step->function);
    }
}

static volatile uint64_t sum; // of what is read: so that the compiler leaves nothing out

static uint64_t check_ranks(const struct profile *profile)
{
    uint64_t costs = 0;
    for (uint32_t i = 0; i < profile->rank_count; i++) {
        struct rank_cursor cursor;
        check(profile->ranks[i].name != NULL);
        rank_cursor_start(&cursor, profile, i);
        for (const struct rank_cost *cost; (cost = rank_cursor_next(&cursor));) {
            check(cost->node < profile->trees[cost->tree].count);
            costs += cost->value;
        }
    }
    return costs;
}

static void check_profile(const struct profile *profile)
{
    check(profile->command && profile->tracker && profile->tree_kind);
    check_creations(profile);
    check(profile->metric_count > 0 && profile->module_count >= MODULE_FIRST_FILE);
    for (unsigned i = 0; i < profile->metric_count; i++)
        check(profile->metrics[i].name && profile->metrics[i].unit && profile->metrics[i].source);
    for (unsigned i = 0; i < profile->module_count; i++)
        check(profile->modules[i].path && profile->modules[i].build_id_bytes <= 32);
    for (unsigned i = 0; i < profile->process_count; i++)
        check(profile->processes[i].command &&
              (profile->processes[i].merged_into == PROFILE_NOT_MERGED ||
               profile->processes[profile->processes[i].merged_into].merged_into ==
                   PROFILE_NOT_MERGED));
    for (unsigned i = 0; i < profile->process_count; i++) {
        const struct profile_contexts *contexts = &profile->processes[i].contexts;
        for (unsigned j = 0; j < contexts->module_count; j++)
            check(contexts->modules[j] < profile->module_count);
        for (size_t j = 0; j < contexts->bytes; j++)
            sum += contexts->sections[j];
    }
    for (unsigned i = 0; i < profile->tree_count; i++)
        check_tree(profile, &profile->trees[i]);
    for (unsigned i = 0; i < profile->tree_count; i++)
        sum += check_charges(profile, &profile->trees[i]);
    sum += check_ranks(profile);
    for (unsigned i = 0; i < profile->note_count; i++)
        check(profile->notes[i] != NULL);
}

// What was read can be added to itself, also if it is taken to be a profile of calls.
static void check_merge(const struct profile *profile)
{
    struct profile calls = *profile;
    calls.tracker = "calls";
    const struct profile *both[][2] = {{profile, profile}, {profile, &calls}, {&calls, &calls}};
    for (unsigned i = 0; i < 3; i++) {
        char *why = NULL;
        struct profile *merged = profile_merge(
            &(struct merge_source){2, merge_from_memory, both[i], (char *[]){"one", "other"}},
            MERGE_BY_PROGRAM, &why);
        check(merged ? !why : why != NULL);
        if (merged)
            check_profile(merged);
        profile_free(merged);
        free(why);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *error = NULL;
    struct profile *profile = profile_parse(data, size, WRITER_NONE, "fuzz", &error);
    check(profile ? !error : error != NULL);
    free(error);
    if (!profile)
        return 0;
    check_profile(profile);
    struct profile_totals totals;
    profile_sum(profile, &totals);
    // What was read can be written, and what was written reads the same way.
    struct batch batch = {.level = 1};
    write_profile(&batch, profile);
    struct profile *again =
        profile_parse(batch.out.data, batch.out.size, WRITER_NONE, "fuzz", NULL);
    check(again != NULL && again->tree_count == profile->tree_count);
    check(again->creation_count == profile->creation_count);
    for (unsigned i = 0; i < again->process_count; i++)
        check(again->processes[i].contexts.bytes == profile->processes[i].contexts.bytes);
    for (unsigned i = 0; i < again->tree_count; i++)
        check(again->trees[i].count == profile->trees[i].count &&
              again->trees[i].charges.lost == profile->trees[i].charges.lost &&
              check_charges(again, &again->trees[i]) == check_charges(profile, &profile->trees[i]));
    profile_free(again);
    batch_free(&batch);
    check_merge(profile);
    bool *apart = calloc((size_t)profile->process_count + 1, sizeof *apart);
    uint32_t *map = calloc((size_t)profile->tree_count + 1, sizeof *map);
    check(profile_fold(profile, 1, apart, map) == 0);
    check_profile(profile);
    free(apart);
    free(map);
    check(profile_keep_range(profile, &(struct time_range){1000, UINT64_MAX / 2}) == 0);
    check_profile(profile);
    profile_free(profile);
    return 0;
}
