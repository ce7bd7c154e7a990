// SPDX-License-Identifier: MIT
// The children of a node: a list, the latest used one first, and a hash where there are many.

#include "tree/hot.h"
#include "tree/layout.h"

enum {
    FEW_CHILDREN = 4, // a hash that has so few left becomes a list again
    FIRST_CHILD_SLOTS = 32,
    // With the arena full no hash can be made; a list may then grow this long before it costs too
    // much.
    LONGEST_LIST = 64,
};

static struct fanout *fanout_of(const struct arena *arena, const struct node *parent)
{
    return tree_has_hash(arena, parent) ? arena_at(arena, parent->child) : NULL;
}

// In a hash

static size_t fanout_bytes(uint32_t slots)
{
    return sizeof(struct fanout) + slots * sizeof(struct child_slot);
}

// False where the number of its slots was overwritten: they would lie outside of the arena.
static bool is_whole(const struct arena *arena, const struct fanout *fanout, ref_t ref)
{
    return arena_find(arena, ref, fanout_bytes(fanout->slot_count)) != NULL;
}

// NULL: there is neither such a slot nor a free one, which is so in a damaged hash alone.
static struct child_slot *child_slot(struct fanout *fanout, ref_t edge)
{
    uint32_t mask = fanout->slot_count - 1;
    uint32_t at = tree_mix(edge) & mask;
    for (uint32_t i = 0; i < TREE_LONGEST_PROBE; i++, at = (at + 1) & mask)
        if (fanout->slots[at].edge == 0 || fanout->slots[at].edge == edge)
            return &fanout->slots[at];
    return NULL;
}

static ref_t fanout_new(struct arena *arena, ref_t ref, uint32_t slots)
{
    const struct tree *tree = tree_at(arena, ref);
    ref_t found = hot_take_fanout(arena, tree, slots);
    if (found)
        tree_clear(arena_at(arena, found), fanout_bytes(slots));
    else
        found = tree_whole(arena, ref, fanout_bytes(slots));
    if (found)
        ((struct fanout *)arena_at(arena, found))->slot_count = slots;
    return found;
}

static void fanout_put(struct fanout *fanout, const struct tree *tree, ref_t edge, ref_t node)
{
    // Apart, because it must find a place even when the hash is full and cannot grow.
    if (edge == tree->unplaced_edge) {
        fanout->unplaced = node;
        return;
    }
    struct child_slot *slot = child_slot(fanout, edge);
    if (!slot)
        return;
    *slot = (struct child_slot){edge, node};
    fanout->count++;
}

static ref_t fanout_find(struct fanout *fanout, const struct tree *tree, ref_t edge)
{
    if (edge == tree->unplaced_edge)
        return fanout->unplaced;
    const struct child_slot *slot = child_slot(fanout, edge);
    return slot ? slot->node : 0;
}

static bool fanout_from_list(struct arena *arena, ref_t ref, struct node *parent, uint32_t length)
{
    const struct tree *tree = tree_at(arena, ref);
    uint32_t slots = FIRST_CHILD_SLOTS, left = length;
    while (slots / 4 * 3 <= length) // it may have grown while there was no memory
        slots *= 2;
    ref_t made = fanout_new(arena, ref, slots);
    if (!made)
        return false; // the list still works
    struct fanout *fanout = arena_at(arena, made);
    for (ref_t child = parent->child; child && left > 0;
         child = tree_node(arena, child)->sibling, left--)
        fanout_put(fanout, tree, tree_node_edge(tree_node(arena, child)), child);
    parent->child = made;
    return true;
}

// Room for one more child, if need be in a hash twice as large.
static bool fanout_make_room(struct arena *arena, ref_t ref, struct node *parent)
{
    const struct tree *tree = tree_at(arena, ref);
    struct fanout *fanout = arena_at(arena, parent->child);
    if (!is_whole(arena, fanout, parent->child))
        return false;
    if (fanout->count < fanout->slot_count / 4 * 3)
        return true;
    ref_t made = fanout_new(arena, ref, fanout->slot_count * 2);
    if (!made)
        return fanout->count < fanout->slot_count / 8 * 7;
    struct fanout *grown = arena_at(arena, made);
    grown->unplaced = fanout->unplaced;
    for (uint32_t i = 0; i < fanout->slot_count; i++)
        if (fanout->slots[i].edge)
            fanout_put(grown, tree, fanout->slots[i].edge, fanout->slots[i].node);
    ref_t old = parent->child;
    parent->child = made;
    hot_give_fanout(arena, tree, old, fanout->slot_count);
    return true;
}

