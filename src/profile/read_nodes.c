// SPDX-License-Identifier: MIT
#include "profile/read_records.h"
#include "profile/record.h"
#include "profile/timeline_records.h"
#include <stdlib.h>
#include <string.h>

static bool is_lost(const struct profile_node *node)
{
    return node->parent != PROFILE_NO_PARENT && node->site == 0 && node->function == LOST_FUNCTION;
}

static uint64_t node_bytes(const struct loader *loader, uint64_t count)
{
    return count * (sizeof(struct profile_node) + loader->profile->metric_count * sizeof(uint64_t));
}

static bool grow_tree(struct loader *loader, struct profile_tree *tree, uint32_t wanted)
{
    if (!loader_charge(loader, node_bytes(loader, wanted - tree->count)))
        return false;
    if (profile_grow_tree(tree, wanted, loader->profile->metric_count))
        return true;
    loader->out_of_memory = true;
    return false;
}

void loader_forget_nodes(struct loader *loader, struct profile_tree *tree)
{
    loader->memory_budget += node_bytes(loader, tree->count);
    free(tree->nodes);
    free(tree->values);
    tree->nodes = NULL;
    tree->values = NULL;
    tree->count = 0;
    timeline_drop(tree);
}

// Appends stand-ins for nodes of a lost chunk, below the root.
static bool fill_nodes(struct loader *loader, struct profile_tree *tree, uint32_t first)
{
    if (first <= tree->count)
        return first == tree->count;
    uint32_t gap = first - tree->count;
    if (!loader_may_fill(loader, gap, 64))
        return false;
    if (!grow_tree(loader, tree, first))
        return false;
    for (; tree->count < first; tree->count++) {
        bool root = tree->count == 0;
        tree->nodes[tree->count] = (struct profile_node){root ? PROFILE_NO_PARENT : 0, 0,
                                                         root ? tree->start : LOST_FUNCTION};
    }
    loader->lost_nodes += gap;
    return true;
}

static bool is_statement(const struct profile_node *node)
{
    return node->function == 0 && node->parent != PROFILE_NO_PARENT;
}

static bool take_parents(struct cursor *cursor, struct profile_tree *tree, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t index = tree->count + i, distance = cursor_varint32(cursor);
        if (cursor->failed || distance > index || (distance == 0) != (index == 0))
            return false;
        tree->nodes[index].parent = distance ? index - distance : PROFILE_NO_PARENT;
    }
    return true;
}

static bool take_functions(struct loader *loader, struct cursor *cursor, struct profile_node *nodes,
                           uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        place_t module;
        if (!loader_module_of(loader, cursor, &module))
            return false;
        nodes[i].function = module;
    }
    for (uint32_t i = 0; i < count; i++)
        if (nodes[i].function)
            nodes[i].function = place_make(place_module(nodes[i].function), cursor_varint(cursor));
    return !cursor->failed;
}

static bool take_sites(struct loader *loader, struct cursor *cursor, struct profile_node *nodes,
                       uint32_t first, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        place_t module;
        if (!loader_module_of(loader, cursor, &module))
            return false;
        nodes[i].site = module;
    }
    for (uint32_t i = 0; i < count; i++)
        if (nodes[i].site)
            nodes[i].site = place_make(place_module(nodes[i].site),
                                       record_site_base(nodes, first, i) +
                                           (uint64_t)unzigzag(cursor_varint(cursor)));
    return !cursor->failed;
}

static bool take_node_values(struct cursor *cursor, uint64_t *values, uint32_t count,
                             unsigned width, unsigned metrics)
{
    for (uint32_t i = 0; i < count; i++)
        for (unsigned metric = 0; metric < width; metric++)
            values[(size_t)i * metrics + metric] = cursor_varint(cursor);
    return !cursor->failed;
}

bool loader_take_nodes(struct loader *loader, struct cursor *cursor)
{
    uint32_t index = cursor_varint32(cursor), first = cursor_varint32(cursor);
    uint32_t count = cursor_varint32(cursor);
    uint64_t width = cursor_varint(cursor);
    // Each node takes at least three bytes and its values: no need to believe a larger count.
    if (cursor->failed || !loader_want_metrics(loader, width) ||
        count > cursor_left(cursor) / (3 + width) || first > UINT32_MAX - 1 - count ||
        !loader_has_tree(loader, index))
        return false;
    const unsigned metrics = loader->profile->metric_count;
    struct profile_tree *tree = &loader->profile->trees[index];
    // A tree that begins at its root again was announced, in a chunk that was lost.
    if (first == 0 && tree->count > 0 && loader->scan->lost_places)
        loader_forget_nodes(loader, tree);
    if (!fill_nodes(loader, tree, first))
        return false;
    if (count == 0)
        return true;
    if (!grow_tree(loader, tree, first + count))
        return false;
    struct profile_node *nodes = tree->nodes + first;
    uint64_t *values = tree->values + (size_t)first * metrics;
    bool sound = take_parents(cursor, tree, count) &&
                 take_functions(loader, cursor, nodes, count) &&
                 take_sites(loader, cursor, nodes, first, count) &&
                 take_node_values(cursor, values, count, (unsigned)width, metrics);
    for (uint32_t i = 0; sound && i < count; i++)
        sound =
            nodes[i].parent == PROFILE_NO_PARENT || !is_statement(&tree->nodes[nodes[i].parent]);
    if (!sound) {
        loader->memory_budget += node_bytes(loader, count);
        return false;
    }
    tree->count = first + count;
    return true;
}

bool loader_take_values(struct loader *loader, struct cursor *cursor)
{
    uint32_t index = cursor_varint32(cursor), count = cursor_varint32(cursor);
    uint64_t width = cursor_varint(cursor);
    if (cursor->failed || !loader_want_metrics(loader, width) ||
        count > cursor_left(cursor) / (1 + width) || !loader_has_tree(loader, index))
        return false;
    const unsigned metrics = loader->profile->metric_count;
    struct profile_tree *tree = &loader->profile->trees[index];
    struct cursor at = *cursor;
    for (uint32_t i = 0; i < count; i++)
        cursor_varint(cursor); // the values stand behind the indices
    uint64_t node = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t gap = cursor_varint32(&at);
        node += gap;
        if (at.failed || cursor->failed || (i > 0 && gap == 0))
            return false;
        bool lost = node >= tree->count || is_lost(&tree->nodes[node]);
        loader->lost_values += lost;
        for (unsigned metric = 0; metric < width; metric++) {
            uint64_t value = cursor_varint(cursor);
            if (!lost && !cursor->failed)
                tree->values[node * metrics + metric] = value;
        }
    }
    return !cursor->failed;
}
