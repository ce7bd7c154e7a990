// SPDX-License-Identifier: MIT
#ifndef CAIRN_ANALYZE_TREE_CALLTREE_H
#define CAIRN_ANALYZE_TREE_CALLTREE_H

// The tree that people look at. The trees of a profile have a node for each call instruction and
// know addresses only. Here a node is a function under its caller. Inlined functions have nodes of
// their own, and threads and processes are merged.
//
//   root ── process ── thread ── phase ── function ── function (inlined) ── function
//           (these three only where they were asked for)
//
// Of a metric that counts calls, `self` are the calls of that function in that context, and `total`
// are these and all calls below it.
//
// Parents stand before their children in the array, so that one pass backwards sums totals up and
// one pass forwards hands things down: no recursion, whatever the depth of the program's.

#include "analyze/index/child_index.h"
#include "analyze/tree/functions.h"

// CALL_STARTED is a function that a thread began in, below the call that created the thread.
enum call_kind {
    CALL_ROOT,
    CALL_PROCESS,
    CALL_THREAD,
    CALL_PHASE,
    CALL_FUNCTION,
    CALL_INLINED,
    CALL_STARTED
};

#define CALL_NONE UINT32_MAX
#define LINE_SEVERAL UINT32_MAX // call sites on several lines were merged

#define CALL_DEEPEST ((1u << 24) - 1) // what `recursion` can say

struct call_node {
    uint32_t parent; // CALL_NONE for the root, which is node 0
    uint32_t function;
    uint32_t call_file, call_line; // where the caller calls it; 0: not known
    uint32_t kind : 8;             // CALL_INLINED only if it was inlined wherever it was met
    uint32_t recursion : 24; // folded here: it was at most this often on a path; 0: it was not
};

// The cost of one line in one node; these add up to the node's self.
struct call_line {
    uint32_t node;
    uint32_t file, line;
};

struct calltree {
    struct functions *functions;
    unsigned metrics;
    bool sites; // call sites on different lines are different nodes

    struct call_node *nodes;
    uint64_t *self, *total; // metrics a node; total is valid after calltree_sum()
    size_t count, node_capacity, self_capacity;

    uint64_t *returns; // by node, as far as the marker has seen any
    size_t returns_capacity;

    bool keep_lines;
    struct call_line *lines;
    uint64_t *line_values; // metrics a line
    size_t line_count, line_capacity, line_values_capacity;

    // After calltree_order(): the children of node n are children[first[n]] to children[first[n +
    // 1] - 1].
    uint32_t *first, *children;

    struct child_index by_edge; // while the tree grows
    struct hash_index by_line;
};

// A tree with a root alone.
struct calltree *calltree_new(struct functions *functions, unsigned metrics, const char *root);
void calltree_free(struct calltree *tree);

struct call_edge {
    uint32_t function;
    enum call_kind kind;
    uint32_t call_file, call_line;
};

// The child of a node by that edge, made if it is new.
uint32_t calltree_child(struct calltree *tree, uint32_t parent, struct call_edge edge);

// The same where the caller knows whether there is such a child: makes one, which
// calltree_child() does not find, or adds another call to it.
uint32_t calltree_append(struct calltree *tree, uint32_t parent, struct call_edge edge);
void calltree_meet(struct calltree *tree, uint32_t node, struct call_edge edge);

// Adds cost to a node itself, and to the line if the tree keeps lines.
void calltree_add(struct calltree *tree, uint32_t node, uint32_t file, uint32_t line,
                  const uint64_t *values);

// Adds returns that the marker has seen.
void calltree_add_returns(struct calltree *tree, uint32_t node, uint64_t returns);

// total = self + the totals of the children.
void calltree_sum(struct calltree *tree);

enum call_order { ORDER_TOTAL, ORDER_SELF };

// Sorts siblings, the most costly in `metric` first; equal ones by name. Nothing may be added
// afterwards.
void calltree_order(struct calltree *tree, unsigned metric, enum call_order order);

// The lines of each node in the order of the source: those of n are lines[first[n]] to
// lines[first[n + 1] - 1], where `first` is what is returned. Both to be freed.
uint32_t *calltree_lines(const struct calltree *tree, uint32_t **lines);

static inline uint64_t calltree_self(const struct calltree *tree, uint32_t node, unsigned metric)
{
    return tree->self[(size_t)node * tree->metrics + metric];
}

static inline uint64_t calltree_total(const struct calltree *tree, uint32_t node, unsigned metric)
{
    return tree->total[(size_t)node * tree->metrics + metric];
}

static inline uint64_t calltree_returns(const struct calltree *tree, uint32_t node)
{
    return node < tree->returns_capacity ? tree->returns[node] : 0;
}

static inline const struct function *calltree_function(const struct calltree *tree, uint32_t node)
{
    return functions_get(tree->functions, tree->nodes[node].function);
}

// "root", "process", "thread", "function", "inlined", "started".
const char *call_kind_name(enum call_kind kind);

static inline bool call_is_code(const struct call_node *node)
{
    return node->kind >= CALL_FUNCTION;
}

// A walk over an ordered tree that sees every node twice: when it is entered, and when all below it
// is done.
struct calltree_walk {
    const struct calltree *tree;
    uint32_t *cursor; // per node: how many of its children were entered
    uint32_t node;
    unsigned depth; // of node; 0: the root
    bool started;
};

enum walk_event { WALK_END, WALK_ENTER, WALK_LEAVE };

void calltree_walk_start(struct calltree_walk *walk, const struct calltree *tree);
enum walk_event calltree_walk_next(struct calltree_walk *walk);
void calltree_walk_skip(struct calltree_walk *walk); // does not go below the node just entered
void calltree_walk_end(struct calltree_walk *walk);

#endif
