// SPDX-License-Identifier: MIT

#include "cmd/top/rows.h"
#include "analyze/names/short_name.h"
#include "analyze/views/callers.h"
#include "analyze/views/flat.h"
#include "base/memory.h"
#include <stdlib.h>

// Rows below which a tree is open by itself: of so many parts of the whole one.
#define OPEN_PART 10
#define CALLERS_DEPTH 32

static size_t find_toggled(const struct top_view *view, uint64_t key)
{
    size_t at = 0;
    while (at < view->toggled_count && view->toggled[at] != key)
        at++;
    return at;
}

void top_view_toggle(struct top_view *view, uint64_t key)
{
    const size_t at = find_toggled(view, key);
    if (at < view->toggled_count) {
        view->toggled[at] = view->toggled[--view->toggled_count];
        return;
    }
    view->toggled = memory_grown(view->toggled, &view->toggled_capacity, view->toggled_count + 1,
                                 sizeof *view->toggled);
    view->toggled[view->toggled_count++] = key;
}

void top_view_free(struct top_view *view)
{
    free(view->toggled);
    *view = (struct top_view){0};
}

void top_rows_free(struct top_rows *rows)
{
    free(rows->rows);
    *rows = (struct top_rows){0};
}

static void add(struct top_rows *rows, const struct top_row *row)
{
    rows->rows = memory_grown(rows->rows, &rows->capacity, rows->count + 1, sizeof *rows->rows);
    rows->rows[rows->count++] = *row;
}

static void add_functions(struct top_rows *rows, struct top_model *model,
                          const struct top_view *view, struct pattern *filter)
{
    const struct functions *functions = model->analysis.functions;
    calltree_order(model->tree, view->order, ORDER_SELF);
    struct flat *flat = flat_new(model->tree, FLAT_FUNCTION);
    flat_order(flat, functions, view->order, ORDER_SELF);
    for (size_t i = 0; i < flat->count; i++) {
        const size_t at = flat->order[i];
        const uint32_t function = flat->rows[at].function;
        const uint64_t *self = &flat->self[at * TOP_VALUES];
        if ((filter && !pattern_matches(filter, functions, function)) || !self[TOP_ALL])
            continue;
        add(rows, &(struct top_row){
                      .key = top_key(0, functions, function),
                      .function = function,
                      .value = {self[TOP_ALL], self[TOP_NOW]},
                      .other = flat->total[at * TOP_VALUES + view->order],
                  });
    }
    flat_free(flat);
}

// By node: whether the filter shows it, for it matches, or one above or below it does; and whether
// it must be open to show what matches.
struct filtered {
    bool *shown, *opened;
};

static struct filtered apply_filter(const struct calltree *tree, struct pattern *filter)
{
    struct filtered filtered = {memory_array(tree->count, sizeof(bool)),
                                memory_array(tree->count, sizeof(bool))};
    bool *matches = memory_array(tree->count, sizeof *matches);
    for (size_t i = tree->count; i-- > 1;) {
        matches[i] = !filter || pattern_matches(filter, tree->functions, tree->nodes[i].function);
        filtered.shown[i] |= matches[i];
        filtered.shown[tree->nodes[i].parent] |= filtered.shown[i];
        filtered.opened[tree->nodes[i].parent] |= filter && filtered.shown[i];
    }
    for (size_t i = 1; i < tree->count; i++) {
        matches[i] |= matches[tree->nodes[i].parent];
        filtered.shown[i] |= matches[i];
    }
    free(matches);
    return filtered;
}

static bool is_startup(const struct calltree *tree, uint32_t node, const bool *startup)
{
    const uint32_t parent = tree->nodes[node].parent;
    return (parent == 0 || startup[parent]) && tree->first[node + 1] > tree->first[node] &&
           name_is_startup(calltree_function(tree, node)->name);
}

// The rows of an ordered tree. Start-up code at its root has none.
static void add_tree(struct top_rows *rows, const struct calltree *tree,
                     const struct top_view *view, struct pattern *filter)
{
    const struct filtered filtered = apply_filter(tree, filter);
    bool *startup = memory_array(tree->count, sizeof *startup);
    uint64_t *keys = memory_array(tree->count, sizeof *keys);
    unsigned *depths = memory_array(tree->count, sizeof *depths);
    struct calltree_walk walk;
    calltree_walk_start(&walk, tree);
    for (enum walk_event event; (event = calltree_walk_next(&walk)) != WALK_END;) {
        const uint32_t node = walk.node;
        if (event != WALK_ENTER || node == 0)
            continue;
        const uint32_t parent = tree->nodes[node].parent;
        keys[node] = top_key(keys[parent], tree->functions, tree->nodes[node].function);
        startup[node] = view->kind == TOP_TREE && is_startup(tree, node, startup);
        depths[node] = depths[parent] + (parent && !startup[parent]);
        if (startup[node])
            continue;
        // Of a function's callers, the costs are its own.
        const uint64_t *value =
            &(view->kind == TOP_TREE ? tree->total : tree->self)[(size_t)node * TOP_VALUES];
        const bool has_cost = value[TOP_ALL] > 0;
        bool is_open = view->kind == TOP_TREE &&
                       value[view->order] >= rows->whole[view->order] / OPEN_PART &&
                       value[view->order] > 0;
        is_open |= filtered.opened[node];
        is_open ^= find_toggled(view, keys[node]) < view->toggled_count;
        if (has_cost && filtered.shown[node])
            add(rows, &(struct top_row){
                          .key = keys[node],
                          .depth = depths[node],
                          .function = tree->nodes[node].function,
                          .value = {value[TOP_ALL], value[TOP_NOW]},
                          .other = view->kind == TOP_TREE ? calltree_self(tree, node, view->order)
                                                          : calltree_total(tree, node, view->order),
                          .has_children = tree->first[node + 1] > tree->first[node],
                          .is_open = is_open,
                      });
        if (!is_open || !has_cost || !filtered.shown[node])
            calltree_walk_skip(&walk);
    }
    calltree_walk_end(&walk);
    free(filtered.shown);
    free(filtered.opened);
    free(startup);
    free(keys);
    free(depths);
}

struct top_rows top_rows_make(struct top_model *model, const struct top_view *view, char **error)
{
    struct top_rows rows = {0};
    struct pattern *filter = view->filter[0] ? pattern_new(view->filter, error) : NULL;
    for (unsigned i = 0; i < TOP_VALUES; i++)
        rows.whole[i] = model->tree->total[i];
    if (view->kind == TOP_FUNCTIONS) {
        add_functions(&rows, model, view, filter);
    } else {
        calltree_order(model->tree, view->order, ORDER_TOTAL);
        if (view->kind == TOP_TREE) {
            add_tree(&rows, model->tree, view, filter);
        } else {
            const struct callers_options options = {.metric = view->order,
                                                    .order = ORDER_SELF,
                                                    .least = rows.whole[view->order] / 1000,
                                                    .depth = CALLERS_DEPTH,
                                                    .focus = filter};
            struct calltree *callers = callers_tree(model->tree, &options);
            calltree_order(callers, view->order, ORDER_SELF);
            add_tree(&rows, callers, view, NULL);
            calltree_free(callers);
        }
    }
    pattern_free(filter);
    return rows;
}
