// SPDX-License-Identifier: MIT
#include "profile/recorder/live_lossy_tree.h"
#include "profile/loader.h"
#include "tree/bounded/bounded.h"
#include "tree/stable.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

// A tree of this many nodes may be written anew each second; a larger one every other second, and
// so on. When its process is gone it is written whatever its size.
enum { NODES_A_SECOND = 50000, MOST_TRIES = 8 };

// The result of a reading of the tree, in the form of a profile.
struct tree_reading {
    struct profile_node *nodes;
    uint64_t *values;
    uint32_t count;
    uint32_t capacity;
    unsigned metrics;
    uint32_t frames;
    uint64_t calls;
};

static bool reserve(struct tree_reading *reading, uint32_t capacity)
{
    reading->capacity = capacity;
    reading->nodes = calloc(capacity, sizeof *reading->nodes);
    reading->values = calloc(capacity, reading->metrics * sizeof *reading->values);
    return reading->nodes && reading->values;
}

static uint64_t *add_node(struct tree_reading *reading, uint32_t parent, place_t site,
                          place_t function)
{
    reading->nodes[reading->count] =
        (struct profile_node){.parent = parent, .site = site, .function = function};
    return &reading->values[(size_t)reading->count++ * reading->metrics];
}

static place_t mapped(const struct place_mapper *mapper, place_t place)
{
    return place ? mapper->map(mapper->context, place) : 0;
}

// A frame and, if it has a cost of its own, the statement that bears it.
static void add_frame(struct tree_reading *reading, const struct stable_node *node, uint32_t parent,
                      const struct edge *edge, const struct live_sink *sink)
{
    const uint32_t number = reading->count;
    uint64_t *frame = add_node(reading, parent, edge->site, edge->function);
    const unsigned bound = node->has_error ? sink->bound_metric : 0;
    reading->frames += parent != PROFILE_NO_PARENT;
    if (sink->follows_calls) {
        frame[sink->calls_metric] = node->value[0];
        reading->calls += node->value[0];
        if (bound)
            frame[bound] = node->value[1];
        return;
    }
    if (!node->has_error && sink->tree->keeps_all) {
        frame[0] = node->value[0]; // returns: it was made while the tree had room for all
        return;
    }
    if (bound && sink->tree->weighs_edges)
        frame[bound] = node->value[1];
    if (node->value[0] == 0)
        return;
    uint64_t *statement = add_node(reading, number, 0, 0);
    statement[0] = node->value[0];
    if (bound && !sink->tree->weighs_edges)
        statement[bound] = node->value[1];
}

// Full trees have them, also among the nodes that come and go since their memory was used up.
static void add_statement(struct tree_reading *reading, const struct stable_node *node,
                          uint32_t parent, const struct edge *edge, const struct live_sink *sink)
{
    uint64_t *statement = add_node(reading, parent, edge->site, 0);
    statement[0] = node->value[0];
    if (node->has_error && sink->bound_metric && !sink->follows_calls)
        statement[sink->bound_metric] = node->value[1];
}

static bool convert(struct tree_reading *reading, const struct stable_tree *stable,
                    const struct tree_source *source, const struct live_sink *sink)
{
    uint32_t *numbers = malloc((stable->count + (size_t)1) * sizeof *numbers);
    if (!numbers || !reserve(reading, stable->count * 2 + 1)) {
        free(numbers);
        return false;
    }
    bool sound = true;
    for (uint32_t i = 0; i < stable->count && sound; i++) {
        const struct stable_node *node = stable_at(stable, i);
        const bool root = node->parent == STABLE_NO_PARENT;
        struct edge edge;
        sound = tree_edge_read(source->arena, source->bytes, node->edge, &edge);
        if (!sound)
            break;
        edge.site = mapped(&source->mapper, edge.site);
        edge.function = mapped(&source->mapper, edge.function);
        numbers[i] = reading->count;
        uint32_t parent = root ? PROFILE_NO_PARENT : numbers[node->parent];
        // Nothing hangs below a statement, which has no function.
        sound = root || parent == 0 || reading->nodes[parent].function != 0;
        if (!sound)
            break;
        if (root || edge.function)
            add_frame(reading, node, parent, &edge, sink);
        else
            add_statement(reading, node, parent, &edge, sink);
    }
    free(numbers);
    return sound;
}

static bool same_nodes(const struct live_tree *tree, const struct tree_reading *reading)
{
    if (tree->count != reading->count || tree->width != reading->metrics || !tree->nodes)
        return false;
    for (uint32_t i = 0; i < reading->count; i++)
        if (tree->nodes[i].parent != reading->nodes[i].parent ||
            tree->nodes[i].site != reading->nodes[i].site ||
            tree->nodes[i].function != reading->nodes[i].function)
            return false;
    return true;
}

