// SPDX-License-Identifier: MIT

#include "export/cost_lines.h"
#include "analyze/index/hash_index.h"
#include "base/memory.h"

static struct cost_line *find_line(struct cost_lines *lines, struct cost_line wanted)
{
    const uint64_t hash =
        hash_index_mix(hash_index_mix((uint64_t)wanted.function << 32 | wanted.callee) +
                       ((uint64_t)wanted.file << 32 | wanted.line));
    struct hash_index_cursor cursor = hash_index_find(&lines->by_place, hash);
    for (uint32_t found; hash_index_next(&lines->by_place, &cursor, &found);) {
        struct cost_line *line = &lines->list[found];
        if (line->function == wanted.function && line->callee == wanted.callee &&
            line->file == wanted.file && line->line == wanted.line)
            return line;
    }
    const unsigned metrics = lines->input->metric_count;
    wanted.values = lines->count * metrics;
    lines->list =
        memory_grown(lines->list, &lines->capacity, lines->count + 1, sizeof *lines->list);
    lines->values = memory_grown(lines->values, &lines->value_capacity, wanted.values + metrics,
                                 sizeof *lines->values);
    memset(lines->values + wanted.values, 0, metrics * sizeof *lines->values);
    lines->list[lines->count] = wanted;
    hash_index_add(&lines->by_place, hash, (uint32_t)lines->count);
    return &lines->list[lines->count++];
}

static void add_values(struct cost_lines *lines, const struct cost_line *line,
                       const uint64_t *values)
{
    const struct export_input *input = lines->input;
    for (unsigned i = 0; i < input->metric_count; i++)
        lines->values[line->values + i] += values[input->metrics[i]];
}

static bool has_cost(const struct cost_lines *lines, const uint64_t *values)
{
    const struct export_input *input = lines->input;
    for (unsigned i = 0; i < input->metric_count; i++)
        if (values[input->metrics[i]])
            return true;
    return false;
}

static void find_files(struct cost_lines *lines)
{
    const struct calltree *tree = lines->input->tree;
    const uint32_t count = functions_count(tree->functions);
    lines->files = memory_array(count, sizeof *lines->files);
    for (uint32_t i = 0; i < count; i++)
        lines->files[i] = functions_get(tree->functions, i)->file;
    for (size_t i = 0; i < tree->line_count; i++) {
        uint32_t *file = &lines->files[tree->nodes[tree->lines[i].node].function];
        if (!*file)
            *file = tree->lines[i].file;
    }
}

static void add_own_cost(struct cost_lines *lines)
{
    const struct calltree *tree = lines->input->tree;
    for (size_t i = 0; i < tree->line_count; i++) {
        const struct call_line *line = &tree->lines[i];
        const uint64_t *values = tree->line_values + i * tree->metrics;
        const uint32_t function = tree->nodes[line->node].function;
        if (!has_cost(lines, values))
            continue;
        const struct cost_line wanted = {
            .function = function,
            .file = line->file ? line->file : lines->files[function],
            .line = line->line,
        };
        add_values(lines, find_line(lines, wanted), values);
    }
}

// By node: whether its function is on the path to it already.
static bool *find_inner_calls(const struct calltree *tree)
{
    bool *inner = memory_array(tree->count, sizeof *inner);
    uint32_t *active = memory_array(functions_count(tree->functions), sizeof *active);
    struct calltree_walk walk;
    calltree_walk_start(&walk, tree);
    for (enum walk_event event; (event = calltree_walk_next(&walk)) != WALK_END;) {
        uint32_t *of_function = &active[tree->nodes[walk.node].function];
        if (event == WALK_ENTER)
            inner[walk.node] = (*of_function)++ > 0;
        else
            (*of_function)--;
    }
    calltree_walk_end(&walk);
    free(active);
    return inner;
}

// The metric that counts calls, metric_count if there is none.
static unsigned metric_of_calls(const struct profile *profile)
{
    unsigned metric = 0;
    while (metric < profile->metric_count && !profile_counts_calls(&profile->metrics[metric]))
        metric++;
    return metric;
}

static void add_calls(struct cost_lines *lines)
{
    const struct calltree *tree = lines->input->tree;
    const unsigned calls = metric_of_calls(lines->input->analysis->profile);
    bool *inner = find_inner_calls(tree);
    for (uint32_t i = 1; i < tree->count; i++) {
        const struct call_node *node = &tree->nodes[i];
        const uint64_t *total = tree->total + (size_t)i * tree->metrics;
        if (!has_cost(lines, total))
            continue;
        const uint32_t caller = tree->nodes[node->parent].function;
        const struct cost_line wanted = {
            .function = caller,
            .file = node->call_file ? node->call_file : lines->files[caller],
            .line = node->call_line,
            .callee = node->function,
        };
        struct cost_line *line = find_line(lines, wanted);
        if (calls < tree->metrics && node->kind != CALL_INLINED)
            line->calls += calltree_self(tree, i, calls);
        if (!inner[i])
            add_values(lines, line, total);
    }
    free(inner);
}

static int compare_cost_lines(const void *left, const void *right)
{
    const struct cost_line *a = left, *b = right;
    if (a->function != b->function)
        return a->function < b->function ? -1 : 1;
    if (a->file != b->file)
        return a->file < b->file ? -1 : 1;
    if (a->line != b->line)
        return a->line < b->line ? -1 : 1;
    return a->callee < b->callee ? -1 : a->callee > b->callee;
}

void cost_lines_open(struct cost_lines *lines, const struct export_input *input)
{
    *lines = (struct cost_lines){.input = input};
    find_files(lines);
    add_own_cost(lines);
    add_calls(lines);
    if (lines->count)
        qsort(lines->list, lines->count, sizeof *lines->list, compare_cost_lines);
}

void cost_lines_close(struct cost_lines *lines)
{
    free(lines->files);
    free(lines->list);
    free(lines->values);
    hash_index_free(&lines->by_place);
}
