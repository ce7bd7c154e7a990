// SPDX-License-Identifier: MIT
#include "base/memory.h"
#include "profile/place_names.h"
#include "symbol/kernel_names.h"
#include "symbol/module.h"
#include "symbol/notes.h"
#include "symbol/perf_map.h"
#include "symbol/symbol.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// One place that was asked for. Lives in the pool, so that what symbols_at gives out stays where it
// is.
struct answer {
    place_t place;
    unsigned process; // 0 unless the place belongs to no file
    bool resolved;
    struct symbol symbol;
};

struct process_map {
    bool read;
    struct perfmap map;
};

struct symbols {
    const struct profile *profile;
    struct symbols_options options;
    struct text_pool pool;
    struct notes notes;
    struct server *server;
    bool server_known;
    struct module *modules;
    unsigned module_count, open_modules;
    uint64_t *heat; // of each module, the cost of its own code
    uint64_t total_heat;
    bool *hinted; // modules whose missing lines were spoken of, or not worth a word
    struct process_map *maps;
    struct kernel_names kernel;
    struct answer **slots; // open addressing over all that was asked for
    size_t slot_count, answer_count;
    struct answer **pending;
    size_t pending_count, pending_capacity;
};

static const struct profile_module unknown_module = {.path = NULL};
static const struct profile_module vdso_module = {.path = "[vdso]"};

static bool is_vdso(const struct profile_module *module)
{
    return module->path && strcmp(module->path, "[vdso]") == 0;
}

// Where it was: trees that forget have no addresses of statements, but functions.
static place_t place_of(const struct profile_tree *tree, const struct profile_node *statement)
{
    return statement->site || statement->parent >= tree->count
               ? statement->site
               : tree->nodes[statement->parent].function;
}

static void measure_heat(struct symbols *symbols)
{
    const struct profile *profile = symbols->profile;
    // Calls lie in frames, costs in statements.
    const bool calls = profile->metric_count && profile_counts_calls(&profile->metrics[0]);
    for (unsigned t = 0; profile->metric_count && t < profile->tree_count; t++) {
        const struct profile_tree *tree = &profile->trees[t];
        for (uint32_t i = 0; tree->values && i < tree->count; i++) {
            const struct profile_node *node = &tree->nodes[i];
            unsigned module = place_module(calls ? node->function : place_of(tree, node));
            if (!calls == !!node->function || module >= symbols->module_count)
                continue;
            uint64_t cost = tree->values[(size_t)i * profile->metric_count];
            symbols->heat[module] += cost;
            symbols->total_heat += cost;
        }
    }
}

struct symbols *symbols_new(const struct profile *profile, const struct symbols_options *options)
{
    struct symbols *symbols = memory_array(1, sizeof *symbols);
    symbols->profile = profile;
    if (options)
        symbols->options = *options;
    symbols->notes.pool = &symbols->pool;
    symbols->module_count =
        profile->module_count > MODULE_VDSO ? profile->module_count : MODULE_VDSO + 1;
    symbols->modules = memory_array(symbols->module_count, sizeof *symbols->modules);
    symbols->heat = memory_array(symbols->module_count, sizeof *symbols->heat);
    symbols->hinted = memory_array(symbols->module_count, sizeof *symbols->hinted);
    symbols->maps = memory_array(profile->process_count + 1, sizeof *symbols->maps);
    for (unsigned i = 0; i < symbols->module_count; i++) {
        struct module *module = &symbols->modules[i];
        module->recorded = i < profile->module_count ? &profile->modules[i] : &unknown_module;
        module->vdso = i == MODULE_VDSO || is_vdso(module->recorded);
        if (i == MODULE_VDSO && !module->recorded->path)
            module->recorded = &vdso_module;
    }
    kernel_names_open(&symbols->kernel, profile);
    measure_heat(symbols);
    return symbols;
}

void symbols_free(struct symbols *symbols)
{
    if (!symbols)
        return;
    for (unsigned i = 0; i < symbols->module_count; i++)
        module_close(&symbols->modules[i]);
    for (unsigned i = 0; i <= symbols->profile->process_count; i++)
        perfmap_free(&symbols->maps[i].map);
    kernel_names_close(&symbols->kernel);
    server_disconnect(symbols->server);
    notes_free(&symbols->notes);
    free(symbols->modules);
    free(symbols->heat);
    free(symbols->hinted);
    free(symbols->maps);
    free(symbols->slots);
    free(symbols->pending);
    pool_free(&symbols->pool);
    free(symbols);
}

