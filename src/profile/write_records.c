// SPDX-License-Identifier: MIT
#include "profile/write_records.h"
#include "profile/contexts.h"
#include "profile/creations.h"
#include "profile/place_names.h"
#include "profile/record.h"
#include "profile/timeline_records.h"
#include <string.h>

enum {
    LARGE_PAYLOAD = 1 << 20,
    RANK_PART = 1 << 19, // of the costs of a rank, in one record
};

void batch_free(struct batch *batch)
{
    for (unsigned type = 0; type < CHUNK_TYPES; type++)
        bytes_free(&batch->payload[type]);
    bytes_free(&batch->out);
}

void batch_flush(struct batch *batch)
{
    // Trees are dropped before they are written again. The state is last: it says that all is
    // there.
    static const uint8_t order[] = {
        CHUNK_SESSION,  CHUNK_MODULES,   CHUNK_PROCESSES, CHUNK_TREES,       CHUNK_PHASES,
        CHUNK_NAMES,    CHUNK_CREATIONS, CHUNK_ANEW,      CHUNK_NODES,       CHUNK_VALUES,
        CHUNK_NOTES,    CHUNK_RUNS,      CHUNK_ENCODINGS, CHUNK_ALLOCATIONS, CHUNK_CONTEXTS,
        CHUNK_OVERHEAD, CHUNK_KERNEL,    CHUNK_TIMELINE,  CHUNK_BLAMES,      CHUNK_RANKS,
        CHUNK_PLACES,   CHUNK_STATE,
    };
    _Static_assert(sizeof order == CHUNK_TYPES - 1, "every type but the filler has its turn");
    for (unsigned i = 0; i < sizeof order; i++) {
        chunk_put(&batch->out, order[i], &batch->payload[order[i]], batch->level);
        batch->payload[order[i]].size = 0;
    }
}

void batch_flush_large(struct batch *batch)
{
    for (unsigned type = 0; type < CHUNK_TYPES; type++) {
        if (batch->payload[type].size >= LARGE_PAYLOAD) {
            batch_flush(batch);
            return;
        }
    }
}

static void put_text(struct bytes *out, const char *text)
{
    bytes_put_string(out, text ? text : "", text ? strlen(text) : 0);
}

static void put_command(struct bytes *out, char *const *command)
{
    size_t count = 0;
    while (command && command[count])
        count++;
    bytes_put_varint(out, count);
    for (size_t i = 0; i < count; i++)
        put_text(out, command[i]);
}

void write_session(struct batch *batch, const struct profile *profile)
{
    struct bytes *out = &batch->payload[CHUNK_SESSION];
    bytes_put_varint(out, profile->start_realtime_ns);
    put_text(out, profile->tracker);
    put_text(out, profile->tree_kind);
    put_command(out, profile->command);
    bytes_put_varint(out, profile->metric_count);
    for (unsigned i = 0; i < profile->metric_count; i++) {
        const struct profile_metric *metric = &profile->metrics[i];
        put_text(out, metric->name);
        put_text(out, metric->unit);
        bytes_put_varint(out, metric->period);
        uint64_t rate;
        memcpy(&rate, &metric->rate_requested, sizeof rate);
        bytes_put_fixed(out, rate, 8);
        put_text(out, metric->source);
    }
}

void write_module(struct batch *batch, unsigned id, const struct profile_module *module)
{
    struct bytes *out = &batch->payload[CHUNK_MODULES];
    bytes_put_varint(out, id);
    bytes_put_varint(out, module->build_id_bytes);
    bytes_put(out, module->build_id, module->build_id_bytes);
    put_text(out, module->path);
}

static void put_process(struct bytes *out, uint32_t index, const struct profile_process *process,
                        unsigned flags)
{
    flags |= (process->forked ? PROCESS_FORKED : 0) | (process->ended ? PROCESS_ENDED : 0) |
             (process->exclude_kernel ? PROCESS_EXCLUDES_KERNEL : 0) |
             (process->merged_into != PROFILE_NOT_MERGED ? PROCESS_MERGED : 0);
    bytes_put_varint(out, index);
    bytes_put_varint(out, flags);
    bytes_put_varint(out, process->pid);
    bytes_put_varint(out, process->parent_pid);
    bytes_put_varint(out, process->start_ns);
    bytes_put_varint(out, process->end_ns);
    bytes_put_varint(out, process->tree_bytes);
    bytes_put_varint(out, process->agent_bytes);
    bytes_put_varint(out, process->thread_starts);
    bytes_put_varint(out, process->samples);
    bytes_put_varint(out, process->cost_ns);
    if (flags & PROCESS_MERGED)
        bytes_put_varint(out, process->merged_into);
    if (flags & PROCESS_HAS_COMMAND)
        put_command(out, process->command);
}

