// SPDX-License-Identifier: MIT
#include "tree/stable.h"
#include "tree/block_walk.h"
#include <errno.h>

// How far a node's path to the root is known. STANDS and more: it does, and the node has this index
// among those that are kept.
enum { UNKNOWN, ON_THE_WAY, GONE, STANDS, MOST_SLOTS = (1 << 30) - STANDS, TRIES = 1000 };

// Nodes that lie one behind the other in a block: slots `first` and following.
struct run {
    struct block_run nodes;
    uint32_t first;
};

struct stable_reading {
    const struct arena *arena;
    uint64_t arena_bytes;
    struct stable_tree *out;
    struct run *runs; // by `start`, ascending
    uint32_t run_count, most_runs;
    uint32_t slots, most_slots;
};

static uint32_t load(const uint32_t *word)
{
    return __atomic_load_n(word, __ATOMIC_RELAXED);
}

struct size {
    uint64_t runs, slots;
};

static bool measure_run(void *context, const struct block_run *run)
{
    struct size *size = context;
    size->runs++;
    size->slots += run->count;
    return true;
}

static uint64_t bytes_for(const struct size *size)
{
    return size->slots * (sizeof(struct stable_node) + sizeof(uint32_t)) +
           size->runs * sizeof(struct run);
}

int64_t stable_bytes(const struct arena *arena, uint64_t arena_bytes, ref_t tree)
{
    struct size size = {0};
    int result = tree_each_run(arena, arena_bytes, tree, measure_run, &size);
    if (result < 0)
        return result;
    return size.slots <= MOST_SLOTS ? (int64_t)bytes_for(&size) : -EBADMSG;
}

// Sorted while they are collected: blocks nearly always ascend as it is.
static bool add_run(void *context, const struct block_run *found)
{
    struct stable_reading *reading = context;
    struct run run = {.nodes = *found, .first = reading->slots};
    const uint32_t room = reading->most_slots - reading->slots;
    if (reading->run_count == reading->most_runs)
        return false;
    if (run.nodes.count > room)
        run.nodes.count = room;
    reading->slots += run.nodes.count;
    uint32_t at = reading->run_count++;
    for (; at > 0 && reading->runs[at - 1].nodes.start > run.nodes.start; at--)
        reading->runs[at] = reading->runs[at - 1];
    reading->runs[at] = run;
    return reading->slots < reading->most_slots;
}

static void first_copy(struct stable_reading *reading, const struct run *run)
{
    for (uint32_t i = 0; i < run->nodes.count; i++) {
        const ref_t ref = tree_node_of_run(&run->nodes, i);
        const struct node *node = arena_at(reading->arena, ref);
        struct stable_node *copy = &reading->out->nodes[run->first + i];
        copy->edge = load(&node->edge);
        copy->parent = load(&node->parent); // a reference, until the paths are looked at
        copy->ref = ref;
        copy->has_error = run->nodes.metrics > 1;
        copy->monitored = 0;
        copy->state = UNKNOWN;
    }
}

// Reads the values of a node. False if it is another context than it was in the first copy.
static bool take_values(struct stable_node *copy, const struct node *node, unsigned metrics)
{
    // Whether it is monitored may change at any time: its values are read with that. Bytes that
    // change each time are no tree's.
    for (unsigned i = 0; i < TRIES; i++) {
        const ref_t edge = load(&node->edge);
        if ((edge ^ copy->edge) & ~TREE_UNMONITORED || copy->parent != load(&node->parent))
            return false;
        // The values between two looks at the key, in this order for the processor too: the writer
        // changes the key first, and the values then.
        atomic_thread_fence(memory_order_acquire);
        for (unsigned i = 0; i < STABLE_VALUES; i++)
            copy->value[i] = i < metrics ? __atomic_load_n(&node->value[i], __ATOMIC_RELAXED) : 0;
        atomic_thread_fence(memory_order_acquire);
        if (edge == load(&node->edge)) {
            copy->edge = edge;
            return true;
        }
    }
    return false;
}

static void second_copy(struct stable_reading *reading, const struct run *run)
{
    for (uint32_t i = 0; i < run->nodes.count; i++) {
        struct stable_node *copy = &reading->out->nodes[run->first + i];
        const struct node *node = arena_at(reading->arena, tree_node_of_run(&run->nodes, i));
        const bool stands = take_values(copy, node, run->nodes.metrics);
        // A place that is free, and was when the first copy was made, is no loss.
        reading->out->left_out += !stands;
        if (!stands || copy->edge == 0)
            copy->state = GONE;
    }
}

