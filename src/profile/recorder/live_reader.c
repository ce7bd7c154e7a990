// SPDX-License-Identifier: MIT
#include "profile/recorder/live_reader.h"
#include "base/now.h"
#include "profile/loader.h"
#include "profile/recorder/kernel_symbols.h"
#include "profile/recorder/live_contexts.h"
#include "profile/recorder/live_tree.h"
#include "profile/recorder/process_time.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_LISTED = 1 << 20, // a longer list bites its own tail
    MOST_COMMAND_BYTES = 1 << 20,
    MOST_PATH_BYTES = 4096,
    MOST_NOTE_BYTES = 1000,
};

// That all addresses of the kernel have, and places have not.
#define KERNEL_BITS (~PLACE_OFFSET_UNKNOWN)

struct live_reader {
    const uint8_t *memory;
    struct arena arena;
    uint64_t bytes;                        // of the slice that may be touched
    ref_t modules, notes, threads, reaped; // heads of the lists as they were
    uint16_t *module_map; // from the process's modules to the profile's; 0: not known
    unsigned module_count;
    unsigned kernel; // the profile's module for it; 0: not met yet
    struct live_tree *trees;
    unsigned tree_count;
    struct live_contexts_told contexts;
    uint32_t *creations; // from the process' steps (number - 1) to the profile's, as a creator
    uint32_t creation_count;
    struct profile_process told;
    bool is_told;
    bool damaged; // a list or a tree made no sense
    bool damage_noted;
    bool over;              // its end is written: nothing comes after that
    uint64_t outside_ns;    // of its CPU time: start-up and exit, as written
    struct live_sink *sink; // of the update that runs
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
    free_command(&reader->told);
    free(reader);
}

void live_reader_renumber(struct live_reader *reader, const uint32_t *tree_map)
{
    for (unsigned i = 0; i < reader->tree_count; i++)
        if (reader->trees[i].index != LIVE_TREE_UNWRITTEN)
            reader->trees[i].index = tree_map[reader->trees[i].index];
}

static const struct live_process *process_of(const struct live_reader *reader)
{
    return (const struct live_process *)reader->memory;
}

bool live_reader_ready(const struct live_reader *reader, uint32_t *pid)
{
    const struct live_process *process = process_of(reader);
    if (reader->bytes < sizeof *process)
        return false;
    // The agent writes, we read. Acquire pairs with its release: the fields below are readable.
    uint32_t state = atomic_load_explicit(&process->state, memory_order_acquire);
    *pid = __atomic_load_n(&process->pid, __ATOMIC_RELAXED);
    return state == LIVE_RUNNING || state == LIVE_ENDED;
}

// A record of the slice, or NULL if it does not lie in there as a whole.
static const void *record_at(const struct live_reader *reader, ref_t ref, uint64_t bytes)
{
    return ref != 0 && (uint64_t)ref * 8 + bytes <= reader->bytes ? arena_at(&reader->arena, ref)
                                                                  : NULL;
}