static void put_numbers(struct bytes *out, uint32_t index, const void *numbers, unsigned count)
{
    bytes_put_varint(out, index);
    bytes_put_varint(out, count);
    for (unsigned i = 0; i < count; i++)
        bytes_put_varint(out, ((const uint64_t *)numbers)[i]);
}

// Puts all counters of the encode tracker, of the alloc event, and of what was verified.
static void put_counts(struct batch *batch, uint32_t index, const struct profile_process *process)
{
    if (process->encode.functions)
        put_numbers(&batch->payload[CHUNK_ENCODINGS], index, &process->encode, ENCODE_NUMBERS);
    if (process->alloc.peak || process->alloc.verified)
        put_numbers(&batch->payload[CHUNK_ALLOCATIONS], index, &process->alloc, ALLOC_NUMBERS);
}

void write_process(struct batch *batch, uint32_t index, const struct profile_process *process)
{
    put_process(&batch->payload[CHUNK_PROCESSES], index, process, PROCESS_HAS_COMMAND);
    put_counts(batch, index, process);
}

void write_process_again(struct batch *batch, uint32_t index, const struct profile_process *process)
{
    put_process(&batch->payload[CHUNK_PROCESSES], index, process, 0);
    put_counts(batch, index, process);
}

static uint64_t module_number(place_t place)
{
    return place ? place_module(place) + 1 : 0;
}

static void put_stats(struct bytes *out, const struct live_stats *stats,
                      const struct profile_hot *hot)
{
    const uint64_t sums[STATS_SUMS] = {
        stats->samples,       stats->lost,       stats->unplaced, stats->frames_stack,
        stats->frames_walked, stats->handler_ns, stats->cost_ns,  stats->residue_ns,
        stats->purged,        hot->counters,     hot->floor,      zigzag(hot->made_up),
        stats->waits,         stats->sparse,     stats->switches, stats->hook_samples,
        stats->hook_ns,
    };
    bytes_put_varint(out, STATS_SUMS);
    for (unsigned i = 0; i < STATS_SUMS; i++)
        bytes_put_varint(out, sums[i]);
    bytes_put_varint(out, VERDICT_COUNT);
    for (unsigned i = 0; i < VERDICT_COUNT; i++)
        bytes_put_varint(out, stats->verdicts[i]);
    unsigned filled = 0;
    for (unsigned i = 0; i < LIVE_HANDLER_BUCKETS; i++)
        filled += stats->handler_histogram[i] != 0;
    bytes_put_varint(out, filled);
    for (unsigned i = 0; i < LIVE_HANDLER_BUCKETS; i++) {
        if (stats->handler_histogram[i]) {
            bytes_put_varint(out, i);
            bytes_put_varint(out, stats->handler_histogram[i]);
        }
    }
}

static void put_tree_text(struct batch *batch, enum chunk_type type, uint32_t index,
                          const char *text)
{
    if (!text[0])
        return;
    bytes_put_varint(&batch->payload[type], index);
    put_text(&batch->payload[type], text);
}

void write_tree(struct batch *batch, uint32_t index, const struct profile_tree *tree)
{
    struct bytes *out = &batch->payload[CHUNK_TREES];
    bytes_put_varint(out, index);
    bytes_put_varint(out, tree->process);
    bytes_put_varint(out, tree->tid);
    bytes_put_varint(out, module_number(tree->start));
    if (tree->start)
        bytes_put_varint(out, place_offset(tree->start));
    bytes_put_varint(out, tree->threads);
    put_stats(out, &tree->stats, &tree->hot);
    put_tree_text(batch, CHUNK_PHASES, index, tree->phase);
    put_tree_text(batch, CHUNK_NAMES, index, tree->name);
    creations_put_tree(batch, index, tree->creator);
}

