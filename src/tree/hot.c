// SPDX-License-Identifier: MIT
#include "tree/hot.h"

enum {
    FIRST_NODES = 16,
    MOST_NODES = 4096,
    // When memory is out, so many contexts may lose their counters for one new node: those that are
    // ancestors of others leave no node behind.
    MOST_GIVEN_UP = 64,
};

// Nodes

static bool is_free(const struct node *node)
{
    return node->edge == 0;
}

static void free_node(struct arena *arena, struct tree *tree, ref_t ref)
{
    struct hot *hot = hot_of(arena, tree);
    struct node *node = tree_node(arena, ref);
    // Release: from now on a reader finds another context in the node.
    __atomic_store_n(&node->edge, 0, __ATOMIC_RELEASE);
    node->parent = 0;
    node->child = 0;
    node->sibling = hot->free_node;
    hot->free_node = ref;
}

// True if neither the context itself is of use, nor what is below it.
static inline bool is_cold_leaf(const struct node *node)
{
    return !node->child && !miner_monitors(node) && !is_free(node) && node->parent;
}

// Removes contexts that are not needed, and then those above them that are not needed any more.
static void prune_all(struct arena *arena, struct tree *tree, ref_t ref)
{
    const struct hot *hot = hot_of(arena, tree);
    while (hot_comes_and_goes(tree, ref) && ref != hot->current && ref != hot->pinned) {
        const struct node *node = tree_node(arena, ref);
        const ref_t parent = node->parent;
        if (!is_cold_leaf(node))
            return;
        children_remove(arena, tree, parent, ref);
        free_node(arena, tree, ref);
        ref = parent;
    }
}

static inline void prune(struct arena *arena, struct tree *tree, ref_t ref)
{
    if (is_cold_leaf(tree_node(arena, ref)))
        prune_all(arena, tree, ref);
}

static inline void move_to(struct arena *arena, struct tree *tree, ref_t ref)
{
    struct hot *hot = hot_of(arena, tree);
    const ref_t before = hot->current;
    if (before == ref)
        return;
    hot->current = ref;
    if (before)
        prune(arena, tree, before);
}

static bool grow(struct arena *arena, ref_t ref)
{
    const struct tree *tree = tree_at(arena, ref);
    struct hot *hot = hot_of(arena, tree);
    uint32_t capacity = FIRST_NODES;
    if (hot->block) {
        const struct node_block *last = arena_at(arena, hot->block);
        capacity = last->capacity < MOST_NODES / 2 ? last->capacity * 2 : MOST_NODES;
    }
    // The last that there is must do for the places of these nodes in M, too.
    const uint64_t room = tree->full ? hot_room(arena, tree) : arena_room(arena);
    const uint64_t most = room / (tree_node_bytes(HOT_METRICS) + 2 * sizeof(ref_t));
    if (capacity > most)
        capacity = most ? (uint32_t)most : 1;
    ref_t block = tree_block_new(arena, ref, HOT_METRICS, capacity, false);
    if (!block)
        return false;
    hot->block = block;
    tree_block_append(arena, ref, block);
    return true;
}

// Memory is out: contexts give up their counters until a node is free.
static bool make_space(struct arena *arena, ref_t ref)
{
    struct tree *tree = tree_at(arena, ref);
    struct hot *hot = hot_of(arena, tree);
    for (unsigned i = 0; i < MOST_GIVEN_UP && !hot->free_node; i++) {
        ref_t victim = miner_give_up(arena, ref, &hot->miner);
        if (!victim)
            return false;
        prune(arena, tree, victim);
    }
    return hot->free_node != 0;
}

static inline ref_t use_free_node(struct arena *arena, struct tree *tree, ref_t parent, ref_t edge)
{
    struct hot *hot = hot_of(arena, tree);
    const ref_t made = hot->free_node;
    struct node *node = tree_node(arena, made);
    hot->free_node = node->sibling;
    node->sibling = 0;
    node->child = 0;
    node->parent = parent;
    // A hook that was interrupted while it counted may have left something behind.
    node->value[0] = node->value[1] = 0;
    // A reader that sees the edge also sees the parent.
    __atomic_store_n(&node->edge, edge, __ATOMIC_RELEASE);
    return made;
}

static ref_t node_for(struct arena *arena, ref_t ref, ref_t parent, ref_t edge)
{
    struct tree *tree = tree_at(arena, ref);
    struct hot *hot = hot_of(arena, tree);
    edge |= TREE_UNMONITORED;
    if (!hot->free_node) {
        if ((hot->block && !tree_block_is_full(arena, hot->block)) || grow(arena, ref))
            return tree_node_new(arena, hot->block, parent, edge);
        if (!make_space(arena, ref))
            return 0;
    }
    return use_free_node(arena, tree, parent, edge);
}

