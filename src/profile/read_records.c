// SPDX-License-Identifier: MIT
#include "profile/read_records.h"
#include "profile/contexts.h"
#include "profile/creations.h"
#include "profile/place_names.h"
#include "profile/record.h"
#include "profile/timeline_records.h"
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum {
    TEXT_BYTES = 32, // that even the shortest text takes
};

bool loader_may_fill(struct loader *loader, uint64_t gap, unsigned per_byte)
{
    if (gap == 0)
        return true;
    uint64_t allowed = loader->scan->lost_bytes * per_byte;
    if (gap > allowed || loader->placeholders > allowed - gap)
        return false;
    loader->placeholders += gap;
    return true;
}

bool loader_charge(struct loader *loader, uint64_t bytes)
{
    if (bytes > loader->memory_budget) {
        loader->too_large = true;
        return false;
    }
    loader->memory_budget -= bytes;
    return true;
}

bool loader_grow(struct loader *loader, void *array, size_t count, size_t wanted, size_t each)
{
    if (!loader_charge(loader, (uint64_t)(wanted - count) * each))
        return false;
    if (profile_grow(array, count, wanted, each))
        return true;
    loader->out_of_memory = true;
    return false;
}

static bool has_process(struct loader *loader, uint32_t index);

struct profile_process *loader_process(struct loader *loader, uint32_t index)
{
    return has_process(loader, index) ? &loader->profile->processes[index] : NULL;
}

static bool has_process(struct loader *loader, uint32_t index)
{
    struct profile *profile = loader->profile;
    if (index < profile->process_count)
        return true;
    if (!loader_may_fill(loader, index - profile->process_count, 1) ||
        !loader_grow(loader, &profile->processes, profile->process_count, (size_t)index + 1,
                     sizeof *profile->processes))
        return false;
    while (profile->process_count <= index)
        profile->processes[profile->process_count++].merged_into = PROFILE_NOT_MERGED;
    return true;
}

bool loader_has_tree(struct loader *loader, uint32_t index)
{
    struct profile *profile = loader->profile;
    if (index < profile->tree_count)
        return true;
    if (!loader_may_fill(loader, index - profile->tree_count, 1) ||
        !loader_grow(loader, &profile->trees, profile->tree_count, (size_t)index + 1,
                     sizeof *profile->trees))
        return false;
    profile->tree_count = index + 1;
    return true;
}

static bool has_module(struct loader *loader, unsigned id)
{
    struct profile *profile = loader->profile;
    if (id < profile->module_count)
        return true;
    if (!loader_grow(loader, &profile->modules, profile->module_count, (size_t)id + 1,
                     sizeof *profile->modules))
        return false;
    profile->module_count = id + 1;
    return true;
}

bool loader_take_text(struct loader *loader, struct cursor *cursor, char **text)
{
    const size_t before = cursor_left(cursor);
    char *taken = cursor_string(cursor);
    if (!taken) {
        loader->out_of_memory |= !cursor->failed;
        return false;
    }
    if (!loader_charge(loader, TEXT_BYTES + before - cursor_left(cursor))) {
        free(taken);
        return false;
    }
    free(*text);
    *text = taken;
    return true;
}

static void free_command(char **command)
{
    for (char **word = command; word && *word; word++)
        free(*word);
    free(command);
}

static bool take_command(struct loader *loader, struct cursor *cursor, char ***command)
{
    uint64_t count = cursor_varint(cursor);
    if (cursor->failed || count > cursor_left(cursor))
        return false;
    if (!loader_charge(loader, (count + 1) * sizeof(char *)))
        return false;
    char **words = calloc(count + 1, sizeof *words);
    if (!words) {
        loader->out_of_memory = true;
        return false;
    }
    for (uint64_t i = 0; i < count; i++) {
        if (!loader_take_text(loader, cursor, &words[i])) {
            free_command(words);
            return false;
        }
    }
    free_command(*command);
    *command = words;
    return true;
}