// Column by column: like stands beside like, which is what makes it compress.
static uint8_t *put_columns(uint8_t *at, uint32_t first, uint32_t count,
                            const struct profile_node *nodes)
{
    for (uint32_t i = 0; i < count; i++)
        at = bytes_put_here(at,
                            nodes[i].parent == PROFILE_NO_PARENT ? 0 : first + i - nodes[i].parent);
    for (uint32_t i = 0; i < count; i++)
        at = bytes_put_here(at, module_number(nodes[i].function));
    for (uint32_t i = 0; i < count; i++)
        if (nodes[i].function)
            at = bytes_put_here(at, place_offset(nodes[i].function));
    for (uint32_t i = 0; i < count; i++)
        at = bytes_put_here(at, module_number(nodes[i].site));
    for (uint32_t i = 0; i < count; i++)
        if (nodes[i].site)
            at = bytes_put_here(at, zigzag((int64_t)place_offset(nodes[i].site) -
                                           (int64_t)record_site_base(nodes, first, i)));
    return at;
}

static void put_nodes(struct batch *batch, const struct written_nodes *section)
{
    const uint32_t count = section->count;
    const unsigned metrics = section->metrics;
    struct bytes *out = &batch->payload[CHUNK_NODES];
    uint8_t *at = bytes_room_for_varints(out, 4 + (5 + (size_t)metrics) * count);
    if (!at)
        return;
    at = bytes_put_here(at, section->tree);
    at = bytes_put_here(at, section->first);
    at = bytes_put_here(at, count);
    at = bytes_put_here(at, metrics);
    at = put_columns(at, section->first, count, section->nodes);
    for (uint64_t i = 0; i < (uint64_t)count * metrics; i++)
        at = bytes_put_here(at, section->values[i]);
    bytes_put_until(out, at);
    batch_flush_large(batch);
}

// In sections of bounded size, so that a chunk can be closed after each.
static uint32_t section_of(uint32_t left)
{
    return left < WRITE_SECTION ? left : WRITE_SECTION;
}

void write_nodes(struct batch *batch, const struct written_nodes *written)
{
    for (uint32_t done = 0; done < written->count; done += WRITE_SECTION) {
        struct written_nodes section = *written;
        section.first += done;
        section.count = section_of(written->count - done);
        section.nodes += done;
        section.values += (size_t)done * written->metrics;
        put_nodes(batch, &section);
    }
}

void write_anew(struct batch *batch, uint32_t tree)
{
    // Records of other trees in this batch stay; there are none of this one.
    bytes_put_varint(&batch->payload[CHUNK_ANEW], tree);
}

static void put_values(struct batch *batch, const struct written_values *section)
{
    const uint32_t count = section->count, *indices = section->indices;
    struct bytes *out = &batch->payload[CHUNK_VALUES];
    bytes_put_varint(out, section->tree);
    bytes_put_varint(out, count);
    bytes_put_varint(out, section->metrics);
    for (uint32_t i = 0; i < count; i++)
        bytes_put_varint(out, i ? indices[i] - indices[i - 1] : indices[i]);
    for (uint64_t i = 0; i < (uint64_t)count * section->metrics; i++)
        bytes_put_varint(out, section->values[i]);
    batch_flush_large(batch);
}

void write_values(struct batch *batch, const struct written_values *written)
{
    for (uint32_t done = 0; done < written->count; done += WRITE_SECTION) {
        struct written_values section = *written;
        section.count = section_of(written->count - done);
        section.indices += done;
        section.values += (size_t)done * written->metrics;
        put_values(batch, &section);
    }
}

// How many recordings each metric is the sum of; nothing if that is one.
static void encode_runs(struct batch *batch, const struct profile *profile)
{
    struct bytes *out = &batch->payload[CHUNK_RUNS];
    for (unsigned i = 0; i < profile->metric_count; i++) {
        if (profile_runs(&profile->metrics[i]) == 1)
            continue;
        bytes_put_varint(out, i);
        bytes_put_varint(out, profile->metrics[i].runs);
    }
}

void write_note(struct batch *batch, const char *text)
{
    put_text(&batch->payload[CHUNK_NOTES], text);
}

void write_kernel(struct batch *batch, const char *kernel)
{
    struct bytes *out = &batch->payload[CHUNK_KERNEL];
    bytes_put_varint(out, KERNEL_STATE);
    put_text(out, kernel);
}

