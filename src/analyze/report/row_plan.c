// SPDX-License-Identifier: MIT

#include "analyze/report/row_plan.h"
#include "analyze/names/short_name.h"
#include "analyze/report/own_code.h"
#include "base/memory.h"

#define MUCH_RECURSION 5 // rows
#define LIBRARY_TIMES 6  // by which what happens inside of libraries has to cost more, at most

// A node that may be shown. Parents stand before their children.
struct candidate {
    uint32_t node;
    uint32_t parent; // candidate
    uint32_t depth;  // calls of interest above it, and itself
    bool startup;
    bool own;    // code of the program
    bool inside; // of a library: neither it nor its caller is code of the program
    // Under the least cost that is being tried:
    bool shown;
    bool left_out; // start-up code: its children take its place
    uint32_t first_child, next_sibling, last_child;
    unsigned children;
};

#define NONE UINT32_MAX

struct planner {
    const struct calltree *tree;
    const struct show_options *options;
    struct row_plan *plan;
    struct candidate *candidates;
    size_t count, capacity;
    uint64_t least;         // rows with a lower cost are not shown,
    uint64_t library_least; // inside of libraries
    uint32_t *first_line, *lines;
};

static uint64_t cost_of(const struct planner *planner, uint32_t node)
{
    const struct show_options *options = planner->options;
    return options->order == ORDER_SELF ? calltree_self(planner->tree, node, options->metric)
                                        : calltree_total(planner->tree, node, options->metric);
}

static bool is_small(uint64_t cost, uint64_t least)
{
    return cost < least || cost == 0;
}

// Code that is the same in every program, before what was written for this one, or for a thread of
// it. `main` of a program in Rust is such code, too.
static bool is_startup(const struct planner *planner, uint32_t node, const struct candidate *parent)
{
    const struct calltree *tree = planner->tree;
    if (!call_is_code(&tree->nodes[node]) ||
        (call_is_code(&tree->nodes[parent->node]) && !parent->startup &&
         tree->nodes[node].kind != CALL_STARTED))
        return false;
    const char *name = calltree_function(tree, node)->name;
    if (strcmp(name, "main") == 0 && tree->first[node] < tree->first[node + 1])
        return strstr(calltree_function(tree, tree->children[tree->first[node]])->name,
                      "lang_start") != NULL;
    return name_is_startup(name);
}

static void add_candidate(struct planner *planner, uint32_t node, uint32_t parent)
{
    planner->candidates = memory_grown(planner->candidates, &planner->capacity, planner->count + 1,
                                       sizeof *planner->candidates);
    struct candidate candidate = {.node = node, .parent = parent};
    if (parent != NONE) {
        const struct candidate *above = &planner->candidates[parent];
        candidate.startup = !planner->options->upward && is_startup(planner, node, above);
        candidate.depth = above->depth + !candidate.startup;
        candidate.own = !call_is_code(&planner->tree->nodes[node]) ||
                        is_own_code(planner->tree->functions, planner->options->profile,
                                    calltree_function(planner->tree, node));
        candidate.inside = parent > 0 && !candidate.own && !above->own && !above->startup;
    }
    planner->candidates[planner->count++] = candidate;
}

// Callers end with start-up code: it has no callers but the creator of a thread.
static void find_startup_upward(struct planner *planner)
{
    for (size_t i = planner->count; i-- > 1;) {
        struct candidate *candidate = &planner->candidates[i];
        const char *name = calltree_function(planner->tree, candidate->node)->name;
        const bool started = planner->tree->nodes[candidate->node].kind == CALL_STARTED;
        candidate->startup = candidate->parent != 0 && (candidate->children == 0 || started) &&
                             name_is_startup(name);
        if (!candidate->startup)
            planner->candidates[candidate->parent].children++;
    }
}

