// SPDX-License-Identifier: MIT

#include "analyze/lanes/lanes.h"
#include "base/memory.h"
#include "profile/timeline.h"
#include <stdlib.h>
#include <string.h>

// A cost in a part of a lane. Those of one function that follow each other are one.
struct laid {
    uint32_t lane, part, function;
    uint64_t cost;
};

struct laying {
    struct analysis *analysis;
    const struct lanes_options *options;
    struct lanes lanes;
    const struct profile_tree *tree; // whose charges are laid
    uint32_t *functions;             // by node of the tree; FUNCTION_NONE: not known yet
    struct laid *laid_costs;
    size_t count, capacity;
};

// Functions of nodes

static bool is_hidden(const struct laying *laying, uint32_t function)
{
    const struct function *known = functions_get(laying->analysis->functions, function);
    return known->agent || known->entry ||
           (known->kernel && laying->options->build->without_kernel);
}

// The innermost function at a node's place; FUNCTION_NONE: it says nothing.
static uint32_t function_at(const struct laying *laying, uint32_t node)
{
    const struct functions *functions = laying->analysis->functions;
    const struct profile_node *at = &laying->tree->nodes[node];
    const place_t place = at->function ? at->function : at->site;
    const struct spot *spot =
        place ? functions_look_up(functions, laying->tree->process, place) : NULL;
    if (!spot || spot->count == 0)
        return FUNCTION_NONE;
    const struct located *located = functions_located(functions, spot);
    const uint32_t function = located[at->function ? spot->count - 1 : 0].function;
    return is_hidden(laying, function) ? FUNCTION_NONE : function;
}

// Where the program's own code begins on a path.
static bool begins(const struct laying *laying, uint32_t node)
{
    const place_t function = laying->tree->nodes[node].function, start = laying->tree->start;
    const uint32_t number = function_at(laying, node);
    return (start && function == start) ||
           (number &&
            strcmp(functions_get(laying->analysis->functions, number)->name, "main") == 0);
}

// The node on a path that lies `depth` calls below its beginning; the last one, if it is shorter.
static uint32_t node_at_depth(const struct laying *laying, uint32_t node, uint32_t depth)
{
    uint32_t below = 0, first = node;
    for (uint32_t at = node; at != 0; at = laying->tree->nodes[at].parent) {
        below += laying->tree->nodes[at].function != 0;
        if (begins(laying, at)) {
            first = at;
            break;
        }
    }
    // Frames from the beginning to the node: go up by as many as are too many.
    const bool statement = laying->tree->nodes[node].function == 0;
    uint32_t up = first == node || below <= depth + 1 ? 0 : below - 1 - depth + statement;
    for (; up > 0; up--)
        node = laying->tree->nodes[node].parent;
    return node;
}

static uint32_t find_function(struct laying *laying, uint32_t node)
{
    uint32_t at =
        laying->options->depth ? node_at_depth(laying, node, laying->options->depth) : node;
    uint32_t function = function_at(laying, at);
    while (!function && at != 0) {
        at = laying->tree->nodes[at].parent;
        function = at ? function_at(laying, at) : FUNCTION_NONE;
    }
    return function ? function
                    : functions_intern(laying->analysis->functions, NO_PATH, MODULE_NONE);
}

static uint32_t function_of(struct laying *laying, uint32_t node)
{
    if (!laying->functions[node])
        laying->functions[node] = find_function(laying, node);
    return laying->functions[node];
}

// Lanes

static char *lane_name(const struct laying *laying)
{
    return memory_text(build_thread_name(laying->analysis->functions, laying->analysis->profile,
                                         laying->tree, THREADS_APART));
}