// The values that are others than before. False: out of memory, so write all of it anew.
static bool put_values(const struct live_tree *tree, const struct tree_reading *reading,
                       struct live_sink *sink, bool *changed)
{
    const unsigned metrics = reading->metrics;
    const size_t each = metrics * sizeof *reading->values;
    uint32_t *indices = malloc((reading->count + (size_t)1) * sizeof *indices);
    uint64_t *values = malloc((reading->count + (size_t)1) * each);
    uint32_t count = 0;
    if (indices && values) {
        for (uint32_t i = 0; i < reading->count; i++) {
            const uint64_t *now = &reading->values[(size_t)i * metrics];
            if (!memcmp(now, &tree->values[(size_t)i * metrics], each))
                continue;
            indices[count] = i;
            memcpy(&values[(size_t)count++ * metrics], now, each);
        }
        sink->retold += count;
        write_values(sink->batch,
                     &(struct written_values){tree->index, count, indices, values, metrics});
        *changed = count > 0;
    }
    const bool allocated = indices && values;
    free(indices);
    free(values);
    return allocated;
}

static bool put_tree(struct live_tree *tree, const struct tree_reading *reading,
                     struct live_sink *sink)
{
    bool changed = true;
    if (same_nodes(tree, reading) && put_values(tree, reading, sink, &changed))
        return changed;
    if (tree->count)
        write_anew(sink->batch, tree->index);
    sink->retold += tree->count;
    write_nodes(sink->batch, &(struct written_nodes){.tree = tree->index,
                                                     .count = reading->count,
                                                     .nodes = reading->nodes,
                                                     .values = reading->values,
                                                     .metrics = reading->metrics});
    return true;
}

static void remember(struct live_tree *tree, const struct tree_reading *reading,
                     struct live_sink *sink)
{
    struct recorder_totals *totals = sink->totals;
    totals->nodes += (uint64_t)reading->count - tree->count; // fewer is a difference, too
    totals->frames += (uint64_t)reading->frames - tree->frames;
    totals->calls += reading->calls - tree->calls;
    free(tree->nodes);
    free(tree->values);
    tree->nodes = reading->nodes;
    tree->values = reading->values;
    tree->count = reading->count;
    tree->width = reading->metrics;
    tree->frames = reading->frames;
    tree->calls = reading->calls;
}

static bool is_its_turn(struct live_tree *tree, enum live_presence presence)
{
    if (presence == PROCESS_IS_GONE || tree->skip == 0)
        return true;
    tree->skip--;
    return false;
}

// The edges of a bounded tree are given to others, too, now and then: a reading in which that
// happened names wrong functions, and is made again. So is one of a tree that has outgrown the
// memory for it meanwhile. False: it is damaged.
static bool read_once(struct tree_reading *reading, const struct tree_source *source, ref_t ref,
                      const struct live_sink *sink, bool *whole)
{
    const struct arena *arena = source->arena;
    const uint64_t bytes = source->bytes;
    const uint32_t epoch = sink->tree->has_buffer ? bounded_edge_epoch(arena, bytes, ref) : 0;
    const int64_t room = stable_bytes(arena, bytes, ref);
    void *memory = room > 0 ? malloc((size_t)room) : NULL;
    struct stable_tree stable;
    const int result = room < 0  ? (int)room
                       : !memory ? -ENOMEM
                                 : stable_read(&stable, arena, bytes, ref, memory, (size_t)room);
    const bool sound = result == 0 && convert(reading, &stable, source, sink);
    free(memory);
    *whole = false;
    if (result == -ENOMEM)
        return true;
    // Where calls are the event, counts may have more than there were, or less.
    struct tree_hot hot;
    if (sound && sink->follows_calls && sink->calls_metric == 0 &&
        tree_hot_read(arena, bytes, ref, &hot))
        reading->calls -= hot.made_up;
    *whole = !sink->tree->has_buffer || epoch == bounded_edge_epoch(arena, bytes, ref);
    return sound;
}

static void forget(struct tree_reading *reading)
{
    free(reading->nodes);
    free(reading->values);
    *reading = (struct tree_reading){.metrics = reading->metrics};
}

bool live_lossy_tree_update(struct live_tree *tree, const struct tree_source *source, ref_t ref,
                            struct live_sink *sink)
{
    if (!is_its_turn(tree, source->presence))
        return false;
    if (stable_bytes(source->arena, source->bytes, ref) == 0)
        return false; // being made
    struct tree_reading reading = {.metrics = sink->metrics};
    bool sound = true, whole = false;
    for (unsigned tries = 0; sound && !whole && tries < MOST_TRIES; tries++) {
        forget(&reading);
        sound = read_once(&reading, source, ref, sink, &whole);
    }
    if (!sound || !whole) {
        tree->damaged = !sound;
        forget(&reading);
        return false;
    }
    const bool changed = put_tree(tree, &reading, sink);
    remember(tree, &reading, sink);
    tree->skip = reading.count / NODES_A_SECOND;
    return changed;
}
