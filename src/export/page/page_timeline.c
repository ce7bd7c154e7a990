// SPDX-License-Identifier: MIT

// When each cost was charged, and to which row of the page. A run is charges of one thread in their
// order; what its numbers are differences of begins anew with it.

#include "base/memory.h"
#include "export/page/page_columns.h"
#include "profile/queries/time_range.h"
#include "profile/timeline.h"

enum { WEIGHT_SINCE_LAST = 0, WEIGHT_FIRST = 1 };

struct charge_run {
    uint32_t owner, tid; // owner: the row of its thread or phase
    bool outside;        // start-ups and ends of processes, which no thread has
    uint64_t charges;
};

struct charge_runs {
    struct page_columns *page;
    const struct profile *profile;
    struct charge_run *runs;
    size_t count, capacity;
    struct bytes times, targets, weights;
    uint32_t tree;   // at hand
    uint64_t *known; // targets by node of that tree, and 1; 0: not asked for yet
    uint64_t time, last[2];
    uint64_t target;
};

static const struct build_image *image_of(const struct charge_runs *runs)
{
    return &runs->page->input->images[runs->tree];
}

static void begin_run(struct charge_runs *runs, uint32_t tid, bool outside)
{
    runs->runs = memory_grown(runs->runs, &runs->capacity, runs->count + 1, sizeof *runs->runs);
    runs->runs[runs->count++] = (struct charge_run){
        .owner = runs->page->id[image_of(runs)->nodes[0]],
        .tid = tid,
        .outside = outside,
    };
    runs->time = runs->last[0] = runs->last[1] = 0;
    runs->target = 0;
}

// The row that a charge of a node belongs to: of an instruction, else of a line, else of the node.
// Lines follow the nodes, and instructions these.
static uint64_t find_target(const struct charge_runs *runs, uint32_t node)
{
    const struct page_columns *page = runs->page;
    const struct build_image *image = image_of(runs);
    const uint32_t address = page->address_of ? page->address_of[runs->tree][node] : 0;
    if (address)
        return page->tree->count + page->line_count + address - 1;
    const uint32_t row = page->id[image->nodes[node]];
    const uint32_t line = page_line_row(page, row, image->lines[node]);
    return line ? page->tree->count + line - 1 : row;
}

static uint64_t target_of(struct charge_runs *runs, uint32_t node)
{
    if (!runs->known[node])
        runs->known[node] = find_target(runs, node) + 1;
    return runs->known[node] - 1;
}

// The second metric of a timeline is 1.
static void put_charge(struct charge_runs *runs, const struct timeline_charge *charge)
{
    const unsigned metric = charge->metric != runs->profile->timeline.metrics[0];
    const uint64_t target = target_of(runs, charge->node);
    const bool elapsed = charge->weight == charge->time_ns - runs->last[metric];
    bytes_put_varint(&runs->times, charge->time_ns - runs->time);
    bytes_put_varint(&runs->targets, zigzag((int64_t)(target - runs->target)) << 1 | metric);
    bytes_put_varint(&runs->weights, elapsed ? WEIGHT_SINCE_LAST : charge->weight + WEIGHT_FIRST);
    runs->time = runs->last[metric] = charge->time_ns;
    runs->target = target;
    runs->runs[runs->count - 1].charges++;
}

static void put_thread(struct charge_runs *runs, const struct profile_tree *tree)
{
    struct timeline_cursor cursor = timeline_begin(runs->profile, tree);
    uint32_t tid = 0;
    bool begun = false;
    for (struct timeline_charge charge; timeline_next(&cursor, &charge);) {
        if (!begun || charge.tid != tid || charge.time_ns < runs->time)
            begin_run(runs, charge.tid, false);
        begun = true;
        tid = charge.tid;
        put_charge(runs, &charge);
    }
}

// Time outside of samples counts when its process begins or ends.
static void put_outside(struct charge_runs *runs, const struct profile_tree *tree)
{
    const struct profile_timeline *timeline = &runs->profile->timeline;
    const unsigned metrics = runs->profile->metric_count;
    begin_run(runs, tree->tid, true);
    for (uint32_t i = 1; i < tree->count; i++)
        for (unsigned m = 0; tree->nodes[i].function == 0 && m < timeline->metric_count; m++) {
            const unsigned metric = timeline->metrics[m];
            const uint64_t weight = tree->values[(size_t)i * metrics + metric];
            if (weight)
                put_charge(runs, &(struct timeline_charge){
                                     .time_ns = time_range_outside(runs->profile, tree),
                                     .weight = weight,
                                     .node = i,
                                     .metric = metric,
                                 });
        }
}

static void put_runs(struct page_columns *page, const struct charge_runs *runs)
{
    bytes_put_varint(&page->out, runs->count);
    for (size_t i = 0; i < runs->count; i++)
        bytes_put_varint(&page->out, runs->runs[i].owner);
    for (size_t i = 0; i < runs->count; i++)
        bytes_put_varint(&page->out, runs->runs[i].tid);
    for (size_t i = 0; i < runs->count; i++)
        bytes_put_varint(&page->out, runs->runs[i].outside);
    for (size_t i = 0; i < runs->count; i++)
        bytes_put_varint(&page->out, runs->runs[i].charges);
}

void page_put_timeline(struct page_columns *page)
{
    const struct profile *profile = page->input->analysis->profile;
    struct charge_runs runs = {.page = page, .profile = profile};
    for (runs.tree = 0; runs.tree < profile->tree_count; runs.tree++) {
        const struct profile_tree *tree = &profile->trees[runs.tree];
        if (!image_of(&runs)->nodes)
            continue;
        runs.known = memory_array(tree->count, sizeof *runs.known);
        if (tree->threads > 0)
            put_thread(&runs, tree);
        else
            put_outside(&runs, tree);
        free(runs.known);
    }
    const size_t begin = page_section_begin(&page->out, "TIME");
    put_runs(page, &runs);
    page_put_bytes(page, &runs.times);
    page_put_bytes(page, &runs.targets);
    page_put_bytes(page, &runs.weights);
    page_section_end(&page->out, begin);
    free(runs.runs);
}