// A later record may have more metrics: earlier values of the new ones are 0.
static bool widen_trees(struct loader *loader, unsigned count)
{
    const struct profile *profile = loader->profile;
    for (unsigned i = 0; i < profile->tree_count; i++) {
        struct profile_tree *tree = &profile->trees[i];
        const uint64_t more = count - profile->metric_count;
        if (!loader_charge(loader, tree->count * more * sizeof *tree->values) ||
            !profile_widen_tree(tree, profile->metric_count, count))
            return false;
    }
    return true;
}

bool loader_want_metrics(struct loader *loader, uint64_t count)
{
    struct profile *profile = loader->profile;
    if (count == 0 || count > PROFILE_MOST_METRICS)
        return false;
    if (count <= profile->metric_count)
        return true;
    struct profile_metric *metrics = calloc(count, sizeof *metrics);
    if (!metrics || !widen_trees(loader, (unsigned)count)) {
        free(metrics);
        loader->out_of_memory |= !loader->too_large;
        return false;
    }
    if (profile->metrics)
        memcpy(metrics, profile->metrics, profile->metric_count * sizeof *metrics);
    free(profile->metrics);
    profile->metrics = metrics;
    profile->metric_count = (unsigned)count;
    return true;
}

static bool take_session(struct loader *loader, struct cursor *cursor)
{
    struct profile *profile = loader->profile;
    uint64_t count = 0;
    profile->start_realtime_ns = cursor_varint(cursor);
    if (!loader_take_text(loader, cursor, &profile->tracker) ||
        !loader_take_text(loader, cursor, &profile->tree_kind) ||
        !take_command(loader, cursor, &profile->command) ||
        !loader_want_metrics(loader, count = cursor_varint(cursor)))
        return false;
    for (unsigned i = 0; i < count; i++) {
        struct profile_metric *metric = &profile->metrics[i];
        if (!loader_take_text(loader, cursor, &metric->name) ||
            !loader_take_text(loader, cursor, &metric->unit))
            return false;
        metric->period = cursor_varint(cursor);
        uint64_t rate = cursor_fixed(cursor, 8);
        memcpy(&metric->rate_requested, &rate, sizeof rate);
        if (!loader_take_text(loader, cursor, &metric->source))
            return false;
    }
    loader->has_session = true;
    return !cursor->failed;
}

static bool take_module(struct loader *loader, struct cursor *cursor)
{
    uint64_t id = cursor_varint(cursor);
    uint64_t build_id_bytes = cursor_varint(cursor);
    if (cursor->failed || id >= MODULE_LIMIT ||
        build_id_bytes > sizeof loader->profile->modules->build_id)
        return false;
    const uint8_t *build_id = cursor_bytes(cursor, build_id_bytes);
    if (!build_id || !has_module(loader, (unsigned)id))
        return false;
    struct profile_module *module = &loader->profile->modules[id];
    if (!loader_take_text(loader, cursor, &module->path))
        return false;
    memcpy(module->build_id, build_id, build_id_bytes);
    module->build_id_bytes = (unsigned)build_id_bytes;
    return true;
}

static bool take_process(struct loader *loader, struct cursor *cursor)
{
    uint32_t index = cursor_varint32(cursor);
    uint64_t flags = cursor_varint(cursor);
    if (cursor->failed || !has_process(loader, index))
        return false;
    struct profile_process *process = &loader->profile->processes[index];
    process->forked = flags & PROCESS_FORKED;
    process->ended = flags & PROCESS_ENDED;
    process->exclude_kernel = flags & PROCESS_EXCLUDES_KERNEL;
    process->pid = cursor_varint32(cursor);
    process->parent_pid = cursor_varint32(cursor);
    process->start_ns = cursor_varint(cursor);
    process->end_ns = cursor_varint(cursor);
    process->tree_bytes = cursor_varint(cursor);
    process->agent_bytes = cursor_varint(cursor);
    process->thread_starts = cursor_varint(cursor);
    process->samples = cursor_varint(cursor);
    process->cost_ns = cursor_varint(cursor);
    process->merged_into = flags & PROCESS_MERGED ? cursor_varint32(cursor) : PROFILE_NOT_MERGED;
    if (flags & PROCESS_HAS_COMMAND)
        return take_command(loader, cursor, &process->command);
    return !cursor->failed;
}

