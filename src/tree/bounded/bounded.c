// SPDX-License-Identifier: MIT
#include "tree/bounded/bounded.h"
#include "tree/bounded/bounded_layout.h"

enum {
    LONGEST_CHAIN = 4096, // of a hash that is not damaged
};

static uint32_t capacity_of(const struct bounded *bounded)
{
    return atomic_load_explicit(&bounded->capacity, memory_order_relaxed);
}

static void count_purged(struct bounded *bounded, uint64_t cost)
{
    // The owner writes; readers want a sum that is right when the owner rests, so relaxed.
    atomic_store_explicit(&bounded->purged,
                          atomic_load_explicit(&bounded->purged, memory_order_relaxed) + cost,
                          memory_order_relaxed);
}

// Age. A node that is in no list has itself as its neighbour.

static void leave_age(const struct arena *arena, struct bounded *bounded, ref_t ref,
                      struct node *node)
{
    struct links *links = bounded_links(node);
    if (links->previous == ref)
        return;
    struct node *younger = bounded_node(arena, bounded, links->previous);
    struct node *older = bounded_node(arena, bounded, links->next);
    if (younger)
        bounded_links(younger)->next = links->next;
    else
        bounded->youngest = links->next;
    if (older)
        bounded_links(older)->previous = links->previous;
    else
        bounded->oldest = links->previous;
    links->previous = links->next = ref;
}

static void become_youngest(const struct arena *arena, struct bounded *bounded, ref_t ref,
                            struct node *node)
{
    if (bounded->youngest == ref)
        return;
    leave_age(arena, bounded, ref, node);
    struct node *second = bounded_node(arena, bounded, bounded->youngest);
    *bounded_links(node) = (struct links){0, second ? bounded->youngest : 0};
    if (second)
        bounded_links(second)->previous = ref;
    else
        bounded->oldest = ref;
    bounded->youngest = ref;
}

static void become_oldest(const struct arena *arena, struct bounded *bounded, ref_t ref,
                          struct node *node)
{
    struct node *second = bounded_node(arena, bounded, bounded->oldest);
    *bounded_links(node) = (struct links){second ? bounded->oldest : 0, 0};
    if (second)
        bounded_links(second)->next = ref;
    else
        bounded->youngest = ref;
    bounded->oldest = ref;
}

// Nodes by (parent, edge)

static ref_t *chain_of(const struct arena *arena, const struct bounded *bounded, ref_t parent,
                       ref_t edge)
{
    ref_t *slots = arena_at(arena, bounded->node_slots);
    return &slots[bounded_mix((uint64_t)parent << 32 | edge) & (bounded->node_slot_count - 1)];
}

static ref_t find_child(const struct arena *arena, const struct bounded *bounded, ref_t parent,
                        ref_t edge)
{
    ref_t ref = *chain_of(arena, bounded, parent, edge);
    for (unsigned i = 0; i < LONGEST_CHAIN; i++) {
        const struct node *node = bounded_node(arena, bounded, ref);
        if (!node)
            return 0;
        if (node->edge == edge && node->parent == parent)
            return ref;
        ref = node->sibling;
    }
    return 0;
}

static void leave_chain(const struct arena *arena, struct bounded *bounded, ref_t ref,
                        const struct node *node)
{
    ref_t *link = chain_of(arena, bounded, node->parent, node->edge);
    for (unsigned i = 0; i < LONGEST_CHAIN && *link != ref; i++) {
        struct node *other = bounded_node(arena, bounded, *link);
        if (!other)
            return;
        link = &other->sibling;
    }
    if (*link == ref)
        *link = node->sibling;
}

// Forgetting

static void forget(const struct arena *arena, struct bounded *bounded, ref_t ref, struct node *node)
{
    const ref_t parent_ref = node->parent;
    leave_chain(arena, bounded, ref, node);
    leave_age(arena, bounded, ref, node);
    count_purged(bounded, node->value[BOUNDED_COST]);
    bounded_drop_edge(arena, bounded, node->edge);
    // Free, for readers, before it becomes anything else.
    __atomic_store_n(&node->edge, 0, __ATOMIC_RELEASE);
    node->sibling = bounded->free_node;
    bounded->free_node = ref;
    bounded->live_nodes--;
    struct node *parent = bounded_node(arena, bounded, parent_ref);
    if (parent && parent->child && --parent->child == 0 && parent_ref != bounded->tree.root &&
        bounded_links(parent)->previous == parent_ref)
        become_oldest(arena, bounded, parent_ref, parent); // it had waited for its children
}

// The oldest leaf but those that are held. False if there is none, within so many steps.
static bool forget_oldest(const struct arena *arena, struct bounded *bounded, ref_t held,
                          ref_t also_held, uint32_t *steps)
{
    ref_t ref = bounded->oldest;
    for (; *steps > 0; --*steps) {
        struct node *node = bounded_node(arena, bounded, ref);
        if (!node)
            return false;
        const ref_t younger = bounded_links(node)->previous;
        if (node->child) {
            leave_age(arena, bounded, ref, node);
        } else if (ref != held && ref != also_held) {
            forget(arena, bounded, ref, node);
            return true;
        }
        ref = younger;
    }
    return false;
}

