// SPDX-License-Identifier: MIT
#include "profile/recorder/live_tree.h"
#include "profile/loader.h"
#include "profile/recorder/live_lossy_tree.h"
#include "profile/recorder/live_values.h"
#include "profile/timeline_records.h"
#include "tree/stable.h"
#include <stdlib.h>
#include <string.h>

// An edge as the profile has it. Nodes of one edge are many.
struct mapped_edge {
    ref_t ref;
    place_t site, function;
};

enum { MAPPED_EDGES = 1024 };

// The result of one scan: new nodes, and new values of known ones.
struct scan {
    struct live_tree *tree;
    const struct tree_source *source;
    unsigned metrics; // in the profile
    const struct live_sink *sink;
    struct live_values of; // the tree's
    uint64_t calls;        // that are new
    uint64_t blocks, block_bytes, blocks_variance;
    uint64_t caused[CAUSED_EVENTS][CAUSED_METRICS];
    uint32_t at;  // index of the node that comes next
    uint32_t run; // that it should lie in, if it is known
    struct batch *batch;
    struct profile_node *nodes; // new ones, of the section that is not full yet
    uint32_t new_count;         // of all
    uint32_t *changed;          // indices of known nodes
    uint64_t *changed_values;
    uint32_t changed_count;
    struct mapped_edge edges[MAPPED_EDGES];
};

void live_tree_free(struct live_tree *tree)
{
    free(tree->values);
    free(tree->is_frame);
    free(tree->runs);
    free(tree->nodes);
    live_timeline_free(&tree->timeline);
}

static bool spoil(struct live_tree *tree)
{
    tree->damaged = true;
    return false; // ends the scan
}

static uint32_t run_end(const struct live_tree *tree, uint32_t run, uint32_t count)
{
    return run + 1 < tree->run_count ? tree->runs[run + 1].first : count;
}

static bool in_run(const struct live_tree *tree, uint32_t run, uint32_t count, ref_t ref,
                   uint32_t *index)
{
    const struct node_run *nodes = &tree->runs[run];
    if (ref < nodes->start || (ref - nodes->start) % tree->units != 0)
        return false;
    *index = nodes->first + (ref - nodes->start) / tree->units;
    return *index < run_end(tree, run, count);
}

