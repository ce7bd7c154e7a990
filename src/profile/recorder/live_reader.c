// SPDX-License-Identifier: MIT
#include "base/now.h"
#include "profile/loader.h"
#include "profile/recorder/live_reader_state.h"
#include "profile/recorder/process_time.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_COMMAND_BYTES = 1 << 20,
    MOST_NOTE_BYTES = 1000,
};

struct live_reader *live_reader_new(const void *memory, uint64_t bytes)
{
    struct live_reader *reader = calloc(1, sizeof *reader);
    if (!reader)
        return NULL;
    reader->memory = memory;
    reader->bytes = bytes;
    // Only ever read: the arena's functions for readers take it as const.
    reader->arena.base = (unsigned char *)(uintptr_t)memory;
    return reader;
}

static void free_command(struct profile_process *process)
{
    for (char **word = process->command; word && *word; word++)
        free(*word);
    free(process->command);
}

void live_reader_free(struct live_reader *reader)
{
    if (!reader)
        return;
    for (unsigned i = 0; i < reader->tree_count; i++)
        live_tree_free(&reader->trees[i]);
    free(reader->trees);
    free(reader->module_map);
    free(reader->contexts.modules);
    free(reader->creations);
    free(reader->blames);
    free_command(&reader->written);
    free(reader);
}

void live_reader_renumber(struct live_reader *reader, const uint32_t *tree_map)
{
    for (unsigned i = 0; i < reader->tree_count; i++)
        if (reader->trees[i].index != LIVE_TREE_UNWRITTEN)
            reader->trees[i].index = tree_map[reader->trees[i].index];
}

bool live_reader_ready(const struct live_reader *reader, uint32_t *pid)
{
    const struct live_process *process = live_process_of(reader);
    if (reader->bytes < sizeof *process)
        return false;
    // The agent writes, we read. Acquire pairs with its release: the fields below are readable.
    uint32_t state = atomic_load_explicit(&process->state, memory_order_acquire);
    *pid = __atomic_load_n(&process->pid, __ATOMIC_RELAXED);
    return state == LIVE_RUNNING || state == LIVE_ENDED;
}

size_t live_new_in_list(struct live_reader *reader, ref_t head, ref_t known, ref_t **refs)
{
    size_t count = 0;
    *refs = NULL;
    for (ref_t at = head; at != known; count++) {
        const ref_t *next = live_record_at(reader, at, sizeof *next); // every record begins with it
        if (!next || count == LIVE_MOST_LISTED ||
            !profile_grow((void **)refs, count, count + 1, sizeof **refs)) {
            reader->damaged = true;
            free(*refs);
            *refs = NULL;
            return 0;
        }
        (*refs)[count] = at;
        at = __atomic_load_n(next, __ATOMIC_RELAXED);
    }
    for (size_t i = 0; i < count / 2; i++) {
        ref_t other = (*refs)[count - 1 - i];
        (*refs)[count - 1 - i] = (*refs)[i];
        (*refs)[i] = other;
    }
    return count;
}

static void read_notes(struct live_reader *reader)
{
    ref_t head = atomic_load_explicit(&live_process_of(reader)->notes, memory_order_acquire);
    ref_t *refs;
    size_t count = live_new_in_list(reader, head, reader->notes, &refs);
    for (size_t i = 0; i < count; i++) {
        const struct live_note *note = live_record_at(reader, refs[i], sizeof *note);
        uint32_t bytes = note ? __atomic_load_n(&note->bytes, __ATOMIC_RELAXED) : 0;
        if (note && bytes <= MOST_NOTE_BYTES &&
            live_record_at(reader, refs[i], sizeof *note + bytes))
            reader->sink->note(reader->sink->note_context, note->text, bytes);
        else
            reader->damaged = true;
    }
    reader->notes = head;
    free(refs);
}

static void read_reaped(struct live_reader *reader)
{
    const struct live_process *process = live_process_of(reader);
    const uint32_t pid = __atomic_load_n(&process->pid, __ATOMIC_RELAXED);
    ref_t head = atomic_load_explicit(&process->reaped, memory_order_acquire);
    ref_t *refs;
    size_t count = live_new_in_list(reader, head, reader->reaped, &refs);
    for (size_t i = 0; i < count; i++) {
        const struct live_reaped *reaped = live_record_at(reader, refs[i], sizeof *reaped);
        if (reaped)
            reader->sink->reaped(reader->sink->note_context, pid,
                                 __atomic_load_n(&reaped->pid, __ATOMIC_RELAXED),
                                 __atomic_load_n(&reaped->cpu_ns, __ATOMIC_RELAXED));
        else
            reader->damaged = true;
    }
    reader->reaped = head;
    free(refs);
}