// The slot of a node, by its reference; false if there is none.
static bool find_slot(const struct stable_reading *reading, ref_t ref, uint32_t *slot)
{
    uint32_t low = 0, high = reading->run_count;
    while (low < high) { // behind the last run that starts at or before ref
        uint32_t middle = (low + high) / 2;
        if (reading->runs[middle].nodes.start <= ref)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return false;
    const struct run *run = &reading->runs[low - 1];
    const ref_t units = (ref_t)(tree_node_bytes(run->nodes.metrics) / 8);
    const ref_t away = ref - run->nodes.start;
    if (away % units != 0 || away / units >= run->nodes.count)
        return false;
    *slot = run->first + away / units;
    return true;
}

static void keep(struct stable_reading *reading, uint32_t slot, uint32_t parent)
{
    struct stable_tree *out = reading->out;
    struct stable_node *node = &out->nodes[slot];
    node->parent = parent;
    node->monitored = !(node->edge & TREE_UNMONITORED);
    node->edge &= ~TREE_UNMONITORED;
    node->state = STANDS + out->count;
    out->order[out->count++] = slot;
}

static void leave_out(struct stable_reading *reading, uint32_t slot)
{
    reading->out->nodes[slot].state = GONE;
    reading->out->left_out++;
}

// Goes up from a node until something is known: the slot of it is returned, whose state says what.
// Each node that was passed has the slot it was reached from in the place of its parent, so that
// the way back is known without a stack.
static uint32_t climb(struct stable_reading *reading, uint32_t slot, uint32_t *below)
{
    struct stable_node *nodes = reading->out->nodes;
    *below = STABLE_NO_PARENT;
    while (nodes[slot].state == UNKNOWN) {
        uint32_t up = 0;
        if (!find_slot(reading, nodes[slot].parent, &up)) {
            leave_out(reading, slot);
            break;
        }
        nodes[slot].state = ON_THE_WAY;
        nodes[slot].parent = *below;
        *below = slot;
        slot = up;
    }
    return slot;
}

static void settle(struct stable_reading *reading, uint32_t slot)
{
    struct stable_node *nodes = reading->out->nodes;
    uint32_t below;
    const uint32_t top = climb(reading, slot, &below);
    // If it is on the way itself, the path is a circle, which no tree has.
    const bool stands = nodes[top].state >= STANDS;
    uint32_t parent = stands ? nodes[top].state - STANDS : 0;
    while (below != STABLE_NO_PARENT) {
        const uint32_t next = nodes[below].parent;
        if (stands) {
            keep(reading, below, parent);
            parent = reading->out->count - 1;
        } else {
            leave_out(reading, below);
        }
        below = next;
    }
}

// Divides the caller's memory. False if it has no room for anything.
static bool lay_out(struct stable_reading *reading, const struct size *size, void *memory,
                    size_t bytes)
{
    const uint64_t each = sizeof(struct stable_node) + sizeof(uint32_t);
    const uint64_t run_bytes = size->runs * sizeof(struct run);
    if (run_bytes + each > bytes)
        return false;
    uint64_t slots = (bytes - run_bytes) / each;
    if (slots > size->slots)
        slots = size->slots;
    reading->most_runs = (uint32_t)size->runs;
    reading->most_slots = (uint32_t)slots;
    reading->runs = memory;
    reading->out->nodes = (struct stable_node *)(reading->runs + size->runs);
    reading->out->order = (uint32_t *)(reading->out->nodes + slots);
    return true;
}

int stable_read(struct stable_tree *stable, const struct arena *arena, uint64_t arena_bytes,
                ref_t tree, void *memory, size_t memory_bytes)
{
    struct stable_reading reading = {.arena = arena, .arena_bytes = arena_bytes, .out = stable};
    struct size size = {0};
    uint32_t root = 0;
    *stable = (struct stable_tree){0};
    if (tree_each_run(arena, arena_bytes, tree, measure_run, &size) < 0 || size.slots > MOST_SLOTS)
        return -EBADMSG;
    if (size.slots == 0)
        return 0; // being made
    if (!lay_out(&reading, &size, memory, memory_bytes))
        return -ENOMEM;
    if (tree_each_run(arena, arena_bytes, tree, add_run, &reading) < 0)
        return -EBADMSG;
    for (uint32_t i = 0; i < reading.run_count; i++)
        first_copy(&reading, &reading.runs[i]);
    // All of the one before any of the other. The writer stores a node's key with release.
    atomic_thread_fence(memory_order_acquire);
    for (uint32_t i = 0; i < reading.run_count; i++)
        second_copy(&reading, &reading.runs[i]);
    const struct tree *head = arena_at(arena, tree);
    if (!find_slot(&reading, load(&head->root), &root) || stable->nodes[root].state != UNKNOWN ||
        stable->nodes[root].parent != 0)
        return -EBADMSG;
    keep(&reading, root, STABLE_NO_PARENT);
    for (uint32_t slot = 0; slot < reading.slots; slot++)
        if (stable->nodes[slot].state == UNKNOWN)
            settle(&reading, slot);
    return 0;
}