static struct answer **find_slot(struct answer **slots, size_t count, unsigned process,
                                 place_t place)
{
    uint64_t key[2] = {place, process};
    size_t slot = pool_hash(key, sizeof key) & (count - 1);
    while (slots[slot] && (slots[slot]->place != place || slots[slot]->process != process))
        slot = (slot + 1) & (count - 1);
    return &slots[slot];
}

static void make_room(struct symbols *symbols)
{
    if (symbols->answer_count * 2 < symbols->slot_count)
        return;
    size_t count = symbols->slot_count ? symbols->slot_count * 2 : 1024;
    struct answer **slots = memory_array(count, sizeof *slots);
    for (size_t i = 0; i < symbols->slot_count; i++) {
        struct answer *answer = symbols->slots[i];
        if (answer)
            *find_slot(slots, count, answer->process, answer->place) = answer;
    }
    free(symbols->slots);
    symbols->slots = slots;
    symbols->slot_count = count;
}

// Code of files means the same in every process.
static unsigned process_that_matters(unsigned process, place_t place)
{
    return place_module(place) == MODULE_ANONYMOUS ? process : 0;
}

static struct answer *want(struct symbols *symbols, unsigned process, place_t place)
{
    make_room(symbols);
    process = process_that_matters(process, place);
    struct answer **slot = find_slot(symbols->slots, symbols->slot_count, process, place);
    if (*slot)
        return *slot;
    struct answer *answer = pool_take(&symbols->pool, sizeof *answer);
    answer->place = place;
    answer->process = process;
    *slot = answer;
    symbols->answer_count++;
    symbols->pending = memory_grown(symbols->pending, &symbols->pending_capacity,
                                    symbols->pending_count + 1, sizeof *symbols->pending);
    symbols->pending[symbols->pending_count++] = answer;
    return answer;
}

void symbols_want(struct symbols *symbols, unsigned process, place_t place)
{
    want(symbols, process, place);
}

static void answer_plainly(struct symbols *symbols, struct answer *answer, const char *name)
{
    struct symbol_frame *frame = pool_take(&symbols->pool, sizeof *frame);
    frame->function = name;
    answer->symbol.frames = frame;
    answer->symbol.count = 1;
    answer->resolved = true;
}

static bool read_map(struct symbols *symbols, struct perfmap *map, uint32_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/tmp/perf-%u.map", pid);
    const struct perfmap_trust trust = {.not_before_ns = symbols->profile->start_realtime_ns,
                                        .owner = symbols->profile->owner};
    const enum perfmap_answer answer = perfmap_read(map, path, &trust, &symbols->pool);
    if (answer == PERFMAP_FOREIGN || answer == PERFMAP_TOO_LARGE)
        notes_on_map(&symbols->notes, path, answer);
    return answer == PERFMAP_READ;
}

static const struct perfmap *map_of(struct symbols *symbols, unsigned process)
{
    const struct profile *profile = symbols->profile;
    if (process >= profile->process_count)
        return NULL;
    struct process_map *known = &symbols->maps[process];
    if (known->read)
        return &known->map;
    known->read = true;
    const struct profile_process *recorded = &profile->processes[process];
    // A fork runs the code that its parent compiled, and may never have written a map of its own.
    if (!read_map(symbols, &known->map, recorded->pid) && recorded->forked)
        read_map(symbols, &known->map, recorded->parent_pid);
    return &known->map;
}

// A module matters if at least one sample in fifty fell into it.
enum { MATTERS_ONE_IN = 50 };

// Code of a runtime that has written no names.
static void hint_at_map(struct symbols *symbols, unsigned process, const struct perfmap *map)
{
    const uint64_t heat = symbols->heat[MODULE_ANONYMOUS];
    if (map && map->count == 0 && heat && heat >= symbols->total_heat / MATTERS_ONE_IN)
        notes_on_generated(&symbols->notes, symbols->profile->processes[process].command);
}

static void answer_anonymous(struct symbols *symbols, struct answer *answer)
{
    const struct perfmap *map = map_of(symbols, answer->process);
    uint64_t start;
    const char *name = map ? perfmap_find(map, place_offset(answer->place), &start) : NULL;
    answer_plainly(symbols, answer, name ? name : "[jit]");
    if (!name)
        hint_at_map(symbols, answer->process, map);
    else
        answer->symbol.function = place_make(MODULE_ANONYMOUS, start);
}