static void read_threads(struct live_reader *reader)
{
    ref_t head = atomic_load_explicit(&live_process_of(reader)->threads, memory_order_acquire);
    ref_t *refs;
    size_t count = live_new_in_list(reader, head, reader->threads, &refs);
    if (count && !profile_grow((void **)&reader->trees, reader->tree_count,
                               reader->tree_count + count, sizeof *reader->trees))
        count = 0;
    for (size_t i = 0; i < count; i++)
        reader->trees[reader->tree_count++] =
            (struct live_tree){.thread = refs[i], .index = LIVE_TREE_UNWRITTEN};
    reader->threads = head;
    free(refs);
}

static bool read_creation(struct live_reader *reader, const struct live_creations *creations)
{
    const uint32_t index = reader->creation_count;
    const ref_t ref =
        __atomic_load_n(&creations->blocks[index / LIVE_CREATION_BLOCK], __ATOMIC_RELAXED);
    const struct live_creation_step *block =
        live_record_at(reader, ref, LIVE_CREATION_BLOCK * sizeof *block);
    if (!block || !profile_grow((void **)&reader->creations, index, index + (size_t)1,
                                sizeof *reader->creations))
        return false;
    const struct live_creation_step step = block[index % LIVE_CREATION_BLOCK];
    if (step.parent > index)
        return false;
    struct creation_table *table = &reader->sink->creations;
    const uint32_t known = table->count;
    struct profile_creation creation = {
        .parent = step.parent ? reader->creations[step.parent - 1] - 1 : PROFILE_NO_PARENT,
        .site = step.site ? live_map_place(reader, step.site) : 0,
        .function = step.level      ? 0
                    : step.function ? live_map_place(reader, step.function)
                                    : LOST_FUNCTION,
    };
    const uint32_t number = creation_table_add(table, &creation);
    if (number == UINT32_MAX)
        return false;
    if (number == known)
        creations_put_step(reader->sink->batch, number, &creation);
    reader->creations[reader->creation_count++] = number + 1;
    return true;
}

// Asked for when a tree names one that was not met yet: it was there before the tree was.
static uint32_t map_creator(void *context, uint32_t number)
{
    struct live_reader *reader = context;
    const struct live_creations *creations = &live_process_of(reader)->creations;
    uint32_t count = atomic_load_explicit(&creations->count, memory_order_acquire);
    if (count > LIVE_CREATION_STEPS)
        count = 0;
    while (reader->creation_count < count && read_creation(reader, creations))
        ;
    return number - 1 < reader->creation_count ? reader->creations[number - 1] : 0;
}

// Nothing, unless the program has asked for one.
static bool read_contexts(struct live_reader *reader, uint32_t index)
{
    const struct live_contexts *contexts = &live_process_of(reader)->contexts;
    struct live_contexts_state state = {.contexts = contexts,
                                        .arena = &reader->arena,
                                        .bytes = reader->bytes,
                                        .modules = reader->module_map,
                                        .module_count = reader->module_count};
    if (!atomic_load_explicit(&contexts->asked, memory_order_relaxed))
        return false;
    state.ready = live_contexts_ready(&reader->contexts, contexts, &reader->arena, reader->bytes);
    const ref_t head = atomic_load_explicit(&contexts->sections, memory_order_acquire);
    ref_t *refs;
    state.section_count = live_new_in_list(reader, head, reader->contexts.sections, &refs);
    state.sections = refs;
    live_modules_read(reader); // that were met after the list was read
    state.modules = reader->module_map;
    state.module_count = reader->module_count;
    const bool any = live_contexts_update(&reader->contexts, &state, reader->sink->batch, index);
    reader->contexts.sections = head;
    free(refs);
    return any;
}

static void read_command(struct live_reader *reader)
{
    const struct live_process *process = live_process_of(reader);
    ref_t ref = __atomic_load_n(&process->command, __ATOMIC_RELAXED);
    uint32_t bytes = __atomic_load_n(&process->command_bytes, __ATOMIC_RELAXED);
    const char *text = bytes <= MOST_COMMAND_BYTES ? live_record_at(reader, ref, bytes) : NULL;
    char *copy = text ? malloc(bytes + (size_t)1) : NULL;
    size_t words = 0;
    if (copy) {
        memcpy(copy, text, bytes);
        copy[bytes] = '\0';
        for (size_t at = 0; at < bytes; at += strlen(copy + at) + 1)
            words++;
    }
    reader->written.command = calloc(words + 1, sizeof *reader->written.command);
    size_t at = 0;
    for (size_t i = 0; reader->written.command && i < words; i++) {
        reader->written.command[i] = strdup(copy + at);
        at += strlen(copy + at) + 1;
    }
    free(copy);
}