bool loader_module_of(struct loader *loader, struct cursor *cursor, place_t *place)
{
    uint64_t told = cursor_varint(cursor);
    if (told > MODULE_LIMIT)
        return false;
    // Marks that there is a place: its offset is filled in by the next column.
    *place = told ? place_make((unsigned)told - 1, PLACE_OFFSET_UNKNOWN) : 0;
    if (told && told - 1 > loader->top_module)
        loader->top_module = (unsigned)told - 1;
    return true;
}

static bool take_stats(struct cursor *cursor, struct live_stats *stats, struct profile_hot *hot)
{
    uint64_t made_up = 0;
    *stats = (struct live_stats){0};
    *hot = (struct profile_hot){0};
    uint64_t *const sums[STATS_SUMS] = {
        &stats->samples,       &stats->lost,       &stats->unplaced, &stats->frames_stack,
        &stats->frames_walked, &stats->handler_ns, &stats->cost_ns,  &stats->residue_ns,
        &stats->purged,        &hot->counters,     &hot->floor,      &made_up,
        &stats->waits,         &stats->sparse,     &stats->switches, &stats->hook_samples,
        &stats->hook_ns,
    };
    // A later minor version may have more fields; unknown ones are skipped.
    uint64_t count = cursor_varint(cursor);
    for (uint64_t i = 0; i < count && !cursor->failed; i++) {
        uint64_t value = cursor_varint(cursor);
        if (i < STATS_SUMS)
            *sums[i] = value;
    }
    hot->made_up = unzigzag(made_up);
    count = cursor_varint(cursor);
    for (uint64_t i = 0; i < count && !cursor->failed; i++) {
        uint64_t value = cursor_varint(cursor);
        if (i < VERDICT_COUNT)
            stats->verdicts[i] = value;
    }
    count = cursor_varint(cursor);
    for (uint64_t i = 0; i < count && !cursor->failed; i++) {
        uint64_t bucket = cursor_varint(cursor);
        uint32_t value = cursor_varint32(cursor);
        if (bucket < LIVE_HANDLER_BUCKETS)
            stats->handler_histogram[bucket] = value;
    }
    return !cursor->failed;
}

static bool take_tree(struct loader *loader, struct cursor *cursor)
{
    uint32_t index = cursor_varint32(cursor), process = cursor_varint32(cursor);
    if (cursor->failed || !has_process(loader, process) || !loader_has_tree(loader, index))
        return false;
    struct profile_tree *tree = &loader->profile->trees[index];
    tree->process = process;
    tree->tid = cursor_varint32(cursor);
    if (!loader_module_of(loader, cursor, &tree->start))
        return false;
    if (tree->start)
        tree->start = place_make(place_module(tree->start), cursor_varint(cursor));
    tree->threads = cursor_varint(cursor);
    return take_stats(cursor, &tree->stats, &tree->hot);
}

// A text about a tree, into the array of `bytes` bytes that lies `offset` into the tree.
static bool take_tree_text(struct loader *loader, struct cursor *cursor, size_t offset,
                           size_t bytes)
{
    uint32_t index = cursor_varint32(cursor);
    char *text = NULL;
    if (cursor->failed || !loader_has_tree(loader, index) ||
        !loader_take_text(loader, cursor, &text))
        return false;
    char *into = (char *)&loader->profile->trees[index] + offset;
    strncpy(into, text, bytes - 1);
    free(text);
    return true;
}

// The phase that a tree is of.
static bool take_phase(struct loader *loader, struct cursor *cursor)
{
    return take_tree_text(loader, cursor, offsetof(struct profile_tree, phase),
                          PROFILE_PHASE_BYTES);
}

// The name of a tree's threads.
static bool take_name(struct loader *loader, struct cursor *cursor)
{
    return take_tree_text(loader, cursor, offsetof(struct profile_tree, name), THREAD_NAME_BYTES);
}