// Those behind the one that goes move up, so that each is still found before the first empty slot.
static void close_gap(struct fanout *fanout, uint32_t gap)
{
    const uint32_t mask = fanout->slot_count - 1;
    uint32_t left = TREE_LONGEST_PROBE;
    for (uint32_t at = (gap + 1) & mask; fanout->slots[at].edge && left > 0;
         at = (at + 1) & mask, left--) {
        uint32_t wanted = tree_mix(fanout->slots[at].edge) & mask;
        if (((at - wanted) & mask) >= ((at - gap) & mask)) {
            fanout->slots[gap] = fanout->slots[at];
            gap = at;
        }
    }
    fanout->slots[gap] = (struct child_slot){0};
}

static void list_from_fanout(struct arena *arena, const struct tree *tree, struct node *parent)
{
    const ref_t old = parent->child;
    const struct fanout *fanout = arena_at(arena, old);
    ref_t first = fanout->unplaced;
    for (uint32_t i = 0; i < fanout->slot_count; i++) {
        ref_t child = fanout->slots[i].node;
        if (child) {
            tree_node(arena, child)->sibling = first;
            first = child;
        }
    }
    if (fanout->unplaced)
        tree_node(arena, fanout->unplaced)->sibling = 0;
    parent->child = first;
    hot_give_fanout(arena, tree, old, fanout->slot_count);
}

static void fanout_remove(struct arena *arena, const struct tree *tree, struct node *parent,
                          ref_t edge)
{
    struct fanout *fanout = arena_at(arena, parent->child);
    if (!is_whole(arena, fanout, parent->child))
        return;
    if (edge == tree->unplaced_edge) {
        fanout->unplaced = 0;
    } else {
        struct child_slot *slot = child_slot(fanout, edge);
        if (!slot || !slot->edge)
            return;
        close_gap(fanout, (uint32_t)(slot - fanout->slots));
        fanout->count--;
    }
    if (fanout->count <= FEW_CHILDREN)
        list_from_fanout(arena, tree, parent);
}

// In a list

static void list_remove(struct arena *arena, struct node *parent, ref_t child)
{
    ref_t *link = &parent->child;
    for (uint32_t i = 0; i < TREE_LONGEST_LIST && *link && *link != child; i++)
        link = &tree_node(arena, *link)->sibling;
    if (*link == child)
        *link = tree_node(arena, child)->sibling;
}

// Of either kind

ref_t children_find(struct arena *arena, const struct tree *tree, ref_t ref, ref_t edge,
                    uint32_t *length)
{
    struct node *parent = tree_node(arena, ref);
    struct fanout *fanout = fanout_of(arena, parent);
    ref_t last;
    *length = 0;
    if (fanout && !is_whole(arena, fanout, parent->child))
        return 0;
    return fanout ? fanout_find(fanout, tree, edge)
                  : tree_find_in_list(arena, parent, edge, length, &last);
}

bool children_make_room(struct arena *arena, ref_t tree, ref_t ref, ref_t edge, uint32_t length)
{
    struct node *parent = tree_node(arena, ref);
    const bool unplaced = edge == tree_at(arena, tree)->unplaced_edge;
    if (fanout_of(arena, parent))
        return unplaced || fanout_make_room(arena, tree, parent);
    return length < TREE_LIST_CHILDREN || fanout_from_list(arena, tree, parent, length) ||
           length < LONGEST_LIST || unplaced;
}

void children_add(struct arena *arena, const struct tree *tree, ref_t ref, ref_t edge, ref_t child)
{
    struct node *parent = tree_node(arena, ref);
    struct fanout *fanout = fanout_of(arena, parent);
    if (fanout) {
        if (is_whole(arena, fanout, parent->child))
            fanout_put(fanout, tree, edge, child);
        return;
    }
    tree_node(arena, child)->sibling = parent->child;
    parent->child = child;
}

void children_remove(struct arena *arena, const struct tree *tree, ref_t ref, ref_t child)
{
    struct node *parent = tree_node(arena, ref);
    if (fanout_of(arena, parent))
        fanout_remove(arena, tree, parent, tree_node_edge(tree_node(arena, child)));
    else
        list_remove(arena, parent, child);
}
