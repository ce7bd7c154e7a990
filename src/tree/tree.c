// SPDX-License-Identifier: MIT
#include "tree/tree.h"
#include "tree/bounded.h"
#include "tree/layout.h"

// What a tree begins with. Thousands of threads may live at once and most of them take few samples,
// so everything starts small (about 1.5 KB with one metric) and doubles.
enum {
    FIRST_NODES = 16,
    MOST_NODES = 4096,
    FIRST_EDGES = 16,
    MOST_EDGES = 2048,
    FIRST_EDGE_SLOTS = 32,
    RESERVE_NODES = 16,
    // Measured (bench/tree_children.c): move-to-front beats a plain list from four children on, and
    // from about eight a hash is as fast; a few more in the list save the memory of most hashes.
    LIST_CHILDREN = 12,
    FIRST_CHILD_SLOTS = 32,
    // With the arena full no hash can be made; a list may then grow this long before it costs too
    // much.
    LONGEST_LIST = 64,
};

static struct tree *tree_at(const struct arena *arena, ref_t tree)
{
    return arena_at(arena, tree);
}

static struct node *node_at(const struct arena *arena, ref_t node)
{
    return arena_at(arena, node);
}

static uint32_t mix(uint64_t value)
{
    value *= UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(value >> 32);
}

static uint32_t hash_edge(place_t site, place_t function)
{
    return mix((site ^ site >> 32) + (function << 20 | function >> 44) * 3);
}

// The most records of `each` bytes, at most `wanted`, that a block with `head` bytes before them
// can hold in what is left of the arena. Asking first keeps the count of refusals honest.
static uint32_t records_that_fit(const struct arena *arena, size_t head, size_t each,
                                 uint32_t wanted)
{
    const struct arena_head *limits = arena_head(arena);
    uint64_t used = atomic_load_explicit(&limits->used, memory_order_relaxed);
    uint64_t room = used < limits->limit ? limits->limit - used : 0;
    if (room < head + each)
        return 0;
    uint64_t fits = (room - head) / each;
    return fits < wanted ? (uint32_t)fits : wanted;
}

// Another thread may take the room between the question and the allocation: then ask again for
// less.
static ref_t alloc_records(struct arena *arena, size_t head, size_t each, uint32_t *count)
{
    for (;;) {
        *count = records_that_fit(arena, head, each, *count);
        if (*count == 0)
            return 0;
        ref_t block = arena_alloc(arena, head + each * *count);
        if (block)
            return block;
    }
}

static ref_t node_block_new(struct arena *arena, unsigned metrics, uint32_t capacity)
{
    ref_t ref =
        alloc_records(arena, sizeof(struct node_block), tree_node_bytes(metrics), &capacity);
    if (ref) {
        struct node_block *block = arena_at(arena, ref);
        block->capacity = capacity;
        block->metrics = metrics;
    }
    return ref;
}

static ref_t node_in_block(struct arena *arena, ref_t ref, ref_t parent, ref_t edge)
{
    struct node_block *block = arena_at(arena, ref);
    uint32_t used = atomic_load_explicit(&block->used, memory_order_relaxed);
    ref_t node = tree_node_in_block(ref, block->metrics, used);
    node_at(arena, node)->edge = edge;
    node_at(arena, node)->parent = parent;
    // The owner writes, scanning readers read. Release: who sees the count sees the node's key.
    atomic_store_explicit(&block->used, used + 1, memory_order_release);
    return node;
}

static bool block_is_full(const struct arena *arena, ref_t ref)
{
    const struct node_block *block = arena_at(arena, ref);
    return atomic_load_explicit(&block->used, memory_order_relaxed) >= block->capacity;
}

static void append_block(struct arena *arena, struct tree *tree, ref_t ref)
{
    struct node_block *last = arena_at(arena, tree->last_block);
    // The owner writes, readers follow. Release: the new block's head is readable. Only a full
    // block gets a successor, which is what lets readers see parents before children (see
    // tree_scan).
    atomic_store_explicit(&last->next, ref, memory_order_release);
    tree->last_block = ref;
}

