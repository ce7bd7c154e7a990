// SPDX-License-Identifier: MIT

#include "analyze/tree/refine.h"
#include "analyze/names/short_name.h"
#include "base/memory.h"
#include <math.h>

#define CYCLE_LIMIT 4096 // functions between two calls of the same one

struct refining {
    const struct calltree *from;
    struct calltree *to;
    uint32_t *image; // per node of `from`: its node in `to`, CALL_NONE if it is not kept
};

static struct refining start(const struct calltree *from)
{
    struct refining refining = {.from = from};
    const char *root = calltree_function(from, 0)->name;
    refining.to = calltree_new(from->functions, from->metrics, root);
    refining.to->sites = from->sites;
    refining.to->keep_lines = from->keep_lines;
    refining.image = memory_array(from->count, sizeof *refining.image);
    return refining;
}

static uint32_t copy_under(struct refining *refining, uint32_t node, uint32_t parent, bool top)
{
    const struct call_node *old = &refining->from->nodes[node];
    struct call_edge edge = {.function = old->function, .kind = (enum call_kind)old->kind};
    if (!top) {
        edge.call_file = old->call_file;
        edge.call_line = old->call_line;
    }
    uint32_t copy = calltree_child(refining->to, parent, edge);
    calltree_add_returns(refining->to, copy, calltree_returns(refining->from, node));
    return copy;
}

// Moves the cost of every kept node for which keep[] is set (all, if NULL), lines included.
static void move_cost(struct refining *refining, const bool *keep)
{
    const struct calltree *from = refining->from;
    unsigned metrics = from->metrics;
    struct calltree *to = refining->to;
    for (size_t i = 0; i < from->line_count; i++) {
        uint32_t node = from->lines[i].node;
        if (refining->image[node] != CALL_NONE && (!keep || keep[node]))
            calltree_add(to, refining->image[node], from->lines[i].file, from->lines[i].line,
                         from->line_values + i * metrics);
    }
    if (from->keep_lines)
        return; // every cost has a line, if only line 0
    for (uint32_t i = 0; i < from->count; i++)
        if (refining->image[i] != CALL_NONE && (!keep || keep[i]))
            calltree_add(to, refining->image[i], 0, 0, from->self + (size_t)i * metrics);
}

static struct calltree *finish(struct refining *refining)
{
    free(refining->image);
    calltree_sum(refining->to);
    return refining->to;
}

// A path so far, from the root on.
struct progress {
    uint32_t met; // a bit per pattern of `through`
    bool refused; // a pattern of `without` matched
};

static struct progress step(const struct calltree *tree, uint32_t number, struct progress path,
                            const struct pattern_list *through, const struct pattern_list *without)
{
    const struct call_node *node = &tree->nodes[number];
    if (!call_is_code(node))
        return path;
    for (unsigned p = 0; p < through->count; p++)
        if (!(path.met & UINT32_C(1) << p) &&
            pattern_matches(through->patterns[p], tree->functions, node->function))
            path.met |= UINT32_C(1) << p;
    for (unsigned p = 0; p < without->count && !path.refused; p++)
        path.refused = pattern_matches(without->patterns[p], tree->functions, node->function);
    return path;
}

struct calltree *refine_paths(const struct calltree *tree, const struct pattern_list *through,
                              const struct pattern_list *without)
{
    struct refining refining = start(tree);
    struct progress *paths = memory_array(tree->count, sizeof *paths);
    bool *keep = memory_array(tree->count, sizeof *keep);
    bool *needed = memory_array(tree->count, sizeof *needed); // it, or something below it, is kept
    uint32_t all = (uint32_t)((UINT64_C(1) << through->count) - 1);
    for (uint32_t i = 1; i < tree->count; i++) {
        paths[i] = step(tree, i, paths[tree->nodes[i].parent], through, without);
        keep[i] = needed[i] = paths[i].met == all && !paths[i].refused;
    }
    for (uint32_t i = (uint32_t)tree->count; i-- > 1;)
        if (needed[i])
            needed[tree->nodes[i].parent] = true;
    for (uint32_t i = 1; i < tree->count; i++)
        refining.image[i] =
            needed[i] ? copy_under(&refining, i, refining.image[tree->nodes[i].parent], false)
                      : CALL_NONE;
    move_cost(&refining, keep);
    free(paths);
    free(keep);
    free(needed);
    return finish(&refining);
}

struct calltree *refine_focus(const struct calltree *tree, struct pattern *pattern)
{
    struct refining refining = start(tree);
    refining.image[0] = CALL_NONE;
    for (uint32_t i = 1; i < tree->count; i++) {
        const struct call_node *node = &tree->nodes[i];
        uint32_t above = refining.image[node->parent];
        if (above != CALL_NONE)
            refining.image[i] = copy_under(&refining, i, above, false);
        else if (call_is_code(node) && pattern_matches(pattern, tree->functions, node->function))
            refining.image[i] = copy_under(&refining, i, 0, true);
        else
            refining.image[i] = CALL_NONE;
    }
    move_cost(&refining, NULL);
    return finish(&refining);
}

// The largest share of a node in any metric: of a caller, it is at least that of its callees.
static float share_of(const struct calltree *tree, uint32_t node)
{
    double largest = 0;
    for (unsigned i = 0; i < tree->metrics; i++) {
        const double whole = (double)calltree_total(tree, 0, i);
        const double share = whole > 0 ? (double)calltree_total(tree, node, i) / whole : 0;
        largest = share > largest ? share : largest;
    }
    return (float)largest;
}

