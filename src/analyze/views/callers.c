// SPDX-License-Identifier: MIT

#include "analyze/views/callers.h"
#include "base/memory.h"

// One occurrence of a function, on its way up to the root.
struct climber {
    uint32_t origin; // the node whose cost it carries
    uint32_t at;     // how far up it is
    uint32_t node;   // in the new tree
    bool outermost;  // no ancestor of origin is the same function: its total counts
};

// A node of the new tree, and the climbers that came to it: always a range of one array, which is
// sorted into smaller ranges level by level.
struct range {
    size_t begin, end;
    unsigned depth;
};

struct climb {
    const struct calltree *from;
    const struct callers_options *options;
    struct calltree *to;
    uint64_t *total; // of nodes in `to`
    size_t total_capacity;
    uint32_t *child_of; // by function: the child of the node that is climbed from; 0: none yet
    struct climber *climbers, *sorted;
    size_t count, capacity, sorted_capacity;
    struct range *ranges; // a stack
    size_t range_count, range_capacity;
};

// The child of a node by the function of another: all of one node's children are made together.
static uint32_t child_of(struct climb *climb, uint32_t parent, const struct call_node *like)
{
    const struct call_edge edge = {.function = like->function, .kind = (enum call_kind)like->kind};
    uint32_t *child = &climb->child_of[like->function];
    if (*child) {
        calltree_meet(climb->to, *child, edge);
        return *child;
    }
    const unsigned metrics = climb->from->metrics;
    *child = calltree_append(climb->to, parent, edge);
    climb->total = memory_grown(climb->total, &climb->total_capacity, climb->to->count * metrics,
                                sizeof *climb->total);
    memset(climb->total + (size_t)*child * metrics, 0, metrics * sizeof *climb->total);
    return *child;
}

// The next children are those of another node.
static void forget_children(struct climb *climb, size_t before)
{
    for (size_t i = before; i < climb->to->count; i++)
        climb->child_of[climb->to->nodes[i].function] = 0;
}

static void arrive(struct climb *climb, struct climber *climber, uint32_t parent)
{
    const struct calltree *from = climb->from;
    unsigned metrics = from->metrics;
    climber->node = child_of(climb, parent, &from->nodes[climber->at]);
    calltree_add(climb->to, climber->node, 0, 0, from->self + (size_t)climber->origin * metrics);
    calltree_add_returns(climb->to, climber->node, calltree_returns(from, climber->origin));
    if (climber->outermost)
        for (unsigned i = 0; i < metrics; i++)
            climb->total[(size_t)climber->node * metrics + i] +=
                from->total[(size_t)climber->origin * metrics + i];
}

// Sorts climbers by the nodes that they arrived at, all of which are new since there were `before`
// nodes; those of one node stay in their order.
static void sort_climbers(struct climb *climb, size_t begin, size_t end, size_t before)
{
    const size_t arrived = climb->to->count - before, count = end - begin;
    if (arrived < 2)
        return;
    size_t *next = memory_array(arrived + 1, sizeof *next);
    struct climber *climbers = climb->climbers + begin;
    for (size_t i = 0; i < count; i++)
        next[climbers[i].node - before + 1]++;
    for (size_t i = 1; i < arrived; i++)
        next[i] += next[i - 1];
    climb->sorted =
        memory_grown(climb->sorted, &climb->sorted_capacity, count, sizeof *climb->sorted);
    for (size_t i = 0; i < count; i++)
        climb->sorted[next[climbers[i].node - before]++] = climbers[i];
    memcpy(climbers, climb->sorted, count * sizeof *climbers);
    free(next);
}

// Whether a node's callers are looked for.
static bool is_followed(const struct climb *climb, uint32_t node)
{
    const size_t value = (size_t)node * climb->from->metrics + climb->options->metric;
    const uint64_t self = climb->to->self[value], total = climb->total[value];
    const uint64_t cost = climb->options->order == ORDER_SELF ? self : total;
    return cost >= climb->options->least && (self > 0 || total > 0);
}

// Sorts a range by the nodes that its climbers arrived at, and puts those to follow on the stack.
static void split(struct climb *climb, size_t begin, size_t end, size_t before, unsigned depth)
{
    if (begin == end)
        return;
    sort_climbers(climb, begin, end, before);
    for (size_t next; begin < end; begin = next) {
        uint32_t node = climb->climbers[begin].node;
        for (next = begin + 1; next < end && climb->climbers[next].node == node;)
            next++;
        if (!is_followed(climb, node))
            continue;
        climb->ranges = memory_grown(climb->ranges, &climb->range_capacity, climb->range_count + 1,
                                     sizeof *climb->ranges);
        climb->ranges[climb->range_count++] = (struct range){begin, next, depth};
    }
}

