// SPDX-License-Identifier: MIT
#include "profile/profile.h"
#include "base/memory.h"
#include "profile/chunks/output.h"
#include "profile/loader.h"
#include "profile/place_names.h"
#include "profile/write_records.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static size_t capacity_for(size_t count)
{
    return count <= 1 ? count : (size_t)1 << (64 - __builtin_clzll(count - 1));
}

bool profile_grow(void **array, size_t count, size_t wanted, size_t each)
{
    size_t old = capacity_for(count), capacity = capacity_for(wanted);
    if (capacity <= old)
        return true;
    void *grown = reallocarray(*array, capacity, each);
    if (!grown)
        return false;
    memory_expect_use(grown, capacity * each);
    memset((char *)grown + old * each, 0, (capacity - old) * each);
    *array = grown;
    return true;
}

bool profile_grow_tree(struct profile_tree *tree, uint32_t wanted, unsigned metrics)
{
    // In one step or not at all: both arrays follow one count.
    size_t old = capacity_for(tree->count), capacity = capacity_for(wanted);
    if (capacity > old) {
        struct profile_node *nodes = reallocarray(tree->nodes, capacity, sizeof *nodes);
        if (!nodes)
            return false;
        tree->nodes = nodes;
        memory_expect_use(nodes, capacity * sizeof *nodes);
        uint64_t *values = reallocarray(tree->values, capacity, metrics * sizeof *values);
        if (!values)
            return false;
        tree->values = values;
        memory_expect_use(values, capacity * metrics * sizeof *values);
    }
    // The memory beyond is not touched yet, so it costs nothing.
    if (wanted > tree->count) {
        const size_t more = wanted - tree->count;
        memset(tree->nodes + tree->count, 0, more * sizeof *tree->nodes);
        memset(tree->values + (size_t)tree->count * metrics, 0,
               more * metrics * sizeof *tree->values);
    }
    return true;
}

bool profile_widen_tree(struct profile_tree *tree, unsigned metrics, unsigned wanted)
{
    size_t capacity = capacity_for(tree->count);
    if (capacity == 0)
        return true;
    uint64_t *values = calloc(capacity, wanted * sizeof *values);
    if (!values)
        return false;
    for (size_t i = 0; i < tree->count; i++)
        memcpy(values + i * wanted, tree->values + i * metrics, metrics * sizeof *values);
    free(tree->values);
    tree->values = values;
    return true;
}

uint64_t profile_nodes(const struct profile *profile)
{
    uint64_t nodes = 0;
    for (unsigned i = 0; i < profile->tree_count; i++)
        nodes += profile->trees[i].count;
    return nodes;
}

static void free_words(char **words)
{
    for (char **word = words; word && *word; word++)
        free(*word);
    free(words);
}

void profile_free(struct profile *profile)
{
    if (!profile)
        return;
    free_words(profile->command);
    free(profile->tracker);
    free(profile->tree_kind);
    for (unsigned i = 0; i < profile->metric_count; i++) {
        free(profile->metrics[i].name);
        free(profile->metrics[i].unit);
        free(profile->metrics[i].source);
    }
    free(profile->metrics);
    for (unsigned i = 0; i < profile->module_count; i++)
        free(profile->modules[i].path);
    free(profile->modules);
    for (unsigned i = 0; i < profile->function_count; i++)
        free(profile->functions[i].name);
    free(profile->functions);
    for (unsigned i = 0; i < profile->place_count; i++)
        place_names_free(&profile->places[i]);
    free(profile->places);
    free(profile->kernel);
    for (unsigned i = 0; i < profile->process_count; i++) {
        free_words(profile->processes[i].command);
        free(profile->processes[i].contexts.sections);
        free(profile->processes[i].contexts.modules);
    }
    free(profile->processes);
    for (unsigned i = 0; i < profile->tree_count; i++) {
        free(profile->trees[i].nodes);
        free(profile->trees[i].values);
        free(profile->trees[i].charges.sections);
    }
    free(profile->trees);
    free(profile->creations);
    free(profile->blames);
    for (uint32_t i = 0; i < profile->rank_count; i++) {
        free(profile->ranks[i].name);
        free(profile->ranks[i].costs);
    }
    free(profile->ranks);
    for (unsigned i = 0; i < profile->note_count; i++)
        free(profile->notes[i]);
    free(profile->notes);
    free(profile);
}

int profile_write(const struct profile *profile, const char *path)
{
    struct batch batch = {0};
    write_profile(&batch, profile);
    int result = batch.out.failed ? -ENOMEM : output_replace(path, &batch.out);
    batch_free(&batch);
    return result;
}
