// SPDX-License-Identifier: MIT

#include "analyze/views/flat.h"
#include "base/memory.h"

static bool same_key(const struct flat_row *a, const struct flat_row *b)
{
    return a->function == b->function && a->module == b->module && a->file == b->file &&
           a->line == b->line;
}

static uint32_t row_number(struct flat *flat, struct flat_row row)
{
    uint64_t hash = hash_index_mix(hash_index_mix((uint64_t)row.file << 32 | row.line) +
                                   ((uint64_t)row.module << 32 | row.function));
    struct hash_index_cursor cursor = hash_index_find(&flat->by_key, hash);
    for (uint32_t found; hash_index_next(&flat->by_key, &cursor, &found);)
        if (same_key(&flat->rows[found], &row)) {
            flat->rows[found].inlined &= row.inlined;
            return found;
        }
    size_t number = flat->count++, values = flat->count * flat->metrics;
    flat->rows = memory_grown(flat->rows, &flat->row_capacity, flat->count, sizeof row);
    flat->self = memory_grown(flat->self, &flat->self_capacity, values, sizeof(uint64_t));
    flat->total = memory_grown(flat->total, &flat->total_capacity, values, sizeof(uint64_t));
    memset(flat->self + number * flat->metrics, 0, flat->metrics * sizeof(uint64_t));
    memset(flat->total + number * flat->metrics, 0, flat->metrics * sizeof(uint64_t));
    flat->rows[number] = row;
    hash_index_add(&flat->by_key, hash, (uint32_t)number);
    return (uint32_t)number;
}

// A frame that stands for a file.
static bool is_file(const struct calltree *tree, uint32_t module)
{
    const char *name = functions_module_name(tree->functions, module);
    return name && strcmp(name, PLACE_FILES) == 0;
}

// The row that a node belongs to; CALL_NONE if it belongs to none.
static uint32_t row_of_node(struct flat *flat, const struct calltree *tree, uint32_t node)
{
    const struct call_node *call = &tree->nodes[node];
    const struct function *function = calltree_function(tree, node);
    switch (flat->by) {
    case FLAT_FUNCTION:
        if (!call_is_code(call))
            return CALL_NONE;
        return row_number(flat, (struct flat_row){.function = call->function,
                                                  .module = function->module,
                                                  .inlined = call->kind == CALL_INLINED});
    case FLAT_FILE:
        return call_is_code(call) && is_file(tree, function->module)
                   ? row_number(flat, (struct flat_row){.function = call->function,
                                                        .module = function->module})
                   : CALL_NONE;
    case FLAT_MODULE:
        if (!call_is_code(call))
            return CALL_NONE;
        return row_number(flat, (struct flat_row){.module = function->module});
    case FLAT_THREAD:
    case FLAT_PROCESS:
    case FLAT_PROGRAM:
        if (call->kind != (flat->by == FLAT_THREAD ? CALL_THREAD : CALL_PROCESS))
            return CALL_NONE;
        return row_number(flat, (struct flat_row){.function = call->function});
    case FLAT_LINE: {
        // A node stands for the line it was called from: that line has its total.
        if (!call_is_code(call) || !call_is_code(&tree->nodes[call->parent]))
            return CALL_NONE;
        const struct call_node *caller = &tree->nodes[call->parent];
        return row_number(flat,
                          (struct flat_row){.function = caller->function,
                                            .module = calltree_function(tree, call->parent)->module,
                                            .file = call->call_file,
                                            .line = call->call_line,
                                            .inlined = caller->kind == CALL_INLINED});
    }
    }
    return CALL_NONE;
}

static void add_values(uint64_t *to, const uint64_t *values, unsigned metrics)
{
    for (unsigned i = 0; i < metrics; i++)
        to[i] += values[i];
}

static void add_node(struct flat *flat, const struct calltree *tree, uint32_t node, uint32_t row,
                     bool outermost)
{
    unsigned metrics = flat->metrics;
    if (flat->by == FLAT_FUNCTION || flat->by == FLAT_MODULE || flat->by == FLAT_FILE)
        add_values(flat->self + (size_t)row * metrics, tree->self + (size_t)node * metrics,
                   metrics);
    if (flat->by == FLAT_FUNCTION)
        flat->rows[row].returns += calltree_returns(tree, node);
    if (outermost)
        add_values(flat->total + (size_t)row * metrics, tree->total + (size_t)node * metrics,
                   metrics);
    // A thread or process is not called: all its cost is its own.
    if (flat_is_by_owner(flat->by))
        add_values(flat->self + (size_t)row * metrics, tree->total + (size_t)node * metrics,
                   metrics);
}