static bool has_self(const struct calltree *tree, uint32_t node)
{
    for (unsigned i = 0; i < tree->metrics; i++)
        if (calltree_self(tree, node, i) > 0)
            return true;
    return false;
}

enum occurrence { NOT_SOUGHT, OUTERMOST, INNER };

// Sums up every function over all of its occurrences, and says which of the nodes these are.
static uint8_t *meet_occurrences(struct climb *climb)
{
    const struct calltree *from = climb->from;
    uint8_t *occurrences = memory_array(from->count, sizeof *occurrences);
    uint32_t *active = memory_array(functions_count(from->functions), sizeof *active);
    struct calltree_walk walk;
    calltree_walk_start(&walk, from);
    for (enum walk_event event; (event = calltree_walk_next(&walk)) != WALK_END;) {
        const struct call_node *node = &from->nodes[walk.node];
        if (!call_is_code(node))
            continue;
        if (event == WALK_LEAVE) {
            active[node->function]--;
            continue;
        }
        struct climber climber = {
            .origin = walk.node, .at = walk.node, .outermost = active[node->function]++ == 0};
        struct pattern *focus = climb->options->focus;
        if (focus && !pattern_matches(focus, from->functions, node->function))
            continue;
        occurrences[walk.node] = climber.outermost ? OUTERMOST : INNER;
        arrive(climb, &climber, 0);
    }
    calltree_walk_end(&walk);
    free(active);
    return occurrences;
}

// Every occurrence of every function whose callers are looked for.
static void gather(struct climb *climb)
{
    const struct calltree *from = climb->from;
    uint8_t *occurrences = meet_occurrences(climb);
    for (uint32_t i = 0; i < from->count; i++) {
        // Deep recursion has very many that carry nothing.
        if (occurrences[i] == NOT_SOUGHT || (occurrences[i] == INNER && !has_self(from, i)))
            continue;
        const struct climber climber = {.origin = i,
                                        .at = i,
                                        .node = climb->child_of[from->nodes[i].function],
                                        .outermost = occurrences[i] == OUTERMOST};
        if (!is_followed(climb, climber.node))
            continue;
        climb->climbers = memory_grown(climb->climbers, &climb->capacity, climb->count + 1,
                                       sizeof *climb->climbers);
        climb->climbers[climb->count++] = climber;
    }
    free(occurrences);
    forget_children(climb, 1);
}

static bool goes_on(const struct climb *climb, struct range range)
{
    for (size_t i = range.begin; i < range.end; i++) {
        uint32_t above = climb->from->nodes[climb->climbers[i].at].parent;
        if (call_is_code(&climb->from->nodes[above]))
            return true;
    }
    return false;
}

static void climb_range(struct climb *climb, struct range range)
{
    size_t kept = range.begin, before = climb->to->count;
    for (size_t i = range.begin; i < range.end; i++) {
        struct climber climber = climb->climbers[i];
        uint32_t above = climb->from->nodes[climber.at].parent;
        if (!call_is_code(&climb->from->nodes[above]))
            continue; // at the top
        climber.at = above;
        arrive(climb, &climber, climber.node);
        climb->climbers[kept++] = climber;
    }
    forget_children(climb, before);
    split(climb, range.begin, kept, before, range.depth + 1);
}

struct calltree *callers_tree(const struct calltree *tree, const struct callers_options *options)
{
    struct climb climb = {.from = tree, .options = options};
    climb.to = calltree_new(tree->functions, tree->metrics, calltree_function(tree, 0)->name);
    climb.total = memory_grown(NULL, &climb.total_capacity, tree->metrics, sizeof *climb.total);
    memcpy(climb.total, tree->total, tree->metrics * sizeof *climb.total);
    climb.child_of = memory_array(functions_count(tree->functions), sizeof *climb.child_of);
    gather(&climb);
    split(&climb, 0, climb.count, 1, 0);
    while (climb.range_count > 0) {
        struct range range = climb.ranges[--climb.range_count];
        if (range.depth < options->depth)
            climb_range(&climb, range);
        else if (options->cut && goes_on(&climb, range))
            ++*options->cut;
    }
    free(climb.child_of);
    free(climb.climbers);
    free(climb.sorted);
    free(climb.ranges);
    climb.to->total = climb.total;
    calltree_order(climb.to, options->metric, options->order);
    return climb.to;
}
