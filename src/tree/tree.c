// SPDX-License-Identifier: MIT
#include "tree/tree.h"
#include "tree/bounded/bounded.h"
#include "tree/hot.h"
#include "tree/layout.h"

// The first size of a full tree. Thousands of threads may live at once and most of them take few
// samples, so everything starts small (about 1.5 KB with one metric) and doubles.
enum { FIRST_NODES = 16, MOST_NODES = 4096, RESERVE_NODES = 16 };

static const struct tree_functions *functions_of(const struct tree *tree);

// Room for one more exact node in the last block; with `reserve`, from the reserve too.
static bool make_room(struct arena *arena, ref_t ref, bool reserve)
{
    struct tree *tree = tree_at(arena, ref);
    if (!tree->last_block)
        return false; // made when the arena was full already
    if (!tree_block_is_full(arena, tree->last_block))
        return tree->last_block != tree->reserve || reserve;
    if (tree->last_block == tree->reserve)
        return false;
    if (!tree->full) {
        const struct node_block *last = arena_at(arena, tree->last_block);
        uint32_t capacity = last->capacity < MOST_NODES ? last->capacity * 2 : MOST_NODES;
        ref_t block = tree_block_new(arena, ref, tree->metrics, capacity, true);
        if (block) {
            tree_block_append(arena, ref, block);
            tree->last_block = block;
            return true;
        }
    }
    if (reserve) {
        tree_block_append(arena, ref, tree->reserve);
        tree->last_block = tree->reserve;
    }
    return reserve;
}

static ref_t find_or_make(struct arena *arena, ref_t ref, ref_t parent, ref_t edge, bool reserve)
{
    struct tree *tree = tree_at(arena, ref);
    uint32_t length;
    ref_t child = children_find(arena, tree, parent, edge, &length);
    if (child)
        return child;
    if (!children_make_room(arena, ref, parent, edge, length) || !make_room(arena, ref, reserve))
        return 0;
    child = tree_node_new(arena, tree->last_block, parent, edge);
    children_add(arena, tree, parent, edge, child);
    return child;
}

// The same where nothing is out of the ordinary, without a call: new contexts come by the million.
// 0 says nothing.
static inline ref_t find_or_make_at_once(struct arena *arena, ref_t ref, ref_t parent, ref_t edge)
{
    struct tree *tree = tree_at(arena, ref);
    struct node *node = tree_node(arena, parent);
    uint32_t length = 0;
    ref_t last;
    if (tree_has_hash(arena, node))
        return 0;
    ref_t child = tree_find_in_list(arena, node, edge, &length, &last);
    if (child)
        return child;
    if (length >= TREE_LIST_CHILDREN || !tree->last_block || tree->last_block == tree->reserve ||
        tree_block_is_full(arena, tree->last_block))
        return 0;
    child = tree_node_new(arena, tree->last_block, parent, edge);
    tree_node(arena, child)->sibling = node->child;
    node->child = child;
    return child;
}

ref_t tree_child(struct arena *arena, ref_t ref, ref_t parent, ref_t edge)
{
    const struct tree *tree = tree_at(arena, ref);
    if (!edge || !parent)
        return 0;
    if (!tree_is_forgetting(tree)) {
        ref_t child = find_or_make_at_once(arena, ref, parent, edge);
        if (!child)
            child = find_or_make(arena, ref, parent, edge, false);
        if (child || !tree_is_forgetting(tree)) // since just now, perhaps
            return child;
    }
    return functions_of(tree)->child(arena, ref, parent, edge);
}

static ref_t full_unplaced(struct arena *arena, ref_t ref, ref_t frame)
{
    const struct tree *tree = tree_at(arena, ref);
    for (unsigned i = 0; frame && i < TREE_FURTHEST; frame = tree_node(arena, frame)->parent, i++) {
        ref_t node = tree_child(arena, ref, frame, tree->unplaced_edge);
        if (!node)
            node = find_or_make(arena, ref, frame, tree->unplaced_edge, true);
        if (node)
            return node;
    }
    return tree->root_unplaced ? tree->root_unplaced : tree->root;
}

ref_t tree_unplaced(struct arena *arena, ref_t tree, ref_t frame)
{
    return functions_of(tree_at(arena, tree))->unplaced(arena, tree, frame);
}

static void full_charge(struct arena *arena, ref_t ref, ref_t node, uint64_t amount)
{
    if (hot_comes_and_goes(tree_at(arena, ref), node))
        hot_charge(arena, ref, node, amount);
    else
        tree_add(arena, node, 0, amount);
}

void tree_charge(struct arena *arena, ref_t ref, ref_t node, uint64_t amount)
{
    const struct tree *tree = tree_at(arena, ref);
    if (tree_is_forgetting(tree))
        functions_of(tree)->charge(arena, ref, node, amount);
    else
        tree_add(arena, node, 0, amount);
}

static ref_t full_call(struct arena *arena, ref_t tree, ref_t parent, ref_t edge, uint64_t amount)
{
    const ref_t child = tree_child(arena, tree, parent, edge);
    if (child)
        tree_charge(arena, tree, child, amount);
    return child;
}

ref_t tree_call(struct arena *arena, ref_t ref, ref_t parent, ref_t edge, uint64_t amount)
{
    const struct tree *tree = tree_at(arena, ref);
    ref_t child = 0;
    if (!edge || !parent)
        return 0;
    // By its name: a call through the table takes 4 % of the time.
    if (tree->kind == TREE_HOT)
        return hot_call(arena, ref, parent, edge, amount);
    if (!tree_is_forgetting(tree))
        child = find_or_make_at_once(arena, ref, parent, edge);
    if (!child)
        return functions_of(tree)->call(arena, ref, parent, edge, amount);
    tree_add(arena, child, 0, amount);
    return child;
}