// All nodes that cost enough and are not too deep.
static void gather(struct planner *planner)
{
    const struct calltree *tree = planner->tree;
    const unsigned depth = planner->options->depth;
    add_candidate(planner, 0, NONE);
    for (uint32_t i = 0; i < planner->count; i++) {
        const uint32_t node = planner->candidates[i].node;
        if (depth && planner->candidates[i].depth > depth)
            continue; // it is hidden, and so is all below
        for (uint32_t child = tree->first[node]; child < tree->first[node + 1]; child++) {
            if (is_small(cost_of(planner, tree->children[child]), planner->least))
                break; // the others cost less
            add_candidate(planner, tree->children[child], i);
        }
    }
    if (planner->options->upward)
        find_startup_upward(planner);
}

static bool costs_enough(const struct planner *planner, const struct candidate *candidate)
{
    return !is_small(cost_of(planner, candidate->node),
                     candidate->inside ? planner->library_least : planner->least);
}

static bool is_too_deep(const struct planner *planner, const struct candidate *candidate)
{
    return planner->options->depth && candidate->depth > planner->options->depth;
}

// Start-up code has a row if it has a cost of its own, or if nothing else is there.
static bool is_left_out(const struct planner *planner, const struct candidate *candidate)
{
    const struct show_options *options = planner->options;
    if (!options->brief || !candidate->startup || candidate->parent == NONE)
        return false;
    if (options->upward)
        return true;
    return candidate->children > 0 &&
           calltree_self(planner->tree, candidate->node, options->metric) < planner->least;
}

static void append_child(struct planner *planner, uint32_t parent, uint32_t child)
{
    struct candidate *above = &planner->candidates[parent];
    planner->candidates[child].next_sibling = NONE;
    if (above->first_child == NONE)
        above->first_child = child;
    else
        planner->candidates[above->last_child].next_sibling = child;
    above->last_child = child;
    above->children++;
}

// Says which candidates are shown, under which others.
static void arrange(struct planner *planner)
{
    for (uint32_t i = 0; i < planner->count; i++) {
        struct candidate *candidate = &planner->candidates[i];
        candidate->first_child = candidate->last_child = candidate->next_sibling = NONE;
        candidate->children = 0;
        candidate->shown =
            i == 0 || (planner->candidates[candidate->parent].shown &&
                       costs_enough(planner, candidate) && !is_too_deep(planner, candidate));
        if (candidate->shown && i > 0)
            planner->candidates[candidate->parent].children++;
    }
    for (uint32_t i = 0; i < planner->count; i++) {
        struct candidate *candidate = &planner->candidates[i];
        candidate->left_out = candidate->shown && is_left_out(planner, candidate);
    }
    for (uint32_t i = 0; i < planner->count; i++)
        planner->candidates[i].children = 0;
    for (uint32_t i = 1; i < planner->count; i++) {
        const struct candidate *candidate = &planner->candidates[i];
        if (!candidate->shown || candidate->left_out)
            continue;
        uint32_t parent = candidate->parent;
        while (planner->candidates[parent].left_out)
            parent = planner->candidates[parent].parent;
        append_child(planner, parent, i);
    }
}

// Whether nearly all of a node's cost is that of its only child. (A thousandth less would print the
// same.)
static bool is_passage(const struct planner *planner, const struct candidate *candidate)
{
    const struct calltree *tree = planner->tree;
    if (!planner->options->fold || !call_is_code(&tree->nodes[candidate->node]) ||
        candidate->children != 1)
        return false;
    const uint32_t node = candidate->node, child = planner->candidates[candidate->first_child].node;
    const unsigned metric = planner->options->metric;
    const uint64_t total = calltree_total(tree, node, metric),
                   self = calltree_self(tree, node, metric);
    if (calltree_total(tree, child, metric) < total - total / 1000)
        return false;
    // Upwards, both are costs of the same function; downwards, self is the child's own.
    return !planner->options->upward || calltree_self(tree, child, metric) >= self - self / 1000;
}

static size_t count_rows(const struct planner *planner)
{
    size_t rows = 0;
    for (uint32_t i = 1; i < planner->count; i++) {
        const struct candidate *candidate = &planner->candidates[i];
        rows += candidate->shown && !candidate->left_out && !is_passage(planner, candidate);
    }
    return rows;
}