static void answer_kernel(struct symbols *symbols, struct answer *answer)
{
    place_t begin;
    answer_plainly(symbols, answer,
                   kernel_name(&symbols->kernel, &symbols->pool, answer->place, &begin));
    answer->symbol.function = begin;
}

static bool is_kernel(const struct symbols *symbols, unsigned module)
{
    return module < symbols->module_count &&
           profile_is_kernel(symbols->modules[module].recorded->path);
}

// All that is known of it are names of places.
static bool is_runtime(const struct symbols *symbols, unsigned module)
{
    return module < symbols->module_count &&
           (profile_is_runtime(symbols->modules[module].recorded->path) ||
            profile_is_files(symbols->modules[module].recorded->path));
}

// A place whose names another tool, or the program's runtime, has found.
static bool answer_named(struct symbols *symbols, struct answer *answer)
{
    const struct profile_place *known = place_names_find(symbols->profile, answer->place);
    if (!known)
        return false;
    struct symbol_frame *frames = pool_take(&symbols->pool, known->line_count * sizeof *frames);
    for (uint32_t i = 0; i < known->line_count; i++)
        frames[i] = (struct symbol_frame){
            .function = pool_string(&symbols->pool, known->lines[i].function),
            .file =
                *known->lines[i].file ? pool_string(&symbols->pool, known->lines[i].file) : NULL,
            .line = known->lines[i].line,
        };
    answer->symbol = (struct symbol){known->line_count, frames, known->begin};
    answer->resolved = true;
    return true;
}

// Takes them out of those that are pending.
static size_t answer_all_named(struct symbols *symbols, size_t pending)
{
    size_t left = 0;
    for (size_t i = 0; i < pending; i++)
        if (!answer_named(symbols, symbols->pending[i]))
            symbols->pending[left++] = symbols->pending[i];
    return left;
}

static struct module_means means_of(struct symbols *symbols)
{
    if (!symbols->server_known) {
        symbols->server_known = true;
        if (symbols->options.debuginfod)
            symbols->server =
                server_connect(symbols->options.progress, symbols->options.progress_context);
    }
    return (struct module_means){
        .pool = &symbols->pool, .server = symbols->server, .lines = symbols->options.inlines};
}

// Each open module holds one or two descriptors and its tables: the first ones stay open, for the
// next question (a live view asks each second); a profile of thousands of modules must not run out.
enum { OPEN_MODULES_LIMIT = 128 };

static void open_module(struct symbols *symbols, struct module *module)
{
    struct module_means means = means_of(symbols);
    symbols->open_modules += !module->opened;
    module_open(module, &means);
}

static void release_module(struct symbols *symbols, struct module *module)
{
    if (symbols->open_modules <= OPEN_MODULES_LIMIT)
        return;
    module_close(module);
    symbols->open_modules--;
}

static void answer_file(struct symbols *symbols, unsigned id, struct answer **answers, size_t count)
{
    struct module *module = &symbols->modules[id];
    struct module_means means = means_of(symbols);
    open_module(symbols, module);
    struct lines_query *queries = memory_array(count, sizeof *queries);
    struct symbol *found = memory_array(count, sizeof *found);
    for (size_t i = 0; i < count; i++)
        queries[i].offset = place_offset(answers[i]->place);
    module_resolve(module, &means, &(struct module_questions){id, queries, found, count});
    for (size_t i = 0; i < count; i++) {
        answers[i]->symbol = found[i];
        answers[i]->resolved = true;
    }
    free(queries);
    free(found);
    notes_on_module(&symbols->notes, module, symbols->profile);
    release_module(symbols, module);
}

// The answers of one module.
struct group {
    unsigned id;
    struct answer **answers;
    size_t count;
    uint64_t heat;
};

static int by_place(const void *left, const void *right)
{
    const struct answer *a = *(struct answer *const *)left, *b = *(struct answer *const *)right;
    if (a->place != b->place)
        return a->place < b->place ? -1 : 1;
    return (a->process > b->process) - (a->process < b->process);
}

static int hottest_first(const void *left, const void *right)
{
    const struct group *a = left, *b = right;
    if (a->heat != b->heat)
        return a->heat > b->heat ? -1 : 1;
    return a->count != b->count ? (a->count > b->count ? -1 : 1)
                                : (a->id > b->id) - (a->id < b->id);
}

