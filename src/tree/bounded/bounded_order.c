// SPDX-License-Identifier: MIT
#include "tree/bounded/bounded_layout.h"
#include <string.h>

// Nodes in order of weight: lists by the logarithm of it.

static ref_t *list_heads(const struct arena *arena, const struct bounded *bounded,
                         enum bounded_order order)
{
    return (ref_t *)arena_at(arena, bounded->lists) + (unsigned)order * BOUNDED_BUCKETS;
}

static void leave_list(const struct arena *arena, struct bounded *bounded, enum bounded_order order,
                       struct node *node)
{
    const struct links links = *bounded_links(node, order);
    struct node *previous = bounded_node(arena, bounded, links.previous);
    struct node *next = bounded_node(arena, bounded, links.next);
    if (previous)
        bounded_store(&bounded_links(previous, order)->next, links.next);
    else
        bounded_store(&list_heads(arena, bounded, order)[bounded_bucket(node->value[order])],
                      links.next);
    if (next)
        bounded_links(next, order)->previous = links.previous;
}

static void enter_list(const struct arena *arena, struct bounded *bounded, enum bounded_order order,
                       ref_t ref, struct node *node)
{
    ref_t *head = &list_heads(arena, bounded, order)[bounded_bucket(node->value[order])];
    struct links *links = bounded_links(node, order);
    struct node *next = bounded_node(arena, bounded, *head);
    links->previous = 0;
    bounded_store(&links->next, *head);
    if (next)
        bounded_links(next, order)->previous = ref;
    // Release: a reader that comes this way finds the weight and where to go on.
    __atomic_store_n(head, ref, __ATOMIC_RELEASE);
}

void bounded_weigh(const struct arena *arena, struct bounded *bounded, enum bounded_order order,
                   ref_t ref, struct node *node, uint64_t amount)
{
    const uint64_t before = node->value[order], after = before + amount;
    if (amount == 0)
        return;
    const bool moves = before == 0 || bounded_bucket(before) != bounded_bucket(after);
    if (moves && before)
        leave_list(arena, bounded, order, node);
    __atomic_store_n(&node->value[order], after, __ATOMIC_RELAXED);
    if (moves)
        enter_list(arena, bounded, order, ref, node);
}

void bounded_leave_lists(const struct arena *arena, struct bounded *bounded, struct node *node)
{
    for (unsigned order = 0; order < BOUNDED_ORDERS; order++)
        if (node->value[order])
            leave_list(arena, bounded, (enum bounded_order)order, node);
}

// Reading. Nothing that stands in the arena is believed: neither where things are, nor that lists
// end.

enum { TRIES = 4 }; // at a list whose members are being moved

struct view {
    const struct arena *arena;
    uint64_t bytes;
    ref_t nodes;
    ref_t span;
    const ref_t *heads;
    unsigned order;
    uint64_t steps; // that are left
    struct bounded_item *items;
    size_t count, most;
};

static bool inside(uint64_t arena_bytes, uint64_t ref, uint64_t bytes)
{
    return ref != 0 && ref * 8 + bytes <= arena_bytes;
}

static ref_t load(const ref_t *word)
{
    return __atomic_load_n(word, __ATOMIC_RELAXED);
}

static bool look_at(struct view *view, ref_t tree)
{
    if (!inside(view->bytes, tree, sizeof(struct bounded)))
        return false;
    const struct bounded *bounded = bounded_at(view->arena, tree);
    // Acquire: pairs with the release when the buffer was laid out.
    const uint64_t capacity = atomic_load_explicit(&bounded->capacity, memory_order_acquire);
    const uint64_t units = capacity * bounded_node_units();
    const ref_t lists = load(&bounded->lists);
    view->nodes = load(&bounded->nodes);
    if (units > UINT32_MAX || !inside(view->bytes, view->nodes, units * 8) ||
        !inside(view->bytes, lists, BOUNDED_ORDERS * BOUNDED_BUCKETS * sizeof(ref_t)))
        return false;
    view->span = (ref_t)units;
    view->heads = (const ref_t *)arena_at(view->arena, lists) + view->order * BOUNDED_BUCKETS;
    // Each node once, and the longest list a few times more.
    view->steps = capacity * TRIES + BOUNDED_BUCKETS;
    return capacity != 0;
}

static bool copy_item(const struct view *view, ref_t ref, const struct node *node,
                      struct bounded_item *item)
{
    const ref_t edge = load(&node->edge);
    item->node = ref;
    item->parent = load(&node->parent);
    return edge && tree_edge_read(view->arena, view->bytes, edge, &item->edge) &&
           load(&node->edge) == edge;
}

// Into its place among those of its list, which begin at `first`: the lists before hold heavier
// ones.
static void keep_item(struct view *view, size_t first, const struct bounded_item *item)
{
    size_t low = first, high = view->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (view->items[middle].weight >= item->weight)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == view->most)
        return;
    if (view->count < view->most)
        view->count++;
    memmove(&view->items[low + 1], &view->items[low],
            (view->count - 1 - low) * sizeof *view->items);
    view->items[low] = *item;
}

// False if a member left the list while it was read: then the way led elsewhere.
static bool read_list(struct view *view, unsigned bucket)
{
    const size_t first = view->count;
    ref_t ref = __atomic_load_n(&view->heads[bucket], __ATOMIC_ACQUIRE);
    while (ref && view->steps) {
        view->steps--;
        // Where the program has scribbled, a reference need not lead to the beginning of a node.
        if (ref < view->nodes || ref - view->nodes > view->span - bounded_node_units())
            return true;
        const struct node *node = arena_at(view->arena, ref);
        struct bounded_item item = {
            .weight = __atomic_load_n(&node->value[view->order], __ATOMIC_RELAXED)};
        if (item.weight == 0 || bounded_bucket(item.weight) != bucket)
            return false;
        if (copy_item(view, ref, node, &item))
            keep_item(view, first, &item);
        ref = load(&bounded_links((struct node *)node, view->order)->next);
        // Once more: the way on is this list's if the node still was in it when it was read.
        if (bounded_bucket(__atomic_load_n(&node->value[view->order], __ATOMIC_RELAXED)) != bucket)
            return false;
    }
    return true;
}

size_t bounded_heaviest(const struct arena *arena, uint64_t arena_bytes, ref_t tree,
                        enum bounded_order order, struct bounded_item *items, size_t most)
{
    struct view view = {
        .arena = arena, .bytes = arena_bytes, .order = order, .items = items, .most = most};
    if (!look_at(&view, tree))
        return 0;
    for (unsigned bucket = BOUNDED_BUCKETS; bucket-- > 1 && view.count < most && view.steps;) {
        const size_t before = view.count;
        for (unsigned i = 0; i < TRIES && !read_list(&view, bucket) && i + 1 < TRIES; i++)
            view.count = before;
    }
    return view.count;
}