// The node that stands for a context that has gone.
static inline ref_t living(const struct arena *arena, const struct tree *tree, ref_t ref)
{
    return is_free(tree_node(arena, ref)) ? tree->root : ref;
}

static ref_t find_or_make(struct arena *arena, ref_t ref, ref_t parent, ref_t edge)
{
    const struct tree *tree = tree_at(arena, ref);
    uint32_t length;
    ref_t child = children_find(arena, tree, parent, edge, &length);
    if (child)
        return child;
    if (!children_make_room(arena, ref, parent, edge, length))
        return 0;
    child = node_for(arena, ref, parent, edge);
    if (child)
        children_add(arena, tree, parent, edge, child);
    return child;
}

// The same where nothing is out of the ordinary. 0 says nothing. A new child goes to the end of the
// list: so the oldest, which is the next to go as a rule, is found sooner.
static inline ref_t find_or_make_at_once(struct arena *arena, struct tree *tree, ref_t ref,
                                         ref_t edge)
{
    struct node *parent = tree_node(arena, ref);
    uint32_t length = 0;
    ref_t last;
    if (tree_has_hash(arena, parent))
        return 0;
    ref_t child = tree_find_in_list(arena, parent, edge, &length, &last);
    if (child)
        return child;
    if (length >= TREE_LIST_CHILDREN || !hot_of(arena, tree)->free_node)
        return 0;
    child = use_free_node(arena, tree, ref, edge | TREE_UNMONITORED);
    *(last ? &tree_node(arena, last)->sibling : &parent->child) = child;
    return child;
}

static inline ref_t go_to_child(struct arena *arena, ref_t ref, ref_t parent, ref_t edge)
{
    struct tree *tree = tree_at(arena, ref);
    parent = living(arena, tree, parent);
    move_to(arena, tree, parent);
    ref_t child = find_or_make_at_once(arena, tree, parent, edge);
    if (!child)
        child = find_or_make(arena, ref, parent, edge);
    if (child)
        hot_of(arena, tree)->current = child; // below what was current: nothing to prune
    return child;
}

ref_t hot_child(struct arena *arena, ref_t ref, ref_t parent, ref_t edge)
{
    return go_to_child(arena, ref, parent, edge);
}

ref_t hot_unplaced(struct arena *arena, ref_t ref, ref_t frame)
{
    const struct tree *tree = tree_at(arena, ref);
    return frame ? living(arena, tree, frame) : tree->root;
}

// An event in the current context.
static inline void charge_current(struct arena *arena, ref_t ref, ref_t node, uint64_t amount)
{
    struct tree *tree = tree_at(arena, ref);
    struct miner *miner = &hot_of(arena, tree)->miner;
    for (ref_t victim = amount ? miner_update(arena, ref, miner, node, amount) : 0; victim;
         victim = miner_victim(arena, miner))
        prune(arena, tree, victim);
}

void hot_charge(struct arena *arena, ref_t ref, ref_t node, uint64_t amount)
{
    struct tree *tree = tree_at(arena, ref);
    if (is_free(tree_node(arena, node))) {
        node = tree->root;
        if (!hot_comes_and_goes(tree, node)) {
            tree_add(arena, node, 0, amount);
            return;
        }
    }
    move_to(arena, tree, node);
    charge_current(arena, ref, node, amount);
}

ref_t hot_call(struct arena *arena, ref_t ref, ref_t parent, ref_t edge, uint64_t amount)
{
    const ref_t child = go_to_child(arena, ref, parent, edge);
    if (child)
        charge_current(arena, ref, child, amount);
    return child;
}

void hot_pin(struct arena *arena, ref_t ref, ref_t node)
{
    struct tree *tree = tree_at(arena, ref);
    struct hot *hot = hot_of(arena, tree);
    const ref_t before = hot->pinned;
    if (before == node)
        return;
    hot->pinned = node;
    if (before)
        prune(arena, tree, before);
}

// Hashes of children

static unsigned fanout_class(uint32_t slots)
{
    return 31 - (unsigned)__builtin_clz(slots);
}

ref_t hot_take_fanout(const struct arena *arena, const struct tree *tree, uint32_t slots)
{
    const unsigned size = fanout_class(slots);
    if (!tree_is_forgetting(tree) || size >= HOT_FANOUTS)
        return 0;
    ref_t *first = &hot_of(arena, tree)->fanouts[size];
    const ref_t found = *first;
    if (found)
        *first = ((const struct fanout *)arena_at(arena, found))->slot_count;
    return found;
}