static void forget_all(const struct arena *arena, struct bounded *bounded)
{
    uint64_t cost = 0;
    for (uint32_t i = 0; i < bounded->next_node && i < capacity_of(bounded); i++) {
        struct node *node = arena_at(arena, tree_node_in_block(bounded->block, BOUNDED_STRIDE, i));
        if (node->edge)
            cost += node->value[BOUNDED_COST];
        __atomic_store_n(&node->edge, 0, __ATOMIC_RELAXED);
    }
    ref_t *words = arena_at(arena, bounded->node_slots);
    for (uint32_t i = 0; i < bounded->node_slot_count; i++)
        words[i] = 0;
    bounded_forget_edges(arena, bounded);
    bounded->free_node = bounded->next_node = 0;
    bounded->youngest = bounded->oldest = 0;
    ((struct node *)arena_at(arena, bounded->tree.root))->child = 0;
    count_purged(bounded, cost);
    bounded->live_nodes = 0;
}

// Every node has one edge and there are as many of one as of the other, so where nodes are free,
// edges can be had. They are collected in one sweep, which must find enough of them.
static bool find_edges(const struct arena *arena, struct bounded *bounded, ref_t held,
                       ref_t also_held)
{
    const uint32_t worth = bounded->edge_capacity / 16 + 1;
    // Each node once, and a few that are held again: that is enough, unless the lists were damaged.
    uint32_t steps = 2 * capacity_of(bounded);
    while (bounded->edge_capacity - bounded->live_edges < worth)
        if (!forget_oldest(arena, bounded, held, also_held, &steps))
            break;
    bounded_collect_edges(arena, bounded);
    return bounded_edges_left(bounded) > 0;
}

// Room for one more node and its edge.
static bool find_room(const struct arena *arena, struct bounded *bounded, ref_t held,
                      ref_t also_held)
{
    const bool by_age = bounded->purge == TREE_PURGE_AGE;
    uint32_t steps = capacity_of(bounded);
    if (capacity_of(bounded) <= bounded->live_nodes &&
        (!by_age || !forget_oldest(arena, bounded, held, also_held, &steps)))
        return false;
    return bounded_edges_left(bounded) || (by_age && find_edges(arena, bounded, held, also_held));
}

bool bounded_begin(struct arena *arena, ref_t tree)
{
    struct bounded *bounded = bounded_at(arena, tree);
    // The tool zeroes the memory of processes that it takes for dead: then there is no root.
    return bounded->tree.root && (capacity_of(bounded) || bounded_lay_out(arena, bounded)) &&
           bounded_is_whole(arena, bounded);
}

void bounded_empty(struct arena *arena, ref_t tree)
{
    struct bounded *bounded = bounded_at(arena, tree);
    if (bounded->tree.root && capacity_of(bounded) && bounded_is_whole(arena, bounded))
        forget_all(arena, bounded);
}

void bounded_reset(struct arena *arena, ref_t tree)
{
    struct bounded *bounded = bounded_at(arena, tree);
    struct node *root = bounded_node(arena, bounded, bounded->tree.root);
    bounded_empty(arena, tree);
    for (unsigned i = 0; root && i < BOUNDED_TOLD; i++)
        __atomic_store_n(&root->value[i], 0, __ATOMIC_RELAXED);
    atomic_store_explicit(&bounded->purged, 0, memory_order_relaxed);
}

// Samples

static ref_t take_node(const struct arena *arena, struct bounded *bounded)
{
    if (bounded->free_node) {
        const ref_t ref = bounded->free_node;
        const struct node *node = bounded_node(arena, bounded, ref);
        bounded->free_node = node ? node->sibling : 0;
        return node ? ref : 0;
    }
    if (bounded->next_node >= capacity_of(bounded))
        return 0;
    return tree_node_in_block(bounded->block, BOUNDED_STRIDE, bounded->next_node++);
}

static ref_t make_child(const struct arena *arena, struct bounded *bounded, ref_t parent_ref,
                        struct node *parent, ref_t edge)
{
    const ref_t ref = take_node(arena, bounded);
    if (!ref)
        return 0;
    struct node *node = arena_at(arena, ref);
    __atomic_store_n(&node->parent, parent_ref, __ATOMIC_RELAXED);
    node->child = 0;
    for (unsigned i = 0; i < BOUNDED_STRIDE; i++)
        __atomic_store_n(&node->value[i], 0, __ATOMIC_RELAXED);
    *bounded_links(node) = (struct links){ref, ref};
    ref_t *chain = chain_of(arena, bounded, parent_ref, edge);
    node->sibling = *chain;
    *chain = ref;
    parent->child++;
    bounded_use_edge(arena, bounded, edge);
    // Release, both: a reader that sees the edge, or the count, sees the parent and no earlier
    // values.
    __atomic_store_n(&node->edge, edge, __ATOMIC_RELEASE);
    struct node_block *block = arena_at(arena, bounded->block);
    if (bounded->next_node > atomic_load_explicit(&block->used, memory_order_relaxed))
        atomic_store_explicit(&block->used, bounded->next_node, memory_order_release);
    bounded->live_nodes++;
    return ref;
}

