// SPDX-License-Identifier: MIT

#include "analyze/callers.h"
#include "base/memory.h"

// One occurrence of a function, on its way up to the root.
struct climber {
    uint32_t origin; // whose cost it carries
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
    struct climber *climbers;
    size_t count, capacity;
    struct range *ranges; // a stack
    size_t range_count, range_capacity;
};

static void arrive(struct climb *climb, struct climber *climber, uint32_t parent)
{
    const struct calltree *from = climb->from;
    unsigned metrics = from->metrics;
    const struct call_node *here = &from->nodes[climber->at];
    size_t before = climb->to->count;
    climber->node = calltree_child(
        climb->to, parent,
        (struct call_edge){.function = here->function, .kind = (enum call_kind)here->kind});
    climb->total = memory_grown(climb->total, &climb->total_capacity, climb->to->count * metrics,
                                sizeof *climb->total);
    uint64_t *total = climb->total + (size_t)climber->node * metrics;
    if (climb->to->count > before)
        memset(total, 0, metrics * sizeof *total);
    calltree_add(climb->to, climber->node, 0, 0, from->self + (size_t)climber->origin * metrics);
    climb->to->nodes[climber->node].returns += from->nodes[climber->origin].returns;
    if (climber->outermost)
        for (unsigned i = 0; i < metrics; i++)
            total[i] += from->total[(size_t)climber->origin * metrics + i];
}

static int compare_climbers(const void *left, const void *right)
{
    const struct climber *a = left, *b = right;
    if (a->node != b->node)
        return a->node < b->node ? -1 : 1;
    return a->origin < b->origin ? -1 : a->origin > b->origin;
}

// Sorts a range by the nodes its climbers arrived at, and puts those worth following on the stack.
static void split(struct climb *climb, size_t begin, size_t end, unsigned depth)
{
    if (begin == end)
        return;
    qsort(climb->climbers + begin, end - begin, sizeof *climb->climbers, compare_climbers);
    for (size_t next; begin < end; begin = next) {
        uint32_t node = climb->climbers[begin].node;
        for (next = begin + 1; next < end && climb->climbers[next].node == node;)
            next++;
        size_t value = (size_t)node * climb->from->metrics + climb->options->metric;
        uint64_t self = climb->to->self[value], total = climb->total[value];
        uint64_t cost = climb->options->order == ORDER_SELF ? self : total;
        if (cost < climb->options->least || (self == 0 && total == 0))
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

// Every occurrence of every function, at the level of the functions themselves.
static void gather(struct climb *climb)
{
    const struct calltree *from = climb->from;
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
        arrive(climb, &climber, 0);
        // Deep recursion has very many that carry nothing.
        if (!climber.outermost && !has_self(from, walk.node))
            continue;
        climb->climbers = memory_grown(climb->climbers, &climb->capacity, climb->count + 1,
                                       sizeof *climb->climbers);
        climb->climbers[climb->count++] = climber;
    }
    calltree_walk_end(&walk);
    free(active);
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
    size_t kept = range.begin;
    for (size_t i = range.begin; i < range.end; i++) {
        struct climber climber = climb->climbers[i];
        uint32_t above = climb->from->nodes[climber.at].parent;
        if (!call_is_code(&climb->from->nodes[above]))
            continue; // at the top
        climber.at = above;
        arrive(climb, &climber, climber.node);
        climb->climbers[kept++] = climber;
    }
    split(climb, range.begin, kept, range.depth + 1);
}

struct calltree *callers_tree(const struct calltree *tree, const struct callers_options *options)
{
    struct climb climb = {.from = tree, .options = options};
    climb.to = calltree_new(tree->functions, tree->metrics, calltree_function(tree, 0)->name);
    climb.total = memory_grown(NULL, &climb.total_capacity, tree->metrics, sizeof *climb.total);
    memcpy(climb.total, tree->total, tree->metrics * sizeof *climb.total);
    gather(&climb);
    split(&climb, 0, climb.count, 0);
    while (climb.range_count > 0) {
        struct range range = climb.ranges[--climb.range_count];
        if (range.depth < options->depth)
            climb_range(&climb, range);
        else if (options->cut && goes_on(&climb, range))
            ++*options->cut;
    }
    free(climb.climbers);
    free(climb.ranges);
    climb.to->total = climb.total;
    calltree_order(climb.to, options->metric, options->order);
    return climb.to;
}