// Reads counters of a process.
static bool take_numbers(struct cursor *cursor, uint64_t *numbers, unsigned known)
{
    uint64_t count = cursor_varint(cursor);
    for (uint64_t i = 0; i < count && !cursor->failed; i++) {
        uint64_t value = cursor_varint(cursor);
        if (i < known)
            numbers[i] = value;
    }
    return !cursor->failed;
}

static bool take_encoding(struct loader *loader, struct cursor *cursor)
{
    uint32_t index = cursor_varint32(cursor);
    return !cursor->failed && has_process(loader, index) &&
           take_numbers(cursor, (uint64_t *)&loader->profile->processes[index].encode,
                        ENCODE_NUMBERS);
}

static bool take_allocations(struct loader *loader, struct cursor *cursor)
{
    uint32_t index = cursor_varint32(cursor);
    return !cursor->failed && has_process(loader, index) &&
           take_numbers(cursor, (uint64_t *)&loader->profile->processes[index].alloc,
                        ALLOC_NUMBERS);
}

// A hot or bounded tree is read from its root on again.
static bool take_anew(struct loader *loader, struct cursor *cursor)
{
    uint32_t index = cursor_varint32(cursor);
    if (cursor->failed || !loader_has_tree(loader, index))
        return false;
    loader_forget_nodes(loader, &loader->profile->trees[index]);
    return true;
}

static bool take_note(struct loader *loader, struct cursor *cursor)
{
    struct profile *profile = loader->profile;
    char *note = NULL;
    if (!loader_take_text(loader, cursor, &note))
        return false;
    if (!loader_grow(loader, &profile->notes, profile->note_count, profile->note_count + 1u,
                     sizeof note)) {
        free(note);
        return false;
    }
    profile->notes[profile->note_count++] = note;
    return true;
}

static bool take_state(struct loader *loader, struct cursor *cursor)
{
    uint64_t duration = cursor_varint(cursor), complete = cursor_varint(cursor);
    if (cursor->failed)
        return false;
    loader->profile->duration_ns = duration;
    loader->profile->complete = complete != 0;
    return true;
}

// Reads the state of the kernel's recording, or one of its functions.
static bool take_kernel(struct loader *loader, struct cursor *cursor)
{
    struct profile *profile = loader->profile;
    const uint64_t kind = cursor_varint(cursor);
    if (cursor->failed || kind > KERNEL_FUNCTION)
        return false;
    if (kind == KERNEL_STATE)
        return loader_take_text(loader, cursor, &profile->kernel);
    const uint64_t module = cursor_varint(cursor), offset = cursor_varint(cursor);
    const uint64_t bytes = cursor_varint(cursor);
    struct profile_function function = {.begin = place_make((unsigned)module, offset),
                                        .bytes = bytes};
    if (cursor->failed || module >= MODULE_LIMIT || offset >= PLACE_OFFSET_UNKNOWN ||
        bytes > PLACE_OFFSET_UNKNOWN - offset || !loader_take_text(loader, cursor, &function.name))
        return false;
    if (!loader_grow(loader, &profile->functions, profile->function_count,
                     profile->function_count + 1u, sizeof function)) {
        free(function.name);
        return false;
    }
    profile->functions[profile->function_count++] = function;
    return true;
}

static bool take_overhead(struct loader *loader, struct cursor *cursor)
{
    uint64_t tick_ns = cursor_varint(cursor), switch_ns = cursor_varint(cursor);
    if (cursor->failed)
        return false;
    loader->profile->overhead = (struct profile_overhead){tick_ns, switch_ns};
    return true;
}

static bool take_runs(struct loader *loader, struct cursor *cursor)
{
    uint64_t metric = cursor_varint(cursor), runs = cursor_varint(cursor);
    if (cursor->failed)
        return false;
    if (metric < loader->profile->metric_count)
        loader->profile->metrics[metric].runs = runs;
    return true;
}