// The lane of a thread: it may have several trees, and a tree several threads.
static uint32_t lane_of(struct laying *laying, uint32_t tid, uint32_t last)
{
    struct lanes *lanes = &laying->lanes;
    const uint32_t process = laying->tree->process;
    if (last < lanes->count && lanes->lanes[last].tid == tid &&
        lanes->lanes[last].process == process)
        return last;
    for (uint32_t i = 0; i < lanes->count; i++)
        if (lanes->lanes[i].tid == tid && lanes->lanes[i].process == process)
            return i;
    lanes->lanes =
        memory_grown(lanes->lanes, &lanes->capacity, lanes->count + 1, sizeof *lanes->lanes);
    lanes->lanes[lanes->count] = (struct lane){
        .process = process,
        .tid = tid,
        .name = lane_name(laying),
        .first_ns = UINT64_MAX,
        .costs = memory_array(lanes->parts, sizeof *lanes->lanes->costs),
        .functions = memory_array(lanes->parts, sizeof *lanes->lanes->functions),
    };
    return (uint32_t)lanes->count++;
}

static void add_laid(struct laying *laying, const struct laid *laid)
{
    struct laid *last = laying->count ? &laying->laid_costs[laying->count - 1] : NULL;
    struct lane *lane = &laying->lanes.lanes[laid->lane];
    lane->costs[laid->part] += laid->cost;
    lane->total += laid->cost;
    if (last && last->lane == laid->lane && last->part == laid->part &&
        last->function == laid->function) {
        last->cost += laid->cost;
        return;
    }
    laying->laid_costs = memory_grown(laying->laid_costs, &laying->capacity, laying->count + 1,
                                      sizeof *laying->laid_costs);
    laying->laid_costs[laying->count++] = *laid;
}

// Lays a charge over the time that it stands for.
static void lay(struct laying *laying, uint32_t lane, const struct timeline_charge *charge)
{
    const struct lanes *lanes = &laying->lanes;
    const uint64_t from = lanes->range.from_ns, to = lanes->range.to_ns;
    uint64_t begin = charge->time_ns > charge->weight ? charge->time_ns - charge->weight : 0;
    const uint64_t end = charge->time_ns < to ? charge->time_ns : to;
    if (begin < from)
        begin = from;
    while (begin < end) {
        const uint64_t part = (begin - from) / lanes->part_ns;
        const uint64_t until = from + (part + 1) * lanes->part_ns;
        const uint64_t stop = until < end ? until : end;
        if (part < lanes->parts)
            add_laid(laying, &(struct laid){.lane = lane,
                                            .part = (uint32_t)part,
                                            .function = function_of(laying, charge->node),
                                            .cost = stop - begin});
        begin = stop;
    }
}

static void lay_tree(struct laying *laying, const struct profile_tree *tree)
{
    struct timeline_cursor cursor = timeline_begin(laying->analysis->profile, tree);
    uint32_t lane = UINT32_MAX;
    laying->tree = tree;
    laying->functions = memory_array(tree->count, sizeof *laying->functions);
    for (struct timeline_charge charge; timeline_next(&cursor, &charge);) {
        if (charge.metric != laying->options->metric)
            continue;
        lane = lane_of(laying, charge.tid, lane);
        struct lane *of = &laying->lanes.lanes[lane];
        if (charge.time_ns < of->first_ns)
            of->first_ns = charge.time_ns;
        if (charge.time_ns > of->last_ns)
            of->last_ns = charge.time_ns;
        lay(laying, lane, &charge);
    }
    free(laying->functions);
}

static int by_place(const void *left, const void *right)
{
    const struct laid *a = left, *b = right;
    return a->lane != b->lane   ? (a->lane > b->lane) - (a->lane < b->lane)
           : a->part != b->part ? (a->part > b->part) - (a->part < b->part)
                                : (a->function > b->function) - (a->function < b->function);
}

static int by_function(const void *left, const void *right)
{
    const struct laid *a = left, *b = right;
    return (a->function > b->function) - (a->function < b->function);
}

static int costliest_first(const void *left, const void *right)
{
    const struct lane_function *a = left, *b = right;
    return a->cost != b->cost ? (a->cost < b->cost) - (a->cost > b->cost)
                              : (a->function > b->function) - (a->function < b->function);
}