static void add_to_totals(struct recorder_totals *totals, const struct profile_process *now,
                          const struct profile_process *before, bool is_new)
{
    totals->processes += is_new;
    totals->threads += (unsigned)(now->thread_starts - before->thread_starts);
    totals->tree_bytes += now->tree_bytes - before->tree_bytes;
    totals->live_bytes += now->alloc.live - before->alloc.live;
    totals->unheld += now->alloc.unheld - before->alloc.unheld;
    if (now->alloc.peak > totals->peak_bytes)
        totals->peak_bytes = now->alloc.peak;
}

static bool same_process(const struct profile_process *a, const struct profile_process *b)
{
    return a->pid == b->pid && a->parent_pid == b->parent_pid && a->forked == b->forked &&
           a->ended == b->ended && a->start_ns == b->start_ns && a->end_ns == b->end_ns &&
           a->exclude_kernel == b->exclude_kernel && a->tree_bytes == b->tree_bytes &&
           a->agent_bytes == b->agent_bytes && a->thread_starts == b->thread_starts &&
           a->samples == b->samples && a->cost_ns == b->cost_ns &&
           memcmp(&a->encode, &b->encode, sizeof a->encode) == 0 &&
           memcmp(&a->alloc, &b->alloc, sizeof a->alloc) == 0;
}

static struct profile_alloc describe_blocks(const struct live_alloc *alloc)
{
    return (struct profile_alloc){
        .live = atomic_load_explicit(&alloc->live, memory_order_relaxed),
        .peak = atomic_load_explicit(&alloc->peak, memory_order_relaxed),
        .unheld = atomic_load_explicit(&alloc->unheld, memory_order_relaxed),
        .unheld_bytes = atomic_load_explicit(&alloc->unheld_bytes, memory_order_relaxed),
        .unknown = atomic_load_explicit(&alloc->unknown, memory_order_relaxed),
        .rootless = atomic_load_explicit(&alloc->rootless, memory_order_relaxed),
        .verified = atomic_load_explicit(&alloc->verified, memory_order_relaxed),
        .mismatches = atomic_load_explicit(&alloc->mismatches, memory_order_relaxed),
    };
}

static struct profile_process metrics_describe(const struct live_reader *reader,
                                               enum live_presence presence)
{
    const struct live_process *process = live_process_of(reader);
    uint64_t used = atomic_load_explicit(&process->arena.used, memory_order_relaxed);
    const uint64_t reserved =
        live_contexts_reserved(&process->contexts, &reader->arena, reader->bytes);
    used = used > reserved ? used - reserved : used;
    struct profile_process now = {
        .pid = __atomic_load_n(&process->pid, __ATOMIC_RELAXED),
        .parent_pid = __atomic_load_n(&process->parent_pid, __ATOMIC_RELAXED),
        .forked = __atomic_load_n(&process->forked, __ATOMIC_RELAXED) != 0,
        .exclude_kernel = __atomic_load_n(&process->exclude_kernel, __ATOMIC_RELAXED) != 0,
        .start_ns = __atomic_load_n(&process->start_ns, __ATOMIC_RELAXED),
        .end_ns = atomic_load_explicit(&process->end_ns, memory_order_relaxed),
        .tree_bytes = used < reader->bytes ? used : reader->bytes,
        .agent_bytes = atomic_load_explicit(&process->agent_bytes, memory_order_relaxed),
        .thread_starts = atomic_load_explicit(&process->thread_starts, memory_order_relaxed),
        .merged_into = PROFILE_NOT_MERGED,
        .encode = process->encode,
        .alloc = describe_blocks(&process->alloc),
        .command = reader->written.command,
    };
    uint32_t state = atomic_load_explicit(&process->state, memory_order_relaxed);
    now.ended = state == LIVE_ENDED || presence == PROCESS_IS_GONE;
    if (presence == PROCESS_IS_GONE && now.end_ns == 0)
        now.end_ns = reader->written.end_ns ? reader->written.end_ns : now_ns(CLOCK_MONOTONIC);
    for (unsigned i = 0; i < reader->tree_count; i++) {
        now.samples += reader->trees[i].stats.samples;
        now.cost_ns += reader->trees[i].stats.cost_ns;
    }
    now.cost_ns += reader->outside_ns;
    return now;
}

static void put_outside(struct live_reader *reader, struct process_time *time)
{
    if (!time->ns || !reader->sink->times)
        return;
    time->pid = __atomic_load_n(&live_process_of(reader)->pid, __ATOMIC_RELAXED);
    process_time_encode(time, reader->sink);
    reader->outside_ns += time->ns;
}