// A node that was just made has no children: below it, nothing is searched.
static ref_t find_known(const struct arena *arena, const struct bounded *bounded, ref_t parent_ref,
                        const struct node *parent, const struct edge *edge)
{
    const ref_t known =
        parent->child ? bounded_find_edge(arena, bounded, edge->site, edge->function) : 0;
    return known ? find_child(arena, bounded, parent_ref, known) : 0;
}

static ref_t find_or_make(const struct arena *arena, struct bounded *bounded, ref_t parent_ref,
                          const struct edge *edge, ref_t held)
{
    struct node *parent = bounded_node(arena, bounded, parent_ref);
    if (!parent)
        return 0;
    const ref_t known = find_known(arena, bounded, parent_ref, parent, edge);
    if (known)
        return known;
    if (!find_room(arena, bounded, parent_ref, held))
        return 0;
    // Only now: an edge without a node may go when room is made.
    const ref_t interned = bounded_edge(arena, bounded, edge->site, edge->function);
    return interned ? make_child(arena, bounded, parent_ref, parent, interned) : 0;
}

ref_t bounded_enter(struct arena *arena, ref_t tree, ref_t parent, const struct bounded_call *call)
{
    struct bounded *bounded = bounded_at(arena, tree);
    const struct edge edge = {call->site, call->function};
    if (!capacity_of(bounded))
        return 0;
    const ref_t ref = find_or_make(arena, bounded, parent, &edge, call->held);
    if (!ref)
        return 0;
    tree_add(arena, ref, BOUNDED_EDGE, call->cost);
    become_youngest(arena, bounded, ref, arena_at(arena, ref));
    return ref;
}

ref_t bounded_find(const struct arena *arena, ref_t tree, ref_t parent_ref, place_t site,
                   place_t function)
{
    const struct bounded *bounded = bounded_at(arena, tree);
    const struct edge edge = {site, function};
    const struct node *parent =
        capacity_of(bounded) ? bounded_node(arena, bounded, parent_ref) : NULL;
    return parent ? find_known(arena, bounded, parent_ref, parent, &edge) : 0;
}

void bounded_charge(struct arena *arena, ref_t tree, ref_t ref, uint64_t cost)
{
    struct bounded *bounded = bounded_at(arena, tree);
    if (!bounded->tree.root)
        return;
    struct node *node = bounded_node(arena, bounded, ref);
    // A node that is free by now (a thread that ends charges where its last sample was) is replaced
    // by the root.
    if (!node || !node->edge || ref == bounded->tree.root) {
        tree_add(arena, bounded->tree.root, BOUNDED_COST, cost);
        return;
    }
    tree_add(arena, ref, BOUNDED_COST, cost);
    become_youngest(arena, bounded, ref, node);
}

ref_t bounded_counter(struct arena *arena, ref_t tree, place_t function)
{
    const ref_t root = bounded_at(arena, tree)->tree.root;
    if (!bounded_begin(arena, tree))
        return root;
    const struct bounded_call call = {.function = function};
    ref_t node = bounded_enter(arena, tree, root, &call);
    if (!node) {
        bounded_empty(arena, tree);
        node = bounded_enter(arena, tree, root, &call);
    }
    return node ? node : root;
}

ref_t bounded_no_child(struct arena *arena, ref_t tree, ref_t parent, ref_t edge)
{
    (void)arena, (void)tree, (void)parent, (void)edge;
    return 0;
}

ref_t bounded_no_call(struct arena *arena, ref_t tree, ref_t parent, ref_t edge, uint64_t amount)
{
    (void)amount;
    return bounded_no_child(arena, tree, parent, edge);
}

ref_t bounded_unplaced(struct arena *arena, ref_t tree, ref_t frame)
{
    (void)frame;
    return tree_root(arena, tree);
}

bool bounded_is(const struct arena *arena, ref_t tree, ref_t ref, ref_t parent,
                const struct edge *edge)
{
    const struct bounded *bounded = bounded_at(arena, tree);
    const struct node *node = bounded_node(arena, bounded, ref);
    if (!node || !node->edge || node->parent != parent)
        return false;
    return node->edge == bounded_find_edge(arena, bounded, edge->site, edge->function);
}

uint32_t bounded_capacity(const struct arena *arena, ref_t tree)
{
    return capacity_of(bounded_at(arena, tree));
}

uint64_t bounded_purged(const struct arena *arena, ref_t tree)
{
    return atomic_load_explicit(&bounded_at(arena, tree)->purged, memory_order_relaxed);
}

uint32_t bounded_edge_epoch(const struct arena *arena, uint64_t arena_bytes, ref_t tree)
{
    if ((uint64_t)tree * 8 + sizeof(struct bounded) > arena_bytes)
        return 0;
    return atomic_load_explicit(&bounded_at(arena, tree)->edge_epoch, memory_order_acquire);
}