void write_function(struct batch *batch, const struct profile_function *function)
{
    struct bytes *out = &batch->payload[CHUNK_KERNEL];
    bytes_put_varint(out, KERNEL_FUNCTION);
    bytes_put_varint(out, place_module(function->begin));
    bytes_put_varint(out, place_offset(function->begin));
    bytes_put_varint(out, function->bytes);
    put_text(out, function->name);
}

void write_overhead(struct batch *batch, const struct profile_overhead *overhead)
{
    struct bytes *out = &batch->payload[CHUNK_OVERHEAD];
    if (!overhead->tick_ns)
        return;
    bytes_put_varint(out, overhead->tick_ns);
    bytes_put_varint(out, overhead->switch_ns);
}

void write_state(struct batch *batch, uint64_t duration_ns, bool complete)
{
    struct bytes *out = &batch->payload[CHUNK_STATE];
    bytes_put_varint(out, duration_ns);
    bytes_put_varint(out, complete);
}

// Measured: the higher level saves 5 % and takes three times as long, which a small profile can
// afford.
static int level_for(const struct profile *profile)
{
    return profile_nodes(profile) < 50000 ? 9 : 3;
}

void write_blame(struct batch *batch, const struct profile_blame *blame)
{
    struct bytes *out = &batch->payload[CHUNK_BLAMES];
    bytes_put_varint(out, blame->waiter.tree);
    bytes_put_varint(out, blame->waiter.node);
    bytes_put_varint(out, blame->holder.tree);
    bytes_put_varint(out, blame->holder.node);
    bytes_put_varint(out, blame->ns);
    bytes_put_varint(out, blame->waits);
}

static void write_rank(struct batch *batch, uint32_t index, const struct profile_rank *rank)
{
    struct bytes *out = &batch->payload[CHUNK_RANKS];
    bytes_put_varint(out, RANK_NAME);
    bytes_put_varint(out, index);
    put_text(out, rank->name);
    bytes_put_varint(out, rank->metrics);
    for (size_t done = 0, part; done < rank->bytes; done += part) {
        part = rank->bytes - done < RANK_PART ? rank->bytes - done : RANK_PART;
        bytes_put_varint(out, RANK_COSTS);
        bytes_put_varint(out, index);
        bytes_put_varint(out, done);
        bytes_put_string(out, (const char *)rank->costs + done, part);
        batch_flush_large(batch);
    }
}

void write_profile(struct batch *batch, const struct profile *profile)
{
    batch->level = level_for(profile);
    chunk_put_file_head(&batch->out);
    write_session(batch, profile);
    for (unsigned i = 0; i < profile->module_count; i++)
        if (i >= MODULE_FIRST_FILE || profile->modules[i].build_id_bytes)
            write_module(batch, i, &profile->modules[i]);
    for (unsigned i = 0; i < profile->process_count; i++) {
        write_process(batch, i, &profile->processes[i]);
        contexts_put(batch, i, &profile->processes[i].contexts);
    }
    for (uint32_t i = 0; i < profile->creation_count; i++)
        creations_put_step(batch, i, &profile->creations[i]);
    for (unsigned i = 0; i < profile->tree_count; i++) {
        write_tree(batch, i, &profile->trees[i]);
        write_nodes(batch, &(struct written_nodes){.tree = i,
                                                   .count = profile->trees[i].count,
                                                   .nodes = profile->trees[i].nodes,
                                                   .values = profile->trees[i].values,
                                                   .metrics = profile->metric_count});
        batch_flush_large(batch);
    }
    for (unsigned i = 0; i < profile->blame_count; i++)
        write_blame(batch, &profile->blames[i]);
    for (uint32_t i = 0; i < profile->rank_count; i++)
        write_rank(batch, i, &profile->ranks[i]);
    timeline_put_start(batch, &profile->timeline);
    for (unsigned i = 0; i < profile->tree_count; i++)
        timeline_put_tree(batch, i, &profile->trees[i]);
    for (unsigned i = 0; i < profile->note_count; i++)
        write_note(batch, profile->notes[i]);
    write_overhead(batch, &profile->overhead);
    if (profile->kernel)
        write_kernel(batch, profile->kernel);
    for (unsigned i = 0; i < profile->function_count; i++)
        write_function(batch, &profile->functions[i]);
    for (unsigned i = 0; i < profile->place_count; i++) {
        place_names_put(batch, &profile->places[i]);
        batch_flush_large(batch);
    }
    encode_runs(batch, profile);
    write_state(batch, profile->duration_ns, profile->complete);
    batch_flush(batch);
}
