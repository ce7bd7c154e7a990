// SPDX-License-Identifier: MIT

#include "analyze/tree/calltree.h"
#include "base/memory.h"

const char *call_kind_name(enum call_kind kind)
{
    static const char *const names[] = {"root",     "process", "thread", "phase",
                                        "function", "inlined", "started"};
    return names[kind];
}

static uint32_t new_node(struct calltree *tree, struct call_node node)
{
    tree->nodes =
        memory_grown(tree->nodes, &tree->node_capacity, tree->count + 1, sizeof *tree->nodes);
    size_t values = (tree->count + 1) * tree->metrics;
    tree->self = memory_grown(tree->self, &tree->self_capacity, values, sizeof *tree->self);
    memset(tree->self + values - tree->metrics, 0, tree->metrics * sizeof *tree->self);
    tree->nodes[tree->count] = node;
    return (uint32_t)tree->count++;
}

struct calltree *calltree_new(struct functions *functions, unsigned metrics, const char *root)
{
    struct calltree *tree = memory_array(1, sizeof *tree);
    tree->functions = functions;
    tree->metrics = metrics;
    new_node(tree, (struct call_node){.parent = CALL_NONE,
                                      .function = functions_intern(functions, root, MODULE_NONE),
                                      .kind = CALL_ROOT});
    return tree;
}

void calltree_free(struct calltree *tree)
{
    if (!tree)
        return;
    child_index_free(&tree->by_edge);
    hash_index_free(&tree->by_line);
    free(tree->nodes);
    free(tree->self);
    free(tree->total);
    free(tree->returns);
    free(tree->lines);
    free(tree->line_values);
    free(tree->first);
    free(tree->children);
    free(tree);
}

void calltree_meet(struct calltree *tree, uint32_t number, struct call_edge edge)
{
    struct call_node *node = &tree->nodes[number];
    if (edge.kind != CALL_INLINED && node->kind != CALL_STARTED)
        node->kind = (uint8_t)edge.kind;
    if (node->call_line != edge.call_line || node->call_file != edge.call_file)
        node->call_line = LINE_SEVERAL;
}

uint32_t calltree_append(struct calltree *tree, uint32_t parent, struct call_edge edge)
{
    return new_node(tree, (struct call_node){.parent = parent,
                                             .function = edge.function,
                                             .kind = (uint8_t)edge.kind,
                                             .call_file = edge.call_file,
                                             .call_line = edge.call_line});
}

static uint64_t hash_edge(const struct calltree *tree, struct call_edge edge)
{
    const uint64_t function = (uint64_t)edge.function << 32;
    return tree->sites ? hash_index_mix((uint64_t)edge.call_file << 32 | edge.call_line) + function
                       : function;
}

static bool is_edge(const struct calltree *tree, uint32_t number, uint32_t parent,
                    struct call_edge edge)
{
    const struct call_node *node = &tree->nodes[number];
    return node->parent == parent && node->function == edge.function &&
           (!tree->sites ||
            (node->call_line == edge.call_line && node->call_file == edge.call_file));
}

uint32_t calltree_child(struct calltree *tree, uint32_t parent, struct call_edge edge)
{
    struct child_cursor cursor = child_index_find(&tree->by_edge, parent, hash_edge(tree, edge));
    for (uint32_t found; child_index_next(&tree->by_edge, &cursor, &found);)
        if (is_edge(tree, found, parent, edge)) {
            calltree_meet(tree, found, edge);
            return found;
        }
    const uint32_t child = calltree_append(tree, parent, edge);
    child_index_add(&tree->by_edge, &cursor, child);
    return child;
}

static uint32_t line_number(struct calltree *tree, struct call_line line)
{
    uint64_t hash =
        hash_index_mix(hash_index_mix((uint64_t)line.file << 32 | line.line) + line.node);
    struct hash_index_cursor cursor = hash_index_find(&tree->by_line, hash);
    for (uint32_t found; hash_index_next(&tree->by_line, &cursor, &found);) {
        const struct call_line *known = &tree->lines[found];
        if (known->node == line.node && known->file == line.file && known->line == line.line)
            return found;
    }
    tree->lines =
        memory_grown(tree->lines, &tree->line_capacity, tree->line_count + 1, sizeof *tree->lines);
    size_t values = (tree->line_count + 1) * tree->metrics;
    tree->line_values =
        memory_grown(tree->line_values, &tree->line_values_capacity, values, sizeof(uint64_t));
    memset(tree->line_values + values - tree->metrics, 0, tree->metrics * sizeof(uint64_t));
    tree->lines[tree->line_count] = line;
    hash_index_add(&tree->by_line, hash, (uint32_t)tree->line_count);
    return (uint32_t)tree->line_count++;
}

static void add_values(uint64_t *to, const uint64_t *values, unsigned metrics)
{
    for (unsigned i = 0; i < metrics; i++)
        to[i] += values[i];
}

void calltree_add(struct calltree *tree, uint32_t node, uint32_t file, uint32_t line,
                  const uint64_t *values)
{
    add_values(tree->self + (size_t)node * tree->metrics, values, tree->metrics);
    if (!tree->keep_lines)
        return;
    uint32_t number = line_number(tree, (struct call_line){node, file, line});
    add_values(tree->line_values + (size_t)number * tree->metrics, values, tree->metrics);
}

void calltree_add_returns(struct calltree *tree, uint32_t node, uint64_t returns)
{
    if (returns == 0)
        return;
    const size_t before = tree->returns_capacity;
    tree->returns = memory_grown(tree->returns, &tree->returns_capacity, (size_t)node + 1,
                                 sizeof *tree->returns);
    memset(tree->returns + before, 0, (tree->returns_capacity - before) * sizeof *tree->returns);
    tree->returns[node] += returns;
}