static bool take_blame(struct loader *loader, struct cursor *cursor)
{
    struct profile *profile = loader->profile;
    struct profile_blame blame;
    blame.waiter.tree = cursor_varint32(cursor);
    blame.waiter.node = cursor_varint32(cursor);
    blame.holder.tree = cursor_varint32(cursor);
    blame.holder.node = cursor_varint32(cursor);
    blame.ns = cursor_varint(cursor);
    blame.waits = cursor_varint(cursor);
    if (cursor->failed || !loader_has_tree(loader, blame.waiter.tree) ||
        !loader_has_tree(loader, blame.holder.tree) ||
        !loader_grow(loader, &profile->blames, profile->blame_count, profile->blame_count + 1u,
                     sizeof blame))
        return false;
    profile->blames[profile->blame_count++] = blame;
    return true;
}

// A rank, made if a gap can be explained by what was lost.
static struct profile_rank *known_rank(struct loader *loader, uint32_t index)
{
    struct profile *profile = loader->profile;
    if (index < profile->rank_count)
        return &profile->ranks[index];
    if (!loader_may_fill(loader, index - profile->rank_count, 1) ||
        !loader_grow(loader, &profile->ranks, profile->rank_count, (size_t)index + 1,
                     sizeof *profile->ranks))
        return NULL;
    profile->rank_count = index + 1;
    return &profile->ranks[index];
}

// If a part before was lost, the rest cannot be told apart.
static bool take_rank_costs(struct loader *loader, struct cursor *cursor, struct profile_rank *rank)
{
    const uint64_t offset = cursor_varint(cursor), size = cursor_varint(cursor);
    const uint8_t *bytes = cursor->failed ? NULL : cursor_bytes(cursor, size);
    if (!bytes || offset != rank->bytes ||
        !loader_grow(loader, &rank->costs, rank->bytes, rank->bytes + size, 1))
        return false;
    if (size)
        memcpy(rank->costs + rank->bytes, bytes, size);
    rank->bytes += size;
    return true;
}

static bool take_rank(struct loader *loader, struct cursor *cursor)
{
    const uint64_t kind = cursor_varint(cursor);
    const uint32_t index = cursor_varint32(cursor);
    struct profile_rank *rank =
        cursor->failed || kind > RANK_COSTS ? NULL : known_rank(loader, index);
    if (!rank)
        return false;
    if (kind == RANK_COSTS)
        return take_rank_costs(loader, cursor, rank);
    if (!loader_take_text(loader, cursor, &rank->name))
        return false;
    rank->metrics = cursor_varint(cursor);
    return !cursor->failed;
}

bool loader_take(struct loader *loader, struct chunk *chunk)
{
    static bool (*const takers[CHUNK_TYPES])(struct loader *, struct cursor *) = {
        [CHUNK_SESSION] = take_session,    [CHUNK_MODULES] = take_module,
        [CHUNK_PROCESSES] = take_process,  [CHUNK_TREES] = take_tree,
        [CHUNK_NODES] = loader_take_nodes, [CHUNK_VALUES] = loader_take_values,
        [CHUNK_NOTES] = take_note,         [CHUNK_STATE] = take_state,
        [CHUNK_RUNS] = take_runs,          [CHUNK_OVERHEAD] = take_overhead,
        [CHUNK_ANEW] = take_anew,          [CHUNK_PHASES] = take_phase,
        [CHUNK_ENCODINGS] = take_encoding, [CHUNK_ALLOCATIONS] = take_allocations,
        [CHUNK_CONTEXTS] = contexts_take,  [CHUNK_KERNEL] = take_kernel,
        [CHUNK_NAMES] = take_name,         [CHUNK_CREATIONS] = creations_take,
        [CHUNK_TIMELINE] = timeline_take,  [CHUNK_PLACES] = place_names_take,
        [CHUNK_BLAMES] = take_blame,       [CHUNK_RANKS] = take_rank,
    };
    if (chunk->type >= CHUNK_TYPES || !takers[chunk->type])
        return true;
    while (cursor_left(&chunk->payload) > 0)
        if (!takers[chunk->type](loader, &chunk->payload))
            return false;
    return true;
}