// Room for one more node in the last block; with `reserve`, from the reserve too.
static bool make_room(struct arena *arena, struct tree *tree, bool reserve)
{
    if (!block_is_full(arena, tree->last_block))
        return tree->last_block != tree->reserve || reserve;
    if (tree->last_block == tree->reserve)
        return false;
    if (!tree->full) {
        const struct node_block *last = arena_at(arena, tree->last_block);
        uint32_t capacity = last->capacity < MOST_NODES ? last->capacity * 2 : MOST_NODES;
        ref_t block = node_block_new(arena, tree->metrics, capacity);
        if (block) {
            append_block(arena, tree, block);
            return true;
        }
        tree->full = 1; // an arena only fills: asking again would be in vain
    }
    if (reserve)
        append_block(arena, tree, tree->reserve);
    return reserve;
}

// The caller has made room.
static ref_t node_new(struct arena *arena, struct tree *tree, ref_t parent, ref_t edge)
{
    ref_t node = node_in_block(arena, tree->last_block, parent, edge);
    // The owner writes; a count for readers that orders nothing, so relaxed.
    atomic_store_explicit(&tree->nodes,
                          atomic_load_explicit(&tree->nodes, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    return node;
}

// Edges

static ref_t *edge_slot(const struct arena *arena, const struct tree *tree, place_t site,
                        place_t function)
{
    ref_t *slots = arena_at(arena, tree->edge_slots);
    uint32_t mask = tree->edge_slot_count - 1;
    for (uint32_t at = hash_edge(site, function) & mask;; at = (at + 1) & mask) {
        if (slots[at] == 0)
            return &slots[at];
        const struct edge *edge = arena_at(arena, slots[at]);
        if (edge->site == site && edge->function == function)
            return &slots[at];
    }
}

static const ref_t *first_edge_slot(const struct arena *arena, const struct tree *tree,
                                    place_t site, place_t function)
{
    const ref_t *slots = arena_at(arena, tree->edge_slots);
    return &slots[hash_edge(site, function) & (tree->edge_slot_count - 1)];
}

void tree_expect_edge(const struct arena *arena, ref_t ref, place_t site, place_t function)
{
    const struct tree *tree = tree_at(arena, ref);
    if (tree->edge_slot_count)
        __builtin_prefetch(first_edge_slot(arena, tree, site, function));
}

void tree_expect_edge_record(const struct arena *arena, ref_t ref, place_t site, place_t function)
{
    const struct tree *tree = tree_at(arena, ref);
    if (tree->edge_slot_count)
        __builtin_prefetch(arena_at(arena, *first_edge_slot(arena, tree, site, function)));
}

// The old table is left behind: all of them together are as large as the newest.
static bool grow_edge_slots(struct arena *arena, struct tree *tree)
{
    uint32_t old_count = tree->edge_slot_count;
    const ref_t *old = arena_at(arena, tree->edge_slots);
    if (tree->full || old_count > UINT32_MAX / 2)
        return false;
    ref_t grown = arena_alloc(arena, (size_t)old_count * 2 * sizeof(ref_t));
    if (!grown)
        return false;
    tree->edge_slots = grown;
    tree->edge_slot_count = old_count * 2;
    for (uint32_t i = 0; i < old_count; i++) {
        if (old[i]) {
            const struct edge *edge = arena_at(arena, old[i]);
            *edge_slot(arena, tree, edge->site, edge->function) = old[i];
        }
    }
    return true;
}

static ref_t edge_new(struct arena *arena, struct tree *tree, place_t site, place_t function)
{
    if (tree->edges_left == 0) {
        if (tree->full)
            return 0;
        uint32_t count = tree->edge_block_size * 2;
        if (count > MOST_EDGES)
            count = MOST_EDGES;
        ref_t block = alloc_records(arena, 0, sizeof(struct edge), &count);
        if (!block)
            return 0;
        tree->next_edge = block;
        tree->edges_left = tree->edge_block_size = count;
    }
    ref_t ref = tree->next_edge;
    struct edge *edge = arena_at(arena, ref);
    edge->site = site;
    edge->function = function;
    tree->next_edge += sizeof(struct edge) / 8;
    tree->edges_left--;
    return ref;
}

ref_t tree_edge(struct arena *arena, ref_t ref, place_t site, place_t function)
{
    struct tree *tree = tree_at(arena, ref);
    // The tool zeroes the memory of processes that it takes for dead. Should it ever be wrong, a
    // process that lives on finds an empty tree: it must do nothing then, rather than fault.
    if (tree->edge_slot_count == 0)
        return 0;
    ref_t *slot = edge_slot(arena, tree, site, function);
    ref_t known = *slot;
    if (known)
        return known;
    if (tree->edge_count >= tree->edge_slot_count / 4 * 3) {
        if (grow_edge_slots(arena, tree))
            slot = edge_slot(arena, tree, site, function);
        else if (tree->edge_count >= tree->edge_slot_count / 8 * 7)
            return 0; // fuller, and every search would become long
    }
    ref_t edge = edge_new(arena, tree, site, function);
    if (edge) {
        *slot = edge;
        tree->edge_count++;
    }
    return edge;
}

// Children in a hash

static struct child_slot *child_slot(struct fanout *fanout, ref_t edge)
{
    uint32_t mask = fanout->slot_count - 1;
    uint32_t at = mix(edge) & mask;
    while (fanout->slots[at].edge != 0 && fanout->slots[at].edge != edge)
        at = (at + 1) & mask;
    return &fanout->slots[at];
}

static ref_t fanout_new(struct arena *arena, uint32_t slots)
{
    ref_t ref = arena_alloc(arena, sizeof(struct fanout) + slots * sizeof(struct child_slot));
    if (ref)
        ((struct fanout *)arena_at(arena, ref))->slot_count = slots;
    return ref;
}

static void fanout_put(struct fanout *fanout, const struct tree *tree, ref_t edge, ref_t node)
{
    // Apart, because it must find a place even when the hash is full and cannot grow.
    if (edge == tree->unplaced_edge) {
        fanout->unplaced = node;
        return;
    }
    *child_slot(fanout, edge) = (struct child_slot){edge, node};
    fanout->count++;
}

static ref_t fanout_find(struct fanout *fanout, const struct tree *tree, ref_t edge)
{
    return edge == tree->unplaced_edge ? fanout->unplaced : child_slot(fanout, edge)->node;
}

static void fanout_from_list(struct arena *arena, const struct tree *tree, struct node *parent)
{
    ref_t ref = tree->full ? 0 : fanout_new(arena, FIRST_CHILD_SLOTS);
    if (!ref)
        return; // the list still works
    struct fanout *fanout = arena_at(arena, ref);
    for (ref_t child = parent->child; child; child = node_at(arena, child)->sibling)
        fanout_put(fanout, tree, node_at(arena, child)->edge, child);
    parent->child = ref;
}

// Room for one more child, if need be in a hash twice as large. Null: no room.
static struct fanout *fanout_with_room(struct arena *arena, const struct tree *tree,
                                       struct node *parent)
{
    struct fanout *fanout = arena_at(arena, parent->child);
    if (fanout->count < fanout->slot_count / 4 * 3)
        return fanout;
    ref_t ref = tree->full ? 0 : fanout_new(arena, fanout->slot_count * 2);
    if (!ref)
        return fanout->count < fanout->slot_count / 8 * 7 ? fanout : NULL;
    struct fanout *grown = arena_at(arena, ref);
    grown->unplaced = fanout->unplaced;
    for (uint32_t i = 0; i < fanout->slot_count; i++)
        if (fanout->slots[i].edge)
            fanout_put(grown, tree, fanout->slots[i].edge, fanout->slots[i].node);
    parent->child = ref;
    return grown;
}

static ref_t child_in_hash(struct arena *arena, struct tree *tree, ref_t parent, ref_t edge,
                           bool reserve)
{
    struct node *node = node_at(arena, parent);
    struct fanout *fanout = arena_at(arena, node->child);
    ref_t found = fanout_find(fanout, tree, edge);
    if (found)
        return found;
    if (edge != tree->unplaced_edge)
        fanout = fanout_with_room(arena, tree, node);
    if (!fanout || !make_room(arena, tree, reserve))
        return 0;
    ref_t made = node_new(arena, tree, parent, edge);
    fanout_put(fanout, tree, edge, made);
    return made;
}

// Children in a list

static bool has_fanout(const struct arena *arena, const struct node *parent)
{
    return parent->child && node_at(arena, parent->child)->edge == 0;
}

static ref_t child_in_list(struct arena *arena, struct tree *tree, ref_t parent, ref_t edge,
                           bool reserve)
{
    struct node *node = node_at(arena, parent);
    ref_t before = 0;
    uint32_t length = 0;
    for (ref_t child = node->child; child; child = node_at(arena, child)->sibling) {
        if (node_at(arena, child)->edge == edge) {
            if (before) { // to the front: the next sample most likely asks for it again
                node_at(arena, before)->sibling = node_at(arena, child)->sibling;
                node_at(arena, child)->sibling = node->child;
                node->child = child;
            }
            return child;
        }
        before = child;
        length++;
    }
    if (length >= LIST_CHILDREN) {
        fanout_from_list(arena, tree, node);
        if (has_fanout(arena, node))
            return child_in_hash(arena, tree, parent, edge, reserve);
        if (length >= LONGEST_LIST && edge != tree->unplaced_edge)
            return 0;
    }
    if (!make_room(arena, tree, reserve))
        return 0;
    ref_t made = node_new(arena, tree, parent, edge);
    node_at(arena, made)->sibling = node->child;
    node->child = made;
    return made;
}

static ref_t find_or_make(struct arena *arena, struct tree *tree, ref_t parent, ref_t edge,
                          bool reserve)
{
    if (has_fanout(arena, node_at(arena, parent)))
        return child_in_hash(arena, tree, parent, edge, reserve);
    return child_in_list(arena, tree, parent, edge, reserve);
}

ref_t tree_child(struct arena *arena, ref_t ref, ref_t parent, ref_t edge)
{
    return edge && parent ? find_or_make(arena, tree_at(arena, ref), parent, edge, false) : 0;
}

static bool is_bounded(const struct tree *tree)
{
    return tree->kind == TREE_BOUNDED || tree->kind == TREE_FUNCTIONS;
}

ref_t tree_unplaced(struct arena *arena, ref_t ref, ref_t frame)
{
    struct tree *tree = tree_at(arena, ref);
    if (is_bounded(tree)) // has no statements
        return tree->root;
    for (; frame; frame = node_at(arena, frame)->parent) {
        ref_t node = find_or_make(arena, tree, frame, tree->unplaced_edge, true);
        if (node)
            return node;
    }
    return tree->root_unplaced;
}

// Making and measuring

static ref_t full_new(struct arena *arena, const struct tree_options *options)
{
    const uint32_t metrics = options->metrics;
    ref_t ref = arena_alloc(arena, sizeof(struct tree));
    if (!ref || metrics == 0 || metrics > TREE_MOST_METRICS)
        return 0;
    struct tree *tree = tree_at(arena, ref);
    tree->kind = TREE_FULL;
    tree->metrics = metrics;
    ref_t first = node_block_new(arena, metrics, FIRST_NODES);
    ref_t reserve = node_block_new(arena, metrics, RESERVE_NODES);
    tree->edge_slots = arena_alloc(arena, FIRST_EDGE_SLOTS * sizeof(ref_t));
    tree->edge_slot_count = FIRST_EDGE_SLOTS;
    tree->next_edge = arena_alloc(arena, FIRST_EDGES * sizeof(struct edge));
    tree->edges_left = tree->edge_block_size = FIRST_EDGES;
    if (!reserve || !tree->edge_slots || !tree->next_edge)
        return 0;
    tree->last_block = first;
    tree->reserve = reserve;
    tree->unplaced_edge = tree_edge(arena, ref, 0, 0);
    ref_t root_edge =
        options->start ? tree_edge(arena, ref, 0, options->start) : tree->unplaced_edge;
    tree->root = node_new(arena, tree, 0, root_edge);
    tree->root_unplaced = tree_unplaced(arena, ref, tree->root);
    // Last and with release: a reader that finds the first block finds a whole tree.
    atomic_store_explicit(&tree->first_block, first, memory_order_release);
    return ref;
}

ref_t tree_new(struct arena *arena, const struct tree_options *options)
{
    switch (options->kind) {
    case TREE_FULL:
        return full_new(arena, options);
    case TREE_BOUNDED:
    case TREE_FUNCTIONS:
        return bounded_new(arena, options);
    }
    return 0;
}

enum tree_kind tree_kind(const struct arena *arena, ref_t tree)
{
    return tree_at(arena, tree)->kind;
}

void tree_charge(struct arena *arena, ref_t tree, ref_t node, uint64_t amount)
{
    if (is_bounded(tree_at(arena, tree)))
        bounded_charge(arena, tree, node, amount);
    else
        tree_add(arena, node, 0, amount);
}

ref_t tree_root(const struct arena *arena, ref_t tree)
{
    return tree_at(arena, tree)->root;
}

uint64_t tree_nodes(const struct arena *arena, ref_t tree)
{
    return atomic_load_explicit(&tree_at(arena, tree)->nodes, memory_order_relaxed);
}

unsigned tree_metrics(const struct arena *arena, ref_t tree)
{
    return tree_at(arena, tree)->metrics;
}