void calltree_sum(struct calltree *tree)
{
    size_t bytes = tree->count * tree->metrics * sizeof *tree->total;
    free(tree->total);
    tree->total = memory_array(bytes, 1);
    memcpy(tree->total, tree->self, bytes);
    for (size_t i = tree->count; i-- > 1;)
        add_values(tree->total + (size_t)tree->nodes[i].parent * tree->metrics,
                   tree->total + i * tree->metrics, tree->metrics);
}

struct sort_key {
    const struct calltree *tree;
    const uint64_t *values;
    unsigned metric;
};

static int compare_siblings(const void *left, const void *right, void *context)
{
    const struct sort_key *key = context;
    const struct calltree *tree = key->tree;
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    uint64_t cost_a = key->values[(size_t)a * tree->metrics + key->metric];
    uint64_t cost_b = key->values[(size_t)b * tree->metrics + key->metric];
    if (cost_a != cost_b)
        return cost_a < cost_b ? 1 : -1;
    int names = strcmp(calltree_function(tree, a)->name, calltree_function(tree, b)->name);
    if (names)
        return names;
    uint32_t line_a = tree->nodes[a].call_line, line_b = tree->nodes[b].call_line;
    if (line_a != line_b)
        return line_a < line_b ? -1 : 1;
    return a < b ? -1 : 1;
}

void calltree_order(struct calltree *tree, unsigned metric, enum call_order order)
{
    size_t count = tree->count;
    child_index_free(&tree->by_edge);
    free(tree->first);
    free(tree->children);
    tree->first = memory_array(count + 2, sizeof *tree->first);
    tree->children = memory_array(count, sizeof *tree->children);
    // Counting sort by parent. first[n + 2] counts, then first[n + 1] is where n's next child goes,
    // which in the end is where those of n + 1 begin.
    for (size_t i = 1; i < count; i++)
        tree->first[tree->nodes[i].parent + 2]++;
    for (size_t i = 2; i <= count + 1; i++)
        tree->first[i] += tree->first[i - 1];
    for (size_t i = 1; i < count; i++)
        tree->children[tree->first[tree->nodes[i].parent + 1]++] = (uint32_t)i;

    struct sort_key key = {
        .tree = tree, .values = order == ORDER_SELF ? tree->self : tree->total, .metric = metric};
    for (size_t i = 0; i < count; i++) {
        uint32_t siblings = tree->first[i + 1] - tree->first[i];
        if (siblings > 1)
            qsort_r(tree->children + tree->first[i], siblings, sizeof *tree->children,
                    compare_siblings, &key);
    }
}

static int compare_lines(const void *left, const void *right, void *context)
{
    const struct calltree *tree = context;
    const struct call_line *a = &tree->lines[*(const uint32_t *)left];
    const struct call_line *b = &tree->lines[*(const uint32_t *)right];
    if (a->file != b->file)
        return a->file < b->file ? -1 : 1;
    return a->line < b->line ? -1 : a->line > b->line;
}

uint32_t *calltree_lines(const struct calltree *tree, uint32_t **lines)
{
    uint32_t *first = memory_array(tree->count + 2, sizeof *first);
    *lines = memory_array(tree->line_count, sizeof **lines);
    for (size_t i = 0; i < tree->line_count; i++)
        first[tree->lines[i].node + 2]++;
    for (size_t i = 2; i <= tree->count + 1; i++)
        first[i] += first[i - 1];
    for (size_t i = 0; i < tree->line_count; i++)
        (*lines)[first[tree->lines[i].node + 1]++] = (uint32_t)i;
    for (size_t i = 0; i < tree->count; i++)
        if (first[i + 1] - first[i] > 1)
            qsort_r(*lines + first[i], first[i + 1] - first[i], sizeof **lines, compare_lines,
                    (void *)tree);
    return first;
}

void calltree_walk_start(struct calltree_walk *walk, const struct calltree *tree)
{
    *walk =
        (struct calltree_walk){.tree = tree, .cursor = memory_array(tree->count, sizeof(uint32_t))};
}

enum walk_event calltree_walk_next(struct calltree_walk *walk)
{
    const struct calltree *tree = walk->tree;
    if (!walk->started) {
        walk->started = true;
        return WALK_ENTER;
    }
    if (walk->node == CALL_NONE)
        return WALK_END;
    uint32_t begin = tree->first[walk->node], end = tree->first[walk->node + 1];
    uint32_t *cursor = &walk->cursor[walk->node];
    if (*cursor > end - begin) { // was left already: go on in its parent
        walk->node = tree->nodes[walk->node].parent;
        if (walk->node == CALL_NONE)
            return WALK_END;
        walk->depth--;
        begin = tree->first[walk->node], end = tree->first[walk->node + 1];
        cursor = &walk->cursor[walk->node];
    }
    if (*cursor == end - begin) {
        (*cursor)++;
        return WALK_LEAVE;
    }
    walk->node = tree->children[begin + (*cursor)++];
    walk->depth++;
    return WALK_ENTER;
}

void calltree_walk_skip(struct calltree_walk *walk)
{
    const struct calltree *tree = walk->tree;
    walk->cursor[walk->node] = tree->first[walk->node + 1] - tree->first[walk->node];
}

void calltree_walk_end(struct calltree_walk *walk)
{
    free(walk->cursor);
    walk->cursor = NULL;
}