void hot_give_fanout(const struct arena *arena, const struct tree *tree, ref_t ref, uint32_t slots)
{
    const unsigned size = fanout_class(slots);
    if (!tree_is_forgetting(tree) || size >= HOT_FANOUTS)
        return; // left behind
    ref_t *first = &hot_of(arena, tree)->fanouts[size];
    ((struct fanout *)arena_at(arena, ref))->slot_count = *first;
    *first = ref;
}

// Life

uint64_t hot_room(const struct arena *arena, const struct tree *tree)
{
    if (!tree_is_forgetting(tree))
        return 0;
    const uint64_t left = hot_of(arena, tree)->bytes_left, room = arena_kept_room(arena);
    return left < room ? left : room;
}

void hot_spend(const struct arena *arena, const struct tree *tree, uint64_t bytes)
{
    struct hot *hot = hot_of(arena, tree);
    if (hot->bytes_left != UINT64_MAX)
        hot->bytes_left -= bytes < hot->bytes_left ? bytes : hot->bytes_left;
}

static bool start(struct arena *arena, struct tree *tree, ref_t more, uint64_t bytes,
                  const struct tree_options *options)
{
    struct hot *hot = arena_at(arena, more);
    if (!miner_start(&hot->miner, options))
        return false;
    hot->bytes_left = bytes;
    tree->more = more;
    // The owner writes, readers look how to read. Release: what `more` leads to is there.
    atomic_store_explicit(&tree->forgets, 1, memory_order_release);
    return true;
}

// As many counters as there is memory for.
static const struct tree_options as_memory_goes = {.miner = TREE_SPACE_SAVING,
                                                   .counters = UINT32_MAX};

void hot_take_over(struct arena *arena, ref_t ref)
{
    struct tree *tree = tree_at(arena, ref);
    const uint64_t bytes = arena_kept_room(arena) / 2;
    if (tree->kind != TREE_FULL || tree->metrics >= HOT_METRICS || !tree->root ||
        tree_is_forgetting(tree) || bytes < sizeof(struct hot))
        return;
    ref_t more = arena_alloc_kept(arena, sizeof(struct hot));
    if (more)
        start(arena, tree, more, bytes - sizeof(struct hot), &as_memory_goes);
}

static bool plant(struct arena *arena, ref_t ref, place_t place)
{
    struct tree *tree = tree_at(arena, ref);
    if (!tree_edges_start(arena, ref))
        return false;
    ref_t edge = place ? tree_edge(arena, ref, 0, place) : tree->unplaced_edge;
    if (!edge)
        return false;
    tree->root = node_for(arena, ref, 0, edge);
    if (!tree->root)
        return false;
    // Last and with release: a reader that finds the first block finds a whole tree.
    atomic_store_explicit(&tree->first_block, hot_of(arena, tree)->block, memory_order_release);
    return true;
}

ref_t hot_new(struct arena *arena, const struct tree_options *options)
{
    ref_t ref = arena_alloc(arena, sizeof(struct tree));
    ref_t more = ref ? arena_alloc(arena, sizeof(struct hot)) : 0;
    if (!more)
        return 0;
    struct tree *tree = tree_at(arena, ref);
    tree->kind = TREE_HOT;
    tree->metrics = HOT_METRICS;
    bool made = start(arena, tree, more, UINT64_MAX, options) && plant(arena, ref, options->start);
    return made ? ref : 0;
}

ref_t hot_new_in_kept(struct arena *arena, const struct tree_options *options)
{
    const size_t heads = sizeof(struct tree) + sizeof(struct hot);
    const uint64_t bytes = arena_kept_room(arena) / 2;
    if (options->metrics >= HOT_METRICS || bytes < heads)
        return 0;
    ref_t ref = arena_alloc_kept(arena, sizeof(struct tree));
    ref_t more = ref ? arena_alloc_kept(arena, sizeof(struct hot)) : 0;
    if (!more)
        return 0;
    struct tree *tree = tree_at(arena, ref);
    tree->kind = TREE_FULL;
    tree->metrics = options->metrics;
    tree->full = 1;
    tree->hot_from = (ref_t)(arena_kept_from(arena) / 8);
    bool made = start(arena, tree, more, bytes - heads, &as_memory_goes) &&
                plant(arena, ref, options->start);
    return made ? ref : 0;
}