static void put_startup(struct live_reader *reader, uint32_t index)
{
    struct live_sink *sink = reader->sink;
    struct process_time time = {
        .process = index,
        .what = PLACE_STARTUP,
        .ns = __atomic_load_n(&live_process_of(reader)->startup_ns, __ATOMIC_RELAXED),
    };
    const uint32_t pid = __atomic_load_n(&live_process_of(reader)->pid, __ATOMIC_RELAXED);
    struct startup_samples samples = {0};
    if (sink->startup && sink->startup(sink->startup_context, pid, &samples)) {
        for (size_t i = 0; i < samples.count; i++)
            samples.addresses[i] = live_place_of(reader, samples.addresses[i]);
        time.samples = samples.addresses;
        time.count = samples.count;
        time.period_ns = samples.period_ns;
    }
    put_outside(reader, &time);
    free(samples.addresses);
}

static bool put_process(struct live_reader *reader, uint32_t index, enum live_presence presence)
{
    struct live_sink *sink = reader->sink;
    if (!reader->is_written) {
        read_command(reader);
        put_startup(reader, index);
    }
    struct profile_process now = metrics_describe(reader, presence);
    if (reader->is_written && same_process(&now, &reader->written))
        return false;
    if (reader->is_written)
        write_process_again(sink->batch, index, &now);
    else
        write_process(sink->batch, index, &now);
    add_to_totals(sink->totals, &now, &reader->written, !reader->is_written);
    reader->written = now;
    reader->is_written = true;
    uint32_t source = __atomic_load_n(&live_process_of(reader)->source, __ATOMIC_RELAXED);
    if (sink->source == LIVE_SOURCE_AUTO)
        sink->source = source;
    return true;
}

static void note_damage(struct live_reader *reader)
{
    for (unsigned i = 0; i < reader->tree_count; i++)
        reader->damaged |= reader->trees[i].damaged || reader->trees[i].timeline.damaged;
    if (!reader->damaged || reader->damage_noted)
        return;
    reader->damage_noted = true;
    char text[160];
    int length = snprintf(text, sizeof text,
                          "process %u wrote over the profiler's memory: what came after is missing",
                          reader->written.pid);
    reader->sink->note(reader->sink->note_context, text, (size_t)length);
}

bool live_reader_update(struct live_reader *reader, uint32_t index, uint64_t bytes,
                        enum live_presence presence, struct live_sink *sink)
{
    // Not what is used now: the process may use more while we read.
    uint64_t limit = __atomic_load_n(&live_process_of(reader)->arena.limit, __ATOMIC_RELAXED);
    reader->bytes = limit < bytes ? limit : bytes;
    if (reader->over || reader->bytes < sizeof(struct live_process))
        return false;
    reader->sink = sink;
    live_modules_read(reader);
    read_threads(reader);
    read_notes(reader);
    read_reaped(reader);
    live_names_read(reader);
    const struct tree_source source = {
        .arena = &reader->arena,
        .bytes = reader->bytes,
        .process = index,
        .presence = presence,
        .mapper = {live_map_place, map_creator, reader},
    };
    sink->peak_stamp =
        atomic_load_explicit(&live_process_of(reader)->alloc.stamp, memory_order_relaxed);
    bool changed = false;
    for (unsigned i = 0; i < reader->tree_count; i++)
        changed |= live_tree_update(&reader->trees[i], &source, sink);
    changed |= put_process(reader, index, presence);
    changed |= read_contexts(reader, index);
    changed |= live_blames_read(reader);
    note_damage(reader);
    reader->sink = NULL;
    return changed;
}

bool live_reader_awaits_end(const struct live_reader *reader)
{
    const struct live_process *process = live_process_of(reader);
    return !reader->over && atomic_load_explicit(&process->end_ns, memory_order_acquire) &&
           __atomic_load_n(&process->goodbye.cpu_ns, __ATOMIC_RELAXED);
}

uint32_t live_reader_parent(const struct live_reader *reader)
{
    return reader->written.parent_pid;
}

bool live_reader_end(struct live_reader *reader, uint32_t index, uint64_t cpu_ns,
                     struct live_sink *sink)
{
    const struct live_process *process = live_process_of(reader);
    if (!live_reader_awaits_end(reader) || reader->damaged)
        return false;
    const struct live_goodbye said = process->goodbye; // its writer is gone
    uint64_t sampled = reader->written.cost_ns - reader->outside_ns;
    for (unsigned i = 0; i < reader->tree_count; i++)
        sampled += reader->trees[i].stats.hook_ns;
    const uint64_t later = sampled - said.cost_ns; // in destructors
    if (later > sampled || cpu_ns < said.children_ns ||
        cpu_ns - said.children_ns <= said.cpu_ns + later)
        return false;
    struct process_time rest = {
        .process = index,
        .what = PLACE_EXIT,
        .ns = cpu_ns - said.children_ns - said.cpu_ns - later,
    };
    reader->sink = sink;
    put_outside(reader, &rest);
    put_process(reader, index, PROCESS_IS_GONE);
    reader->sink = NULL;
    reader->over = true;
    return true;
}