static void answer_group(struct symbols *symbols, const struct group *group)
{
    const bool kernel = is_kernel(symbols, group->id);
    if (group->id >= MODULE_VDSO && group->id < symbols->module_count && !kernel &&
        !is_runtime(symbols, group->id)) {
        answer_file(symbols, group->id, group->answers, group->count);
        return;
    }
    for (size_t i = 0; i < group->count; i++)
        if (kernel)
            answer_kernel(symbols, group->answers[i]);
        else if (group->id == MODULE_ANONYMOUS)
            answer_anonymous(symbols, group->answers[i]);
        else
            answer_plainly(symbols, group->answers[i], "[unknown]");
}

// Three hints are as many as anyone reads.
enum { MOST_HINTS = 3 };

static void hint_at_lines(struct symbols *symbols, const struct group *groups, size_t count)
{
    const struct module *without[MOST_HINTS];
    size_t found = 0, pending = 0;
    for (size_t i = 0; i < count; i++)
        pending += groups[i].count;
    for (size_t i = 0; i < count && found < MOST_HINTS; i++) {
        unsigned id = groups[i].id;
        bool matters =
            symbols->total_heat
                ? groups[i].heat >= symbols->total_heat / MATTERS_ONE_IN && groups[i].heat
                : groups[i].count * MATTERS_ONE_IN >= pending;
        if (!matters || id < MODULE_FIRST_FILE || id >= symbols->module_count ||
            symbols->hinted[id] || is_kernel(symbols, id) || is_runtime(symbols, id))
            continue;
        const struct module *module = &symbols->modules[id];
        symbols->hinted[id] = true;
        if (module->trouble == MODULE_FINE && !module->vdso && module->quality < SYMBOLS_OWN)
            without[found++] = module;
    }
    if (found)
        notes_on_lines(&symbols->notes, without, found);
    if (server_gave_up(symbols->server))
        notes_add(&symbols->notes, "the debuginfod servers are too slow: line numbers are missing");
}

void symbols_resolve(struct symbols *symbols)
{
    size_t pending = symbols->pending_count, group_count = 0;
    if (pending == 0)
        return;
    symbols->pending_count = 0;
    pending = answer_all_named(symbols, pending);
    qsort(symbols->pending, pending, sizeof *symbols->pending, by_place);
    size_t capacity = 16;
    struct group *groups = memory_array(capacity, sizeof *groups);
    for (size_t first = 0, next; first < pending; first = next) {
        unsigned id = place_module(symbols->pending[first]->place);
        for (next = first + 1; next < pending && place_module(symbols->pending[next]->place) == id;)
            next++;
        groups = memory_grown(groups, &capacity, group_count + 1, sizeof *groups);
        groups[group_count++] =
            (struct group){.id = id,
                           .answers = &symbols->pending[first],
                           .count = next - first,
                           .heat = id < symbols->module_count ? symbols->heat[id] : 0};
    }
    // The hottest first: if servers are slow, patience is spent where it pays.
    qsort(groups, group_count, sizeof *groups, hottest_first);
    for (size_t i = 0; i < group_count; i++) {
        if (symbols->options.progress && groups[i].id >= MODULE_FIRST_FILE &&
            groups[i].id < symbols->module_count) {
            const char *path = symbols->modules[groups[i].id].recorded->path;
            symbols->options.progress(symbols->options.progress_context, path ? path : "?",
                                      (unsigned)i, (unsigned)group_count);
        }
        answer_group(symbols, &groups[i]);
    }
    if (symbols->options.inlines)
        hint_at_lines(symbols, groups, group_count);
    free(groups);
}

const struct symbol *symbols_at(struct symbols *symbols, unsigned process, place_t place)
{
    struct answer *answer = want(symbols, process, place);
    if (!answer->resolved)
        symbols_resolve(symbols);
    return &answer->symbol;
}

enum symbol_quality symbols_quality(const struct symbols *symbols, unsigned module)
{
    if (module < MODULE_VDSO || module >= symbols->module_count)
        return SYMBOLS_NONE;
    if (is_kernel(symbols, module))
        return SYMBOLS_TABLE;
    if (is_runtime(symbols, module))
        return SYMBOLS_OWN;
    // Asked before anything in it was wanted: opening is knowing, and no change that a caller could
    // see.
    struct symbols *mutable = (struct symbols *)symbols;
    if (!symbols->modules[module].examined) {
        open_module(mutable, &mutable->modules[module]);
        release_module(mutable, &mutable->modules[module]);
    }
    return symbols->modules[module].quality;
}

const char *symbols_note(const struct symbols *symbols, unsigned index)
{
    return index < symbols->notes.count ? symbols->notes.list[index] : NULL;
}