double plan_next_percent(double percent)
{
    static const double shares[] = {0.5, 0.6, 0.8, 1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 15, 20};
    for (unsigned i = 0; i < sizeof shares / sizeof *shares; i++)
        if (shares[i] > percent * (1 + 1e-9))
            return shares[i];
    return percent;
}

static int compare_cost(const void *left, const void *right, void *context)
{
    const struct planner *planner = context;
    const uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    const uint64_t cost_a = cost_of(planner, planner->candidates[a].node),
                   cost_b = cost_of(planner, planner->candidates[b].node);
    return cost_a != cost_b ? (cost_a < cost_b ? 1 : -1) : a < b ? -1 : 1;
}

// The children of callees that were left out stand among others: all are sorted again.
static uint32_t *sorted_children(const struct planner *planner, uint32_t parent)
{
    const struct candidate *above = &planner->candidates[parent];
    uint32_t *children = memory_array(above->children, sizeof *children), count = 0;
    for (uint32_t i = above->first_child; i != NONE; i = planner->candidates[i].next_sibling)
        children[count++] = i;
    if (count > 1)
        qsort_r(children, count, sizeof *children, compare_cost, (void *)planner);
    return children;
}

static void add_link(struct row_plan *plan, const struct calltree *tree, uint32_t node, bool first)
{
    if (!first) {
        struct plan_link *previous = &plan->links[plan->link_count - 1];
        if (tree->nodes[previous->node].function == tree->nodes[node].function) {
            previous->node = node;
            previous->times++;
            return;
        }
    }
    plan->links =
        memory_grown(plan->links, &plan->link_capacity, plan->link_count + 1, sizeof *plan->links);
    plan->links[plan->link_count++] = (struct plan_link){.node = node, .times = 1};
}

static void add_row(struct row_plan *plan, struct plan_row row)
{
    plan->rows =
        memory_grown(plan->rows, &plan->row_capacity, plan->row_count + 1, sizeof *plan->rows);
    plan->rows[plan->row_count++] = row;
}

static bool is_shown_line(const struct planner *planner, uint32_t line)
{
    const struct calltree *tree = planner->tree;
    const uint64_t cost =
        tree->line_values[(size_t)line * tree->metrics + planner->options->metric];
    return tree->lines[line].line != 0 && !is_small(cost, planner->least);
}

static void add_lines(struct planner *planner, uint32_t node, uint32_t level, bool children_follow)
{
    const uint32_t end = planner->first_line[node + 1];
    for (uint32_t i = planner->first_line[node], next; i < end; i = next) {
        for (next = i + 1; next < end && !is_shown_line(planner, planner->lines[next]);)
            next++;
        if (is_shown_line(planner, planner->lines[i]))
            add_row(planner->plan, (struct plan_row){.node = node,
                                                     .line = planner->lines[i],
                                                     .level = level,
                                                     .last = next == end && !children_follow});
    }
}

static bool is_recursive(const struct calltree *tree, uint32_t node)
{
    const uint32_t function = tree->nodes[node].function;
    while ((node = tree->nodes[node].parent) != CALL_NONE)
        if (tree->nodes[node].function == function)
            return true;
    return false;
}

// A candidate, with the chain that follows it, as a row; returns where the chain ends.
static uint32_t add_chain(struct planner *planner, uint32_t number, uint32_t level, bool last)
{
    struct row_plan *plan = planner->plan;
    const size_t first = plan->link_count;
    add_link(plan, planner->tree, planner->candidates[number].node, true);
    while (is_passage(planner, &planner->candidates[number])) {
        number = planner->candidates[number].first_child;
        add_link(plan, planner->tree, planner->candidates[number].node, false);
    }
    const uint32_t node = planner->candidates[number].node;
    add_row(plan, (struct plan_row){.first_link = (uint32_t)first,
                                    .links = (uint32_t)(plan->link_count - first),
                                    .node = node,
                                    .line = CALL_NONE,
                                    .level = level,
                                    .last = last});
    plan->hidden.recursive += is_recursive(planner->tree, node);
    if (planner->tree->keep_lines)
        add_lines(planner, node, level + 1, planner->candidates[number].children > 0);
    return number;
}