void tree_count(struct arena *arena, ref_t tree, ref_t node, uint64_t amount)
{
    if (!hot_comes_and_goes(tree_at(arena, tree), node))
        tree_add(arena, node, 0, amount);
}

bool tree_charge_late(struct arena *arena, ref_t ref, ref_t node, unsigned metric, uint64_t amount)
{
    const struct tree *tree = tree_at(arena, ref);
    if (!node)
        node = tree->root_unplaced ? tree->root_unplaced : tree->root;
    if (hot_comes_and_goes(tree, node) &&
        (!functions_of(tree)->charges_late || !tree_node(arena, node)->edge ||
         !miner_monitors(tree_node(arena, node))))
        return false;
    tree_add(arena, node, metric, amount);
    return true;
}

void tree_pin(struct arena *arena, ref_t ref, ref_t node)
{
    const struct tree *tree = tree_at(arena, ref);
    if (tree_is_forgetting(tree) && functions_of(tree)->pin)
        functions_of(tree)->pin(arena, ref, node);
}

// Making and measuring

static ref_t full_new(struct arena *arena, const struct tree_options *options)
{
    const uint32_t metrics = options->metrics;
    if (metrics == 0 || metrics > TREE_MOST_METRICS)
        return 0;
    ref_t ref = arena_alloc(arena, sizeof(struct tree));
    if (!ref)
        return 0;
    struct tree *tree = tree_at(arena, ref);
    tree->kind = TREE_FULL;
    tree->metrics = metrics;
    tree->hot_from = (ref_t)(arena_kept_from(arena) / 8);
    ref_t first = tree_block_new(arena, ref, metrics, FIRST_NODES, true);
    tree->reserve = tree_block_new(arena, ref, metrics, RESERVE_NODES, true);
    if (!first || !tree->reserve || !tree_edges_start(arena, ref))
        return 0;
    ref_t root_edge =
        options->start ? tree_edge(arena, ref, 0, options->start) : tree->unplaced_edge;
    if (!root_edge)
        return 0;
    tree->last_block = tree->tail = first;
    tree->root = tree_node_new(arena, first, 0, root_edge);
    tree->root_unplaced = tree_unplaced(arena, ref, tree->root);
    // Last and with release: a reader that finds the first block finds a whole tree.
    atomic_store_explicit(&tree->first_block, first, memory_order_release);
    return ref;
}

// Where the arena has no room for one, it continues at once as one that forgets.
static ref_t full_make(struct arena *arena, const struct tree_options *options)
{
    const ref_t ref = full_new(arena, options);
    return ref || !options->metrics ? ref : hot_new_in_kept(arena, options);
}

enum { TREE_KINDS = TREE_FUNCTIONS + 1 };

static const struct tree_functions kinds[TREE_KINDS] = {
    [TREE_FULL] = {.traits = {.keeps_all = true, .has_paths = true},
                   .make = full_make,
                   .child = hot_child,
                   .call = full_call,
                   .unplaced = full_unplaced,
                   .charge = full_charge,
                   .pin = hot_pin,
                   .charges_late = true},
    [TREE_HOT] = {.traits = {.has_paths = true, .has_errors = true},
                  .make = hot_new,
                  .child = hot_child,
                  .call = hot_call,
                  .unplaced = hot_unplaced,
                  .charge = hot_charge,
                  .pin = hot_pin,
                  .charges_late = true},
    [TREE_BOUNDED] = {.traits = {.has_paths = true, .has_buffer = true, .weighs_edges = true},
                      .make = bounded_new,
                      .child = bounded_no_child,
                      .call = bounded_no_call,
                      .unplaced = bounded_unplaced,
                      .charge = bounded_charge},
    [TREE_FUNCTIONS] = {.traits = {.has_buffer = true},
                        .make = bounded_new,
                        .child = bounded_no_child,
                        .call = bounded_no_call,
                        .unplaced = bounded_unplaced,
                        .charge = bounded_charge},
};

const struct tree_traits *tree_traits_of(uint32_t kind)
{
    return &kinds[kind < TREE_KINDS ? kind : TREE_FULL].traits;
}

// The kind may be damaged, too.
static const struct tree_functions *functions_of(const struct tree *tree)
{
    return &kinds[tree->kind < TREE_KINDS ? tree->kind : TREE_FULL];
}

ref_t tree_new(struct arena *arena, const struct tree_options *options)
{
    return options->kind < TREE_KINDS ? kinds[options->kind].make(arena, options) : 0;
}

enum tree_kind tree_kind(const struct arena *arena, ref_t tree)
{
    return tree_at(arena, tree)->kind;
}

bool tree_forgets(const struct arena *arena, ref_t tree)
{
    return tree_is_forgetting(tree_at(arena, tree));
}

bool tree_node_stays(const struct arena *arena, ref_t ref, ref_t node)
{
    const struct tree *tree = tree_at(arena, ref);
    return tree_traits_of(tree->kind)->keeps_all && !hot_comes_and_goes(tree, node);
}

ref_t tree_root(const struct arena *arena, ref_t tree)
{
    return tree_at(arena, tree)->root;
}

unsigned tree_metrics(const struct arena *arena, ref_t tree)
{
    return tree_at(arena, tree)->metrics;
}