static int by_beginning(const void *left, const void *right)
{
    const struct lane *a = left, *b = right;
    return a->process != b->process     ? (a->process > b->process) - (a->process < b->process)
           : a->first_ns != b->first_ns ? (a->first_ns > b->first_ns) - (a->first_ns < b->first_ns)
                                        : (a->tid > b->tid) - (a->tid < b->tid);
}

static void sort(void *array, size_t count, size_t each, int (*compare)(const void *, const void *))
{
    if (count > 1)
        qsort(array, count, each, compare);
}

// The function that cost most in each part.
static void choose_functions(struct laying *laying)
{
    uint64_t most = 0;
    sort(laying->laid_costs, laying->count, sizeof *laying->laid_costs, by_place);
    for (size_t i = 0, next; i < laying->count; i = next) {
        const struct laid *laid = &laying->laid_costs[i];
        const bool same = i > 0 && laid->lane == laid[-1].lane && laid->part == laid[-1].part;
        uint64_t cost = 0;
        for (next = i; next < laying->count && by_place(&laying->laid_costs[next], laid) == 0;
             next++)
            cost += laying->laid_costs[next].cost;
        if (same && cost <= most)
            continue;
        most = cost;
        laying->lanes.lanes[laid->lane].functions[laid->part] = laid->function;
    }
}

static void sum_functions(struct laying *laying)
{
    struct lanes *lanes = &laying->lanes;
    sort(laying->laid_costs, laying->count, sizeof *laying->laid_costs, by_function);
    for (size_t i = 0; i < laying->count; i++) {
        const struct laid *laid = &laying->laid_costs[i];
        if (i == 0 || laid->function != laid[-1].function) {
            lanes->functions = memory_grown(lanes->functions, &lanes->function_capacity,
                                            lanes->function_count + 1, sizeof *lanes->functions);
            lanes->functions[lanes->function_count++] =
                (struct lane_function){.function = laid->function};
        }
        lanes->functions[lanes->function_count - 1].cost += laid->cost;
    }
    sort(lanes->functions, lanes->function_count, sizeof *lanes->functions, costliest_first);
}

static uint64_t last_charge(const struct profile *profile)
{
    uint64_t last = 0;
    for (unsigned i = 0; i < profile->tree_count; i++) {
        struct timeline_cursor cursor = timeline_begin(profile, &profile->trees[i]);
        for (struct timeline_charge charge; timeline_next(&cursor, &charge);)
            last = charge.time_ns > last ? charge.time_ns : last;
    }
    return last;
}

struct lanes lanes_make(struct analysis *analysis, const struct lanes_options *options)
{
    const struct profile *profile = analysis->profile;
    struct laying laying = {
        .analysis = analysis,
        .options = options,
        .lanes = {.metric = options->metric, .range = options->range, .parts = options->parts},
    };
    struct lanes *lanes = &laying.lanes;
    const uint64_t end = last_charge(profile);
    if (lanes->range.to_ns > end)
        lanes->range.to_ns = end > lanes->range.from_ns ? end : lanes->range.from_ns + 1;
    lanes->part_ns = (lanes->range.to_ns - lanes->range.from_ns + lanes->parts - 1) / lanes->parts;
    analysis_resolve(analysis, options->build);
    for (unsigned i = 0; i < profile->tree_count; i++)
        if (build_selects(analysis->functions, profile, &profile->trees[i], options->build))
            lay_tree(&laying, &profile->trees[i]);
    choose_functions(&laying);
    sum_functions(&laying);
    sort(lanes->lanes, lanes->count, sizeof *lanes->lanes, by_beginning);
    free(laying.laid_costs);
    return *lanes;
}

void lanes_free(struct lanes *lanes)
{
    for (size_t i = 0; i < lanes->count; i++) {
        free(lanes->lanes[i].name);
        free(lanes->lanes[i].costs);
        free(lanes->lanes[i].functions);
    }
    free(lanes->lanes);
    free(lanes->functions);
    *lanes = (struct lanes){0};
}