// The index of a node by its reference, of so many nodes. Runs ascend, but for the last one, which
// may be the reserve.
static bool find_index(const struct live_tree *tree, uint32_t count, ref_t ref, uint32_t *index)
{
    if (tree->run_count == 0)
        return false;
    if (in_run(tree, tree->run_count - 1, count, ref, index))
        return true;
    uint32_t low = 0, high = tree->run_count - 1;
    while (low < high) { // the last run that starts at or before ref
        uint32_t middle = (low + high) / 2;
        if (tree->runs[middle].start <= ref)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 && in_run(tree, low - 1, count, ref, index);
}

bool live_tree_find(const struct live_tree *tree, ref_t ref, uint32_t *index)
{
    return !tree->damaged && tree->index != LIVE_TREE_UNWRITTEN &&
           find_index(tree, tree->count, ref, index);
}

// Values of a node have changed: updates the totals.
static void count_news(struct scan *scan, bool is_frame, unsigned metric, uint64_t more)
{
    if (is_frame && scan->sink->follows_calls)
        scan->calls += more;
    if (is_frame)
        return;
    const unsigned number = live_alloc_metric(scan->sink, metric);
    scan->block_bytes += number == ALLOC_BYTES ? more : 0;
    scan->blocks += number == ALLOC_BLOCKS ? more : 0;
    scan->blocks_variance += number == ALLOC_VARIANCE ? more : 0;
    for (unsigned i = 0; i < CAUSED_EVENTS; i++)
        if (metric - scan->sink->caused[i].metric < scan->sink->caused[i].count)
            scan->caused[i][metric - scan->sink->caused[i].metric] += more;
}

static bool known_node(struct scan *scan, ref_t ref, const struct node *node)
{
    struct live_tree *tree = scan->tree;
    while (scan->at >= run_end(tree, scan->run, tree->count))
        scan->run++;
    const struct node_run *run = &tree->runs[scan->run];
    if (ref != run->start + (scan->at - run->first) * tree->units)
        return spoil(tree);
    uint64_t *values = &tree->values[(size_t)scan->at * scan->metrics];
    bool changed = false, is_frame = tree->is_frame[scan->at];
    for (unsigned metric = 0; metric < scan->metrics; metric++) {
        uint64_t value = live_value(&scan->of, node, is_frame, metric);
        if (value < values[metric] && live_only_grows(scan->sink, metric))
            return spoil(tree);
        changed |= value != values[metric];
        count_news(scan, is_frame, metric, value - values[metric]);
        values[metric] = value;
    }
    if (changed) {
        if (!profile_grow_by_one((void **)&scan->changed, scan->changed_count,
                                 sizeof *scan->changed) ||
            !profile_grow_by_one((void **)&scan->changed_values, scan->changed_count,
                                 scan->metrics * sizeof *values))
            return spoil(tree);
        scan->changed[scan->changed_count] = scan->at;
        memcpy(&scan->changed_values[(size_t)scan->changed_count * scan->metrics], values,
               scan->metrics * sizeof *values);
        scan->changed_count++;
    }
    scan->at++;
    return true;
}

static bool extend_runs(struct scan *scan, ref_t ref)
{
    struct live_tree *tree = scan->tree;
    if (tree->run_count > 0) {
        const struct node_run *last = &tree->runs[tree->run_count - 1];
        if (ref == last->start + (scan->at - last->first) * tree->units)
            return true;
    }
    if (!profile_grow((void **)&tree->runs, tree->run_count, tree->run_count + 1u,
                      sizeof *tree->runs))
        return false;
    tree->runs[tree->run_count++] = (struct node_run){ref, scan->at};
    return true;
}

// The edge of a node; a later node may have the same. NULL: there is no such edge.
static const struct mapped_edge *map_edge(struct scan *scan, ref_t ref)
{
    struct mapped_edge *mapped = &scan->edges[ref / (sizeof(struct edge) / 8) % MAPPED_EDGES];
    if (mapped->ref == ref && ref)
        return mapped;
    const struct tree_source *source = scan->source;
    const struct place_mapper *mapper = &source->mapper;
    struct edge edge;
    if (!tree_edge_read(source->arena, source->bytes, ref, &edge))
        return NULL;
    *mapped = (struct mapped_edge){
        .ref = ref,
        .site = edge.site ? mapper->map(mapper->context, edge.site) : 0,
        .function = edge.function ? mapper->map(mapper->context, edge.function) : 0,
    };
    return mapped;
}

static void encode_section(struct scan *scan)
{
    const struct live_tree *tree = scan->tree;
    const uint32_t count = (scan->new_count - 1) % WRITE_SECTION + 1, first = scan->at - count;
    write_nodes(scan->batch,
                &(struct written_nodes){.tree = tree->index,
                                        .first = first,
                                        .count = count,
                                        .nodes = scan->nodes,
                                        .values = tree->values + (size_t)first * scan->metrics,
                                        .metrics = scan->metrics});
}

static bool new_node(struct scan *scan, ref_t ref, const struct node *node)
{
    struct live_tree *tree = scan->tree;
    ref_t parent_ref = __atomic_load_n(&node->parent, __ATOMIC_RELAXED);
    uint32_t parent = PROFILE_NO_PARENT;
    const struct mapped_edge *edge = map_edge(scan, __atomic_load_n(&node->edge, __ATOMIC_RELAXED));
    // The first node is the root, every other one hangs below a frame that came before it.
    if (!edge || (scan->at == 0) != (parent_ref == 0))
        return spoil(tree);
    if (parent_ref && (!find_index(tree, scan->at, parent_ref, &parent) || !tree->is_frame[parent]))
        return spoil(tree);
    const uint32_t place = scan->new_count % WRITE_SECTION;
    if (scan->at == UINT32_MAX - 1 || !extend_runs(scan, ref) ||
        (scan->new_count == place &&
         !profile_grow_by_one((void **)&scan->nodes, place, sizeof *scan->nodes)) ||
        !profile_grow_by_one((void **)&tree->is_frame, scan->at, sizeof *tree->is_frame) ||
        !profile_grow_by_one((void **)&tree->values, scan->at,
                             scan->metrics * sizeof *tree->values))
        return spoil(tree);
    scan->nodes[place] = (struct profile_node){parent, edge->site, edge->function};
    scan->new_count++;
    const bool is_frame = tree->is_frame[scan->at] = scan->at == 0 || edge->function != 0;
    for (unsigned metric = 0; metric < scan->metrics; metric++) {
        uint64_t value = live_value(&scan->of, node, is_frame, metric);
        tree->values[(size_t)scan->at * scan->metrics + metric] = value;
        count_news(scan, is_frame, metric, value);
    }
    scan->at++;
    if (place + 1 == WRITE_SECTION)
        encode_section(scan);
    return true;
}

static bool visit(void *context, ref_t ref, const struct node *node)
{
    struct scan *scan = context;
    // The scan has checked the node for as many values as the tree's head had a moment ago.
    if ((uint64_t)ref * 8 + sizeof *node + scan->of.count * sizeof *node->value >
        scan->source->bytes)
        return spoil(scan->tree);
    return scan->at < scan->tree->count ? known_node(scan, ref, node) : new_node(scan, ref, node);
}

// Of the nodes from `first` on; the root does not count.
static uint64_t count_frames(const struct live_tree *tree, uint32_t first)
{
    uint64_t frames = 0;
    for (uint32_t i = first ? first : 1; i < tree->count; i++)
        frames += tree->is_frame[i];
    return frames;
}

// Another tree has begun to forget, and the profile has a metric more since then: 0 here.
static bool widen(struct live_tree *tree, unsigned metrics)
{
    if (tree->width == metrics || tree->count == 0) {
        tree->width = metrics;
        return true;
    }
    // As large as profile_grow() takes it to be.
    uint64_t *values = NULL;
    if (!profile_grow((void **)&values, 0, tree->count, metrics * sizeof *values))
        return false;
    for (uint32_t i = 0; i < tree->count; i++)
        memcpy(&values[(size_t)i * metrics], &tree->values[(size_t)i * tree->width],
               tree->width * sizeof *values);
    free(tree->values);
    tree->values = values;
    tree->width = metrics;
    return true;
}

static bool scan_nodes(struct live_tree *tree, const struct tree_source *source, ref_t ref,
                       struct live_sink *sink)
{
    const struct arena *arena = source->arena;
    const uint64_t bytes = source->bytes;
    unsigned metrics = sink->metrics, live_metrics = tree_metrics_read(arena, bytes, ref);
    if (live_metrics == 0)
        return false; // being made
    if (live_metrics > metrics || !widen(tree, metrics)) {
        spoil(tree);
        return false;
    }
    tree->units = (ref_t)((sizeof(struct node) + live_metrics * sizeof(uint64_t)) / 8);
    struct scan scan = {
        .tree = tree,
        .source = source,
        .metrics = metrics,
        .of = {sink, live_metrics},
        .sink = sink,
        .batch = sink->batch,
    };
    if ((tree_scan(arena, bytes, ref, visit, &scan) < 0 || scan.at < tree->count) &&
        !tree_forgets_read(arena, bytes, ref)) // it began to forget just now
        spoil(tree);
    uint32_t first = tree->count;
    tree->count = first + scan.new_count;
    if (scan.new_count % WRITE_SECTION)
        encode_section(&scan);
    write_values(sink->batch, &(struct written_values){.tree = tree->index,
                                                       .count = scan.changed_count,
                                                       .indices = scan.changed,
                                                       .values = scan.changed_values,
                                                       .metrics = metrics});
    sink->totals->nodes += scan.new_count;
    sink->retold += scan.changed_count;
    sink->totals->calls += scan.calls;
    sink->totals->blocks += scan.blocks;
    sink->totals->blocks_variance += scan.blocks_variance;
    sink->totals->block_bytes += scan.block_bytes;
    for (unsigned i = 0; i < CAUSED_METRICS; i++) {
        sink->totals->io[i] += scan.caused[0][i];
        sink->totals->lock[i] += scan.caused[1][i];
        sink->totals->offcpu[i] += scan.caused[2][i];
    }
    sink->totals->frames += count_frames(tree, first);
    free(scan.nodes);
    free(scan.changed);
    free(scan.changed_values);
    return scan.new_count > 0 || scan.changed_count > 0;
}

static uint64_t count_calls(const struct live_tree *tree, const struct live_sink *sink)
{
    uint64_t calls = 0;
    for (uint32_t i = 0; i < tree->count && sink->follows_calls; i++)
        if (tree->is_frame[i])
            calls += tree->values[(size_t)i * tree->width + sink->calls_metric];
    return calls;
}

// A full tree whose memory is used up continues in recycled nodes.
static bool begin_to_forget(struct live_tree *tree, struct live_sink *sink)
{
    static const char note[] =
        "the memory limit was reached: from then on only hot contexts were kept, "
        "with a bound of their error; --memory raises the limit";
    if (!sink->want_errors(sink->errors_context))
        return false;
    sink->note(sink->note_context, note, sizeof note - 1);
    sink->totals->forgetting++;
    sink->totals->frames -= count_frames(tree, 0);
    sink->totals->calls -= count_calls(tree, sink);
    free(tree->runs);
    free(tree->is_frame);
    tree->runs = NULL;
    tree->is_frame = NULL;
    tree->run_count = 0;
    tree->forgets = true;
    return true;
}

static bool read_nodes(struct live_tree *tree, const struct tree_source *source, ref_t ref,
                       struct live_sink *sink)
{
    tree->forgets |= !sink->tree->keeps_all;
    if (!tree->forgets && tree_forgets_read(source->arena, source->bytes, ref) &&
        !begin_to_forget(tree, sink))
        return false;
    if (tree->forgets)
        return live_lossy_tree_update(tree, source, ref, sink);
    return scan_nodes(tree, source, ref, sink);
}

static uint64_t complete_walks(const struct live_stats *stats)
{
    return stats->verdicts[VERDICT_COMPLETE] + stats->verdicts[VERDICT_MARKER];
}

static uint64_t truncated_walks(const struct live_stats *stats)
{
    uint64_t walks = 0;
    for (unsigned i = 0; i < VERDICT_COUNT; i++)
        walks += stats->verdicts[i];
    return walks - complete_walks(stats) - stats->verdicts[VERDICT_GUESSED];
}

static void add_to_totals(struct recorder_totals *totals, const struct live_stats *now,
                          const struct live_stats *before)
{
    totals->samples += now->samples - before->samples;
    totals->lost += now->lost - before->lost;
    totals->unplaced += now->unplaced - before->unplaced;
    totals->cost_ns += now->cost_ns - before->cost_ns;
    totals->handler_ns += now->handler_ns - before->handler_ns;
    totals->sparse += now->sparse - before->sparse;
    totals->switches += now->switches - before->switches;
    totals->hook_ns += now->hook_ns - before->hook_ns;
    totals->complete += complete_walks(now) - complete_walks(before);
    totals->guessed += now->verdicts[VERDICT_GUESSED] - before->verdicts[VERDICT_GUESSED];
    totals->truncated += truncated_walks(now) - truncated_walks(before);
}

static bool went_back(const struct live_stats *now, const struct live_stats *before)
{
    return now->samples < before->samples || now->lost < before->lost ||
           now->cost_ns < before->cost_ns || now->handler_ns < before->handler_ns ||
           now->hook_ns < before->hook_ns;
}

static void copy_stats(struct live_stats *to, const struct live_stats *from)
{
    _Static_assert(sizeof *to % 8 == 0, "copied by words, so that none is torn");
    for (size_t i = 0; i < sizeof *to / 8; i++)
        ((uint64_t *)to)[i] = __atomic_load_n((const uint64_t *)from + i, __ATOMIC_RELAXED);
}

static bool count_to_three(void *context, ref_t ref, const struct node *node)
{
    (void)ref;
    (void)node;
    return ++*(unsigned *)context < 3;
}

static bool is_a_root_alone(const struct arena *arena, uint64_t bytes, ref_t tree)
{
    const int64_t room = stable_bytes(arena, bytes, tree);
    void *memory = room > 0 ? malloc((size_t)room) : NULL;
    struct stable_tree stable = {0};
    const bool read = memory && stable_read(&stable, arena, bytes, tree, memory, (size_t)room) == 0;
    free(memory);
    return room == 0 || (read && stable.count < 2);
}

// Thousands of idle threads need not fill the profile. An unused tree has a root, and a statement
// if it is a full one.
static bool is_unused(const struct live_stats *stats, const struct arena *arena, uint64_t bytes,
                      ref_t tree, const struct live_sink *sink)
{
    if (stats->samples || stats->cost_ns || stats->lost || stats->hook_samples)
        return false;
    if ((!sink->follows_calls && !live_has_values(sink) && !sink->counters) || !tree)
        return true;
    if (!sink->tree->keeps_all)
        return is_a_root_alone(arena, bytes, tree);
    unsigned nodes = 0;
    tree_scan(arena, bytes, tree, count_to_three, &nodes);
    return nodes < 3;
}

static struct profile_hot read_hot(const struct arena *arena, uint64_t bytes, ref_t tree)
{
    struct tree_hot state;
    if (!tree || !tree_hot_read(arena, bytes, tree, &state))
        return (struct profile_hot){0};
    return (struct profile_hot){state.counters, state.floor, (int64_t)state.made_up};
}

static bool is_news(const struct live_tree *tree, const struct profile_tree *told)
{
    return memcmp(&told->stats, &tree->stats, sizeof told->stats) != 0 ||
           memcmp(&told->hot, &tree->hot, sizeof told->hot) != 0 || told->tid != tree->tid ||
           told->threads != tree->threads || strcmp(told->name, tree->name) != 0 ||
           tree->index == LIVE_TREE_UNWRITTEN;
}

// The name of a phase, as far as it is fit to be shown.
static void read_phase(char *to, const struct arena *arena, uint64_t bytes, ref_t ref)
{
    if (ref == 0 || (uint64_t)ref * 8 + sizeof(struct live_phase) > bytes)
        return;
    const struct live_phase *phase = arena_at(arena, ref);
    uint32_t length = __atomic_load_n(&phase->bytes, __ATOMIC_RELAXED);
    if (length >= PROFILE_PHASE_BYTES || (uint64_t)ref * 8 + sizeof *phase + length > bytes)
        return;
    for (uint32_t i = 0; i < length; i++)
        to[i] = phase->text[i] < ' ' || phase->text[i] == 0x7f ? '?' : phase->text[i];
}

// Bytes as they are: code that shows a name escapes it.
static void read_name(char *to, const struct live_thread *thread)
{
    for (size_t i = 0; i < THREAD_NAME_BYTES - 1; i++)
        to[i] = __atomic_load_n(&thread->name[i], __ATOMIC_RELAXED);
}

// Writes the charges that were taken out of the rings; the nodes are written already. True if there
// were any.
static bool tell_timeline(struct live_tree *tree, struct live_sink *sink)
{
    static const char late[] = "the timeline lacks some charges: the recorder came too late for "
                               "them, or there was no memory",
                      forgets[] = "the memory limit was reached: threads that it concerns have no "
                                  "timeline; --memory raises the limit";
    struct live_timeline_told *told = &tree->timeline;
    struct timeline_charge *charges = calloc(told->count + 1, sizeof *charges);
    size_t count = 0;
    for (size_t i = 0; i < told->count; i++) {
        const struct live_timed *timed = &told->new[i];
        uint32_t node = 0;
        if (!charges || tree->forgets ||
            (timed->node && !find_index(tree, tree->count, timed->node, &node)))
            continue;
        charges[count++] = (struct timeline_charge){.time_ns = timed->time_ns - sink->start_ns,
                                                    .weight = timed->weight,
                                                    .node = node,
                                                    .tid = timed->origin >> 1,
                                                    .metric = timed->origin & 1};
    }
    told->lost += told->count - count;
    const bool any = count || told->lost;
    if (any)
        timeline_put(sink->batch, tree->index, charges, count, told->lost);
    if (told->lost)
        sink->note(sink->note_context, tree->forgets ? forgets : late,
                   tree->forgets ? sizeof forgets - 1 : sizeof late - 1);
    free(charges);
    told->count = 0;
    told->lost = 0;
    return any;
}

bool live_tree_update(struct live_tree *tree, const struct tree_source *source,
                      struct live_sink *sink)
{
    const struct arena *arena = source->arena;
    const uint64_t bytes = source->bytes;
    const struct place_mapper *mapper = &source->mapper;
    if (tree->damaged || (uint64_t)tree->thread * 8 + sizeof(struct live_thread) > bytes)
        return false;
    const struct live_thread *thread = arena_at(arena, tree->thread);
    struct live_stats stats;
    if (sink->has_timeline)
        live_timeline_take(&tree->timeline, arena, bytes, &thread->timeline);
    copy_stats(&stats, &thread->stats);
    const ref_t nodes = __atomic_load_n(&thread->tree, __ATOMIC_RELAXED);
    if (tree->count == 0 && is_unused(&stats, arena, bytes, nodes, sink))
        return false;
    if (went_back(&stats, &tree->stats)) {
        spoil(tree);
        return false;
    }
    struct profile_tree told = {
        .process = source->process,
        .tid = atomic_load_explicit(&thread->tid, memory_order_relaxed),
        .threads = atomic_load_explicit(&thread->threads, memory_order_relaxed),
        .stats = stats,
        .hot = read_hot(arena, bytes, nodes),
    };
    place_t start = __atomic_load_n(&thread->start, __ATOMIC_RELAXED);
    told.start = start ? mapper->map(mapper->context, start) : 0;
    const uint32_t creator = __atomic_load_n(&thread->creator, __ATOMIC_RELAXED);
    told.creator = creator ? mapper->creator(mapper->context, creator) : 0;
    read_phase(told.phase, arena, bytes, __atomic_load_n(&thread->phase, __ATOMIC_RELAXED));
    read_name(told.name, thread);
    const bool news = is_news(tree, &told);
    if (news) {
        if (tree->index == LIVE_TREE_UNWRITTEN)
            tree->index = sink->next_tree++;
        write_tree(sink->batch, tree->index, &told);
        add_to_totals(sink->totals, &stats, &tree->stats);
        tree->stats = stats;
        tree->hot = told.hot;
        tree->tid = told.tid;
        tree->threads = told.threads;
        memcpy(tree->name, told.name, sizeof tree->name);
    }
    // Returns are counted after the last sample too: one more look when the samples have stopped.
    // Calls are counted at any time.
    bool changed = news;
    if (news || tree->busy || sink->follows_calls || tree->timeline.count ||
        source->presence == PROCESS_IS_GONE)
        changed |= read_nodes(tree, source, nodes, sink);
    if (tree->timeline.count || tree->timeline.lost)
        changed |= tell_timeline(tree, sink);
    tree->busy = news || tree->skip; // one that was not read has its turn yet
    return changed;
}