struct visit {
    uint32_t *children;
    uint32_t count, next, level;
};

// Rows in the order of the text: each node before what hangs below it.
static void add_rows(struct planner *planner)
{
    struct visit *stack = NULL;
    size_t depth = 0, capacity = 0;
    uint32_t number = 0, level = 0;
    for (bool down = true;;) {
        if (down) {
            stack = memory_grown(stack, &capacity, depth + 1, sizeof *stack);
            stack[depth++] = (struct visit){.children = sorted_children(planner, number),
                                            .count = planner->candidates[number].children,
                                            .level = level};
        }
        struct visit *visit = &stack[depth - 1];
        if (visit->next == visit->count) {
            free(visit->children);
            if (--depth == 0)
                break;
            down = false;
            continue;
        }
        const uint32_t child = visit->children[visit->next++];
        number = add_chain(planner, child, visit->level, visit->next == visit->count);
        level = visit->level + 1;
        down = true;
    }
    free(stack);
}

// Counts the nodes below shown ones that are not shown themselves.
static void count_hidden(struct planner *planner)
{
    const struct calltree *tree = planner->tree;
    struct show_hidden *hidden = &planner->plan->hidden;
    for (uint32_t i = 0; i < planner->count; i++) {
        const struct candidate *candidate = &planner->candidates[i];
        if (!candidate->shown && planner->candidates[candidate->parent].shown) {
            const bool deep = costs_enough(planner, candidate);
            *(deep ? &hidden->deep_count : &hidden->small_count) += 1;
            *(deep ? &hidden->deep_cost : &hidden->small_cost) += cost_of(planner, candidate->node);
        }
        if (!candidate->shown)
            continue;
        const uint32_t begin = tree->first[candidate->node];
        for (uint32_t child = tree->first[candidate->node + 1]; child > begin; child--) {
            const uint64_t cost = cost_of(planner, tree->children[child - 1]);
            if (!is_small(cost, planner->options->least))
                break; // the others are candidates
            hidden->small_count += cost > 0;
            hidden->small_cost += cost;
        }
    }
}

struct row_plan *row_plan_new(const struct calltree *tree, const struct show_options *options)
{
    struct row_plan *plan = memory_array(1, sizeof *plan);
    struct planner planner = {.tree = tree,
                              .options = options,
                              .plan = plan,
                              .least = options->least,
                              .library_least = options->least};
    double percent = options->least_percent, library = percent;
    if (tree->keep_lines)
        planner.first_line = calltree_lines(tree, &planner.lines);
    gather(&planner);
    arrange(&planner);
    while (options->may_raise && count_rows(&planner) > PLAN_ROWS &&
           plan_next_percent(percent) > percent) {
        // The program's own functions are what its author can change.
        if (library < LIBRARY_TIMES * percent && plan_next_percent(library) > library)
            library = plan_next_percent(library);
        else
            percent = plan_next_percent(percent);
        library = library > percent ? library : percent;
        planner.least = show_least(options, percent);
        planner.library_least = show_least(options, library);
        arrange(&planner);
    }
    plan->hidden.least_percent = percent;
    plan->raised = library > options->least_percent;
    plan->hidden.library_percent = percent;
    for (size_t i = 0; i < planner.count; i++)
        if (planner.candidates[i].inside)
            plan->hidden.library_percent = library;
    add_rows(&planner);
    count_hidden(&planner);
    free(planner.candidates);
    free(planner.first_line);
    free(planner.lines);
    return plan;
}

void row_plan_free(struct row_plan *plan)
{
    if (!plan)
        return;
    free(plan->rows);
    free(plan->links);
    free(plan);
}

bool row_plan_is_recursive(const struct row_plan *plan)
{
    return plan->hidden.recursive >= MUCH_RECURSION &&
           (plan->raised || plan->hidden.recursive * 4 > plan->row_count);
}