struct activity {
    uint32_t *active; // per row: how often it is on the current path
    size_t capacity;
};

static uint32_t *active_count(struct activity *activity, uint32_t row)
{
    if (row >= activity->capacity) {
        size_t before = activity->capacity;
        activity->active = memory_grown(activity->active, &activity->capacity, (size_t)row + 1,
                                        sizeof *activity->active);
        memset(activity->active + before, 0,
               (activity->capacity - before) * sizeof *activity->active);
    }
    return &activity->active[row];
}

static void add_line(struct flat *flat, const struct calltree *tree, struct activity *activity,
                     uint32_t number)
{
    const struct call_line *line = &tree->lines[number];
    const struct call_node *call = &tree->nodes[line->node];
    if (!call_is_code(call))
        return;
    uint32_t row =
        row_number(flat, (struct flat_row){.function = call->function,
                                           .module = calltree_function(tree, line->node)->module,
                                           .file = line->file,
                                           .line = line->line,
                                           .inlined = call->kind == CALL_INLINED});
    const uint64_t *values = tree->line_values + (size_t)number * flat->metrics;
    add_values(flat->self + (size_t)row * flat->metrics, values, flat->metrics);
    if (*active_count(activity, row) == 0)
        add_values(flat->total + (size_t)row * flat->metrics, values, flat->metrics);
}

struct flat *flat_new(const struct calltree *tree, enum flat_by by)
{
    struct flat *flat = memory_array(1, sizeof *flat);
    flat->by = by;
    flat->metrics = tree->metrics;
    uint32_t *rows = memory_array(tree->count, sizeof *rows), *lines = NULL, *first_line = NULL;
    if (by == FLAT_LINE)
        first_line = calltree_lines(tree, &lines);
    struct activity activity = {0};
    struct calltree_walk walk;
    calltree_walk_start(&walk, tree);
    for (enum walk_event event; (event = calltree_walk_next(&walk)) != WALK_END;) {
        uint32_t node = walk.node;
        if (event == WALK_ENTER) {
            rows[node] = row_of_node(flat, tree, node);
            if (rows[node] != CALL_NONE)
                add_node(flat, tree, node, rows[node],
                         (*active_count(&activity, rows[node]))++ == 0);
            if (by == FLAT_LINE)
                for (uint32_t i = first_line[node]; i < first_line[node + 1]; i++)
                    add_line(flat, tree, &activity, lines[i]);
        } else if (rows[node] != CALL_NONE) {
            (*active_count(&activity, rows[node]))--;
        }
    }
    calltree_walk_end(&walk);
    free(activity.active);
    free(first_line);
    free(lines);
    free(rows);
    return flat;
}

struct flat_sort_key {
    const struct flat *flat;
    const struct functions *functions;
    const uint64_t *values, *others;
    unsigned metric;
};

static int compare_rows(const void *left, const void *right, void *context)
{
    const struct flat_sort_key *key = context;
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    const uint64_t *columns[] = {key->values, key->others};
    for (unsigned i = 0; i < 2; i++) {
        uint64_t cost_a = columns[i][(size_t)a * key->flat->metrics + key->metric];
        uint64_t cost_b = columns[i][(size_t)b * key->flat->metrics + key->metric];
        if (cost_a != cost_b)
            return cost_a < cost_b ? 1 : -1;
    }
    const struct flat_row *row_a = &key->flat->rows[a], *row_b = &key->flat->rows[b];
    int names = strcmp(functions_get(key->functions, row_a->function)->name,
                       functions_get(key->functions, row_b->function)->name);
    if (names)
        return names;
    if (row_a->line != row_b->line)
        return row_a->line < row_b->line ? -1 : 1;
    return a < b ? -1 : 1;
}

void flat_order(struct flat *flat, const struct functions *functions, unsigned metric,
                enum call_order order)
{
    free(flat->order);
    flat->order = memory_array(flat->count, sizeof *flat->order);
    for (size_t i = 0; i < flat->count; i++)
        flat->order[i] = (uint32_t)i;
    bool by_self = order == ORDER_SELF;
    struct flat_sort_key key = {.flat = flat,
                                .functions = functions,
                                .values = by_self ? flat->self : flat->total,
                                .others = by_self ? flat->total : flat->self,
                                .metric = metric};
    if (flat->count > 1)
        qsort_r(flat->order, flat->count, sizeof *flat->order, compare_rows, &key);
}

void flat_free(struct flat *flat)
{
    if (!flat)
        return;
    hash_index_free(&flat->by_key);
    free(flat->rows);
    free(flat->self);
    free(flat->total);
    free(flat->order);
    free(flat);
}