// The records that were pushed onto a list since its head was `known`, oldest first. The number of
// them.
static size_t new_in_list(struct live_reader *reader, ref_t head, ref_t known, ref_t **refs)
{
    size_t count = 0;
    *refs = NULL;
    for (ref_t at = head; at != known; count++) {
        const ref_t *next = record_at(reader, at, sizeof *next); // every record begins with it
        if (!next || count == MOST_LISTED ||
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

static void learn_vdso(struct live_sink *sink, const struct live_module *module,
                       unsigned build_id_bytes)
{
    struct profile_module *vdso = &sink->modules->modules[MODULE_VDSO];
    if (vdso->path)
        return;
    vdso->path = strdup("[vdso]");
    memcpy(vdso->build_id, module->build_id, build_id_bytes);
    vdso->build_id_bytes = build_id_bytes;
    write_module(sink->batch, MODULE_VDSO, vdso);
}

static void read_module(struct live_reader *reader, ref_t ref)
{
    const struct live_module *module = record_at(reader, ref, sizeof *module);
    if (!module)
        return;
    uint32_t id = __atomic_load_n(&module->id, __ATOMIC_RELAXED);
    uint32_t build_id_bytes = __atomic_load_n(&module->build_id_bytes, __ATOMIC_RELAXED);
    uint32_t path_bytes = __atomic_load_n(&module->path_bytes, __ATOMIC_RELAXED);
    if (id >= MODULE_LIMIT || build_id_bytes > sizeof module->build_id ||
        path_bytes > MOST_PATH_BYTES || !record_at(reader, ref, sizeof *module + path_bytes)) {
        reader->damaged = true;
        return;
    }
    if (id == MODULE_VDSO)
        learn_vdso(reader->sink, module, build_id_bytes);
    if (id < MODULE_FIRST_FILE)
        return;
    char path[MOST_PATH_BYTES]; // a copy that does not change while it is looked at
    memcpy(path, module->path, path_bytes);
    uint8_t build_id[sizeof module->build_id];
    memcpy(build_id, module->build_id, sizeof build_id);
    if (id >= reader->module_count) {
        if (!profile_grow((void **)&reader->module_map, reader->module_count, id + (size_t)1,
                          sizeof *reader->module_map))
            return;
        reader->module_count = id + 1;
    }
    reader->module_map[id] = (uint16_t)module_table_id(reader->sink->modules, path, path_bytes,
                                                       build_id, build_id_bytes);
}

static void read_modules(struct live_reader *reader)
{
    // The agent pushes with release: behind a head that we acquire, all records are whole.
    ref_t head = atomic_load_explicit(&process_of(reader)->modules, memory_order_acquire);
    ref_t *refs;
    size_t count = new_in_list(reader, head, reader->modules, &refs);
    for (size_t i = 0; i < count; i++)
        read_module(reader, refs[i]);
    reader->modules = head;
    free(refs);
}

// Addresses of the kernel are others after each boot.
static unsigned kernel_module(struct module_table *modules)
{
    uint8_t boot[16] = {0};
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    for (unsigned i = 0; file && i < sizeof boot; i++) {
        unsigned value = 0;
        if (fscanf(file, "%*[-]") == EOF || fscanf(file, "%2x", &value) != 1)
            break;
        boot[i] = (uint8_t)value;
    }
    if (file)
        fclose(file);
    return module_table_id(modules, PLACE_KERNEL, strlen(PLACE_KERNEL), boot, sizeof boot);
}

// The name of a function of the kernel is written when its first address is met.
static place_t kernel_place(struct live_reader *reader, uint64_t offset)
{
    struct live_sink *sink = reader->sink;
    if (!reader->kernel)
        reader->kernel = kernel_module(sink->modules);
    if (offset >= PLACE_CALLS && offset != PLACE_OFFSET_UNKNOWN) {
        if (!sink->kernel_asked)
            sink->kernel = kernel_symbols_open();
        sink->kernel_asked = true;
        struct kernel_symbol *symbol =
            sink->kernel ? kernel_symbols_find(sink->kernel, offset | KERNEL_BITS) : NULL;
        if (symbol && !symbol->told)
            write_function(sink->batch, &(struct profile_function){
                                            .begin = place_make(reader->kernel, symbol->begin),
                                            .bytes = symbol->end - symbol->begin,
                                            .name = (char *)symbol->name});
        if (symbol)
            symbol->told = true;
    }
    return place_make(reader->kernel, offset);
}

static place_t map_place(void *context, place_t place)
{
    struct live_reader *reader = context;
    unsigned module = place_module(place);
    if (module < MODULE_FIRST_FILE)
        return place;
    if (module == MODULE_KERNEL)
        return kernel_place(reader, place_offset(place));
    if (module >= reader->module_count || !reader->module_map[module])
        read_modules(reader); // met after the list was read
    if (module >= reader->module_count || !reader->module_map[module])
        return LOST_FUNCTION;
    return place_make(reader->module_map[module], place_offset(place));
}

static void read_notes(struct live_reader *reader)
{
    ref_t head = atomic_load_explicit(&process_of(reader)->notes, memory_order_acquire);
    ref_t *refs;
    size_t count = new_in_list(reader, head, reader->notes, &refs);
    for (size_t i = 0; i < count; i++) {
        const struct live_note *note = record_at(reader, refs[i], sizeof *note);
        uint32_t bytes = note ? __atomic_load_n(&note->bytes, __ATOMIC_RELAXED) : 0;
        if (note && bytes <= MOST_NOTE_BYTES && record_at(reader, refs[i], sizeof *note + bytes))
            reader->sink->note(reader->sink->note_context, note->text, bytes);
        else
            reader->damaged = true;
    }
    reader->notes = head;
    free(refs);
}

static void read_reaped(struct live_reader *reader)
{
    const struct live_process *process = process_of(reader);
    const uint32_t pid = __atomic_load_n(&process->pid, __ATOMIC_RELAXED);
    ref_t head = atomic_load_explicit(&process->reaped, memory_order_acquire);
    ref_t *refs;
    size_t count = new_in_list(reader, head, reader->reaped, &refs);
    for (size_t i = 0; i < count; i++) {
        const struct live_reaped *reaped = record_at(reader, refs[i], sizeof *reaped);
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
    ref_t head = atomic_load_explicit(&process_of(reader)->threads, memory_order_acquire);
    ref_t *refs;
    size_t count = new_in_list(reader, head, reader->threads, &refs);
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
        record_at(reader, ref, LIVE_CREATION_BLOCK * sizeof *block);
    if (!block || !profile_grow((void **)&reader->creations, index, index + (size_t)1,
                                sizeof *reader->creations))
        return false;
    const struct live_creation_step step = block[index % LIVE_CREATION_BLOCK];
    if (step.parent > index)
        return false;
    struct creation_table *table = &reader->sink->creations;
    const uint32_t known = table->count;
    struct profile_creation told = {
        .parent = step.parent ? reader->creations[step.parent - 1] - 1 : PROFILE_NO_PARENT,
        .site = step.site ? map_place(reader, step.site) : 0,
        .function = step.level      ? 0
                    : step.function ? map_place(reader, step.function)
                                    : LOST_FUNCTION,
    };
    const uint32_t number = creation_table_add(table, &told);
    if (number == UINT32_MAX)
        return false;
    if (number == known)
        creations_put_step(reader->sink->batch, number, &told);
    reader->creations[reader->creation_count++] = number + 1;
    return true;
}

// Asked for when a tree names one that was not met yet: it was there before the tree was.
static uint32_t map_creator(void *context, uint32_t number)
{
    struct live_reader *reader = context;
    const struct live_creations *creations = &process_of(reader)->creations;
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
    const struct live_contexts *contexts = &process_of(reader)->contexts;
    struct live_contexts_news news = {.contexts = contexts,
                                      .arena = &reader->arena,
                                      .bytes = reader->bytes,
                                      .modules = reader->module_map,
                                      .module_count = reader->module_count};
    if (!atomic_load_explicit(&contexts->asked, memory_order_relaxed))
        return false;
    news.ready = live_contexts_ready(&reader->contexts, contexts, &reader->arena, reader->bytes);
    const ref_t head = atomic_load_explicit(&contexts->sections, memory_order_acquire);
    ref_t *refs;
    news.section_count = new_in_list(reader, head, reader->contexts.sections, &refs);
    news.sections = refs;
    read_modules(reader); // that were met after the list was read
    news.modules = reader->module_map;
    news.module_count = reader->module_count;
    const bool any = live_contexts_update(&reader->contexts, &news, reader->sink->batch, index);
    reader->contexts.sections = head;
    free(refs);
    return any;
}

static void read_command(struct live_reader *reader)
{
    const struct live_process *process = process_of(reader);
    ref_t ref = __atomic_load_n(&process->command, __ATOMIC_RELAXED);
    uint32_t bytes = __atomic_load_n(&process->command_bytes, __ATOMIC_RELAXED);
    const char *text = bytes <= MOST_COMMAND_BYTES ? record_at(reader, ref, bytes) : NULL;
    char *copy = text ? malloc(bytes + (size_t)1) : NULL;
    size_t words = 0;
    if (copy) {
        memcpy(copy, text, bytes);
        copy[bytes] = '\0';
        for (size_t at = 0; at < bytes; at += strlen(copy + at) + 1)
            words++;
    }
    reader->told.command = calloc(words + 1, sizeof *reader->told.command);
    size_t at = 0;
    for (size_t i = 0; reader->told.command && i < words; i++) {
        reader->told.command[i] = strdup(copy + at);
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
    const struct live_process *process = process_of(reader);
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
        .command = reader->told.command,
    };
    uint32_t state = atomic_load_explicit(&process->state, memory_order_relaxed);
    now.ended = state == LIVE_ENDED || presence == PROCESS_IS_GONE;
    if (presence == PROCESS_IS_GONE && now.end_ns == 0)
        now.end_ns = reader->told.end_ns ? reader->told.end_ns : now_ns(CLOCK_MONOTONIC);
    for (unsigned i = 0; i < reader->tree_count; i++) {
        now.samples += reader->trees[i].stats.samples;
        now.cost_ns += reader->trees[i].stats.cost_ns;
    }
    now.cost_ns += reader->outside_ns;
    return now;
}

// The place of an address, by where modules lie now: those of the start-up have not moved.
static place_t place_of(struct live_reader *reader, uint64_t address)
{
    if (!address)
        return PLACE_STARTUP_KERNEL;
    ref_t ref = atomic_load_explicit(&process_of(reader)->modules, memory_order_acquire);
    const struct live_module *module;
    for (unsigned left = MOST_LISTED; left && (module = record_at(reader, ref, sizeof *module));
         left--) {
        const uint64_t base = __atomic_load_n(&module->base, __ATOMIC_RELAXED);
        if (address - base < __atomic_load_n(&module->bytes, __ATOMIC_RELAXED)) {
            const uint32_t id = __atomic_load_n(&module->id, __ATOMIC_RELAXED);
            return id < MODULE_LIMIT ? map_place(reader, place_make(id, address - base)) : 0;
        }
        ref = __atomic_load_n(&module->next, __ATOMIC_RELAXED);
    }
    return 0;
}

static void tell_outside(struct live_reader *reader, struct process_time *time)
{
    if (!time->ns || !reader->sink->times)
        return;
    time->pid = __atomic_load_n(&process_of(reader)->pid, __ATOMIC_RELAXED);
    process_time_encode(time, reader->sink);
    reader->outside_ns += time->ns;
}

static void tell_startup(struct live_reader *reader, uint32_t index)
{
    struct live_sink *sink = reader->sink;
    struct process_time time = {
        .process = index,
        .what = PLACE_STARTUP,
        .ns = __atomic_load_n(&process_of(reader)->startup_ns, __ATOMIC_RELAXED),
    };
    const uint32_t pid = __atomic_load_n(&process_of(reader)->pid, __ATOMIC_RELAXED);
    struct startup_samples samples = {0};
    if (sink->startup && sink->startup(sink->startup_context, pid, &samples)) {
        for (size_t i = 0; i < samples.count; i++)
            samples.addresses[i] = place_of(reader, samples.addresses[i]);
        time.samples = samples.addresses;
        time.count = samples.count;
        time.period_ns = samples.period_ns;
    }
    tell_outside(reader, &time);
    free(samples.addresses);
}

static bool tell_process(struct live_reader *reader, uint32_t index, enum live_presence presence)
{
    struct live_sink *sink = reader->sink;
    if (!reader->is_told) {
        read_command(reader);
        tell_startup(reader, index);
    }
    struct profile_process now = metrics_describe(reader, presence);
    if (reader->is_told && same_process(&now, &reader->told))
        return false;
    if (reader->is_told)
        write_process_again(sink->batch, index, &now);
    else
        write_process(sink->batch, index, &now);
    add_to_totals(sink->totals, &now, &reader->told, !reader->is_told);
    reader->told = now;
    reader->is_told = true;
    uint32_t source = __atomic_load_n(&process_of(reader)->source, __ATOMIC_RELAXED);
    if (sink->source == LIVE_SOURCE_AUTO)
        sink->source = source;
    return true;
}

static void note_damage(struct live_reader *reader)
{
    for (unsigned i = 0; i < reader->tree_count; i++)
        reader->damaged |= reader->trees[i].damaged;
    if (!reader->damaged || reader->damage_noted)
        return;
    reader->damage_noted = true;
    char text[160];
    int length = snprintf(text, sizeof text,
                          "process %u wrote over the profiler's memory: what came after is missing",
                          reader->told.pid);
    reader->sink->note(reader->sink->note_context, text, (size_t)length);
}

bool live_reader_update(struct live_reader *reader, uint32_t index, uint64_t bytes,
                        enum live_presence presence, struct live_sink *sink)
{
    // Not what is used now: the process may use more while we read.
    uint64_t limit = __atomic_load_n(&process_of(reader)->arena.limit, __ATOMIC_RELAXED);
    reader->bytes = limit < bytes ? limit : bytes;
    if (reader->over || reader->bytes < sizeof(struct live_process))
        return false;
    reader->sink = sink;
    read_modules(reader);
    read_threads(reader);
    read_notes(reader);
    read_reaped(reader);
    const struct place_mapper mapper = {map_place, map_creator, reader};
    sink->peak_stamp = atomic_load_explicit(&process_of(reader)->alloc.stamp, memory_order_relaxed);
    bool news = false;
    for (unsigned i = 0; i < reader->tree_count; i++)
        news |= live_tree_update(&reader->trees[i], &reader->arena, reader->bytes, index, presence,
                                 &mapper, sink);
    news |= tell_process(reader, index, presence);
    news |= read_contexts(reader, index);
    note_damage(reader);
    reader->sink = NULL;
    return news;
}

bool live_reader_awaits_end(const struct live_reader *reader)
{
    const struct live_process *process = process_of(reader);
    return !reader->over && atomic_load_explicit(&process->end_ns, memory_order_acquire) &&
           __atomic_load_n(&process->goodbye.cpu_ns, __ATOMIC_RELAXED);
}

uint32_t live_reader_parent(const struct live_reader *reader)
{
    return reader->told.parent_pid;
}

bool live_reader_end(struct live_reader *reader, uint32_t index, uint64_t cpu_ns,
                     struct live_sink *sink)
{
    const struct live_process *process = process_of(reader);
    if (!live_reader_awaits_end(reader) || reader->damaged)
        return false;
    const struct live_goodbye said = process->goodbye; // its writer is gone
    const uint64_t sampled = reader->told.cost_ns - reader->outside_ns;
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
    tell_outside(reader, &rest);
    tell_process(reader, index, PROCESS_IS_GONE);
    reader->sink = NULL;
    reader->over = true;
    return true;
}