static int compare_shares(const void *left, const void *right)
{
    const float a = *(const float *)left, b = *(const float *)right;
    return a < b ? 1 : a > b ? -1 : 0;
}

// The share from which on nodes are kept, so that about `most` are.
static float least_share(const struct calltree *tree, const float *shares, size_t most)
{
    if (tree->count <= most)
        return 0;
    float *sorted = memory_array(tree->count, sizeof *sorted);
    memcpy(sorted, shares, tree->count * sizeof *sorted);
    qsort(sorted, tree->count, sizeof *sorted, compare_shares);
    // Of nodes with the same share, all or none: the path to each is as large as it.
    const float least = sorted[most] < sorted[0] ? nextafterf(sorted[most], 2) : sorted[most];
    free(sorted);
    return least;
}

static uint32_t add_small(struct refining *refining, uint32_t node, uint32_t parent)
{
    const struct calltree *from = refining->from;
    const struct call_edge edge = {
        .function = functions_intern(from->functions, SMALL_CONTEXTS, MODULE_NONE),
        .kind = CALL_FUNCTION};
    const uint32_t small = calltree_child(refining->to, parent, edge);
    calltree_add(refining->to, small, 0, 0, from->total + (size_t)node * from->metrics);
    return small;
}

struct calltree *refine_costliest(const struct calltree *tree, size_t most, uint32_t **went,
                                  size_t *left_out)
{
    struct refining refining = start(tree);
    float *shares = memory_array(tree->count, sizeof *shares);
    for (uint32_t i = 0; i < tree->count; i++)
        shares[i] = share_of(tree, i);
    const float least = least_share(tree, shares, most);
    *went = memory_array(tree->count, sizeof **went);
    *left_out = 0;
    for (uint32_t i = 1; i < tree->count; i++) {
        const uint32_t above = tree->nodes[i].parent, parent = refining.image[above];
        const bool kept = parent != CALL_NONE && shares[i] >= least;
        refining.image[i] = kept ? copy_under(&refining, i, parent, false) : CALL_NONE;
        *left_out += !kept;
        (*went)[i] = kept                  ? refining.image[i]
                     : parent != CALL_NONE ? add_small(&refining, i, parent)
                                           : (*went)[above];
    }
    free(shares);
    move_cost(&refining, NULL);
    return finish(&refining);
}

// The node on the way from `node` up to the root that is the same function; CALL_NONE: none is.
static uint32_t same_above(const struct calltree *tree, uint32_t node, uint32_t function)
{
    while (node != CALL_NONE &&
           (tree->nodes[node].function != function || !call_is_code(&tree->nodes[node])))
        node = tree->nodes[node].parent;
    return node;
}

// How often the function of a node is on the path to it, if it is there again: once more than on
// that to the nearest one above. Far above there may be another, which is not looked for.
static uint32_t depth_of(const struct calltree *tree, const uint32_t *depths, uint32_t node)
{
    const uint32_t function = tree->nodes[node].function;
    uint32_t above = tree->nodes[node].parent;
    for (unsigned steps = 0; above != CALL_NONE && steps < CYCLE_LIMIT; steps++) {
        if (tree->nodes[above].function == function)
            return depths[above] + 1;
        above = tree->nodes[above].parent;
    }
    return 2;
}

// Whether a function runs before the own code of a thread, below the call that created the thread:
// it is on the path once for each of these, and does not call itself.
static bool starts_thread(const struct calltree *tree, const bool *starts, uint32_t node)
{
    return (tree->nodes[node].kind == CALL_STARTED || starts[tree->nodes[node].parent]) &&
           call_is_code(&tree->nodes[node]) && name_is_startup(calltree_function(tree, node)->name);
}

struct calltree *refine_recursion(const struct calltree *tree)
{
    struct refining refining = start(tree);
    uint32_t *depths = memory_array(tree->count, sizeof *depths);
    bool *starts = memory_array(tree->count, sizeof *starts);
    for (uint32_t i = 1; i < tree->count; i++) {
        const struct call_node *node = &tree->nodes[i];
        uint32_t parent = refining.image[node->parent];
        starts[i] = starts_thread(tree, starts, i);
        uint32_t again = call_is_code(node) && !starts[i]
                             ? same_above(refining.to, parent, node->function)
                             : CALL_NONE;
        depths[i] = 1;
        if (again == CALL_NONE) {
            refining.image[i] = copy_under(&refining, i, parent, false);
            continue;
        }
        depths[i] = depth_of(tree, depths, i);
        // Where it is called from stays what it was: outside of the recursion.
        struct call_node *folded = &refining.to->nodes[again];
        calltree_add_returns(refining.to, again, calltree_returns(tree, i));
        if (node->kind != CALL_INLINED && folded->kind != CALL_STARTED)
            folded->kind = node->kind;
        const uint32_t depth = depths[i] < CALL_DEEPEST ? depths[i] : CALL_DEEPEST;
        if (folded->recursion < depth)
            folded->recursion = depth & CALL_DEEPEST;
        refining.image[i] = again;
    }
    free(depths);
    free(starts);
    move_cost(&refining, NULL);
    return finish(&refining);
}
