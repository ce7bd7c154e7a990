// SPDX-License-Identifier: MIT
#include "profile/merge/merge.h"
#include "base/text/text.h"
#include "profile/contexts.h"
#include "profile/creations.h"
#include "profile/loader.h"
#include "profile/merge/fold.h"
#include "profile/merge/merge_partial.h"
#include "profile/merge/merge_ranks.h"
#include "profile/place_names.h"
#include "profile/queries/module_table.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX

struct merging {
    struct profile *into;
    enum merge_processes processes;
    struct module_table modules;
    struct creation_table creations;
    struct function_set *named;   // functions of the kernel that are in
    struct tree_merger **mergers; // per tree of `into`, where others were added to it
    uint32_t *first_tree;         // per process of `into`
    uint32_t *next_tree;          // per tree: another one of the same process
    char **error;

    // Of the profile that is taken in now:
    const struct profile *from;
    unsigned *module_map;
    unsigned metric_map[PROFILE_MOST_METRICS];
    uint32_t *process_map;      // to the process that has its trees
    uint32_t *creation_map;     // to the steps of the merged profile
    struct function_set *known; // functions, if it is to be laid upon walked trees
    struct rank_merge ranks;    // its own, if they are kept
};

static int refuse(struct merging *merging, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static int refuse(struct merging *merging, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (vasprintf(merging->error, format, arguments) < 0)
        *merging->error = NULL;
    va_end(arguments);
    return -EINVAL;
}

static bool follows_calls(const struct profile *profile)
{
    return profile->tracker && strcmp(profile->tracker, "calls") == 0;
}

static bool same_text(const char *one, const char *other)
{
    return strcmp(one ? one : "", other ? other : "") == 0;
}

// Texts of the session

static int copy_text(char **to, const char *text)
{
    free(*to);
    *to = strdup(text ? text : "");
    return *to ? 0 : -ENOMEM;
}

static int copy_command(char ***to, char *const *command)
{
    size_t count = 0;
    while (command && command[count])
        count++;
    *to = calloc(count + 1, sizeof **to);
    if (!*to)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++)
        if (!((*to)[i] = strdup(command[i])))
            return -ENOMEM;
    return 0;
}

// "walk" and "calls" become "walk+calls"; each word is there once.
static int join(char **words, const char *more)
{
    if (!*words)
        return copy_text(words, more);
    for (const char *at = more; at && *at;) {
        size_t length = strcspn(at, "+");
        bool known = false;
        for (const char *word = *words; *word && !known;) {
            size_t other = strcspn(word, "+");
            known = other == length && memcmp(word, at, length) == 0;
            word += other + (word[other] == '+');
        }
        char *joined = NULL;
        if (!known) {
            if (asprintf(&joined, "%s+%.*s", *words, (int)length, at) < 0)
                return -ENOMEM;
            free(*words);
            *words = joined;
        }
        at += length + (at[length] == '+');
    }
    return 0;
}

static int add_note(struct profile *into, const char *text)
{
    for (unsigned i = 0; i < into->note_count; i++)
        if (same_text(into->notes[i], text))
            return 0;
    char *copy = strdup(text);
    if (!copy || !profile_grow((void **)&into->notes, into->note_count, into->note_count + 1u,
                               sizeof copy)) {
        free(copy);
        return -ENOMEM;
    }
    into->notes[into->note_count++] = copy;
    return 0;
}

static int take_session(struct merging *merging)
{
    struct profile *into = merging->into;
    const struct profile *from = merging->from;
    if (!into->command && copy_command(&into->command, from->command) < 0)
        return -ENOMEM;
    if (join(&into->tracker, from->tracker) < 0 || join(&into->tree_kind, from->tree_kind) < 0)
        return -ENOMEM;
    if (into->start_realtime_ns == 0 || from->start_realtime_ns < into->start_realtime_ns)
        into->start_realtime_ns = from->start_realtime_ns;
    into->duration_ns += from->duration_ns;
    into->complete &= from->complete;
    // Of several machines, the worst.
    if (from->overhead.tick_ns > into->overhead.tick_ns)
        into->overhead.tick_ns = from->overhead.tick_ns;
    if (from->overhead.switch_ns > into->overhead.switch_ns)
        into->overhead.switch_ns = from->overhead.switch_ns;
    for (unsigned i = 0; i < from->note_count; i++)
        if (add_note(into, from->notes[i]) < 0)
            return -ENOMEM;
    // Nodes have other numbers from now on.
    if (from->blame_count && add_note(into, "pairs of waiters and holders are left out of merged "
                                            "profiles") < 0)
        return -ENOMEM;
    // Times of several recordings have nothing to do with each other.
    return from->timeline.recorded ? add_note(into, "timelines are left out of merged profiles")
                                   : 0;
}

// Metrics. All must be known before the first tree is taken in.

static int copy_metric(struct profile_metric *to, const struct profile_metric *metric)
{
    to->period = metric->period;
    to->runs = profile_runs(metric);
    to->rate_requested = metric->rate_requested;
    if (copy_text(&to->name, metric->name) < 0 || copy_text(&to->unit, metric->unit) < 0)
        return -ENOMEM;
    return copy_text(&to->source, metric->source);
}

// A metric that was measured in several ways has no period, rate or source any more.
static int meet_metric(struct profile_metric *to, const struct profile_metric *metric)
{
    to->runs += profile_runs(metric);
    if (to->period != metric->period)
        to->period = 0;
    if (to->rate_requested != metric->rate_requested)
        to->rate_requested = 0;
    return same_text(to->source, metric->source) ? 0 : copy_text(&to->source, "several");
}

static unsigned find_metric(const struct profile *profile, const struct profile_metric *metric)
{
    unsigned i = 0;
    while (i < profile->metric_count && !(same_text(profile->metrics[i].name, metric->name) &&
                                          same_text(profile->metrics[i].unit, metric->unit)))
        i++;
    return i;
}

static int take_metrics(struct merging *merging)
{
    struct profile *into = merging->into;
    for (unsigned i = 0; i < merging->from->metric_count; i++) {
        const struct profile_metric *metric = &merging->from->metrics[i];
        unsigned known = find_metric(into, metric);
        if (known == PROFILE_MOST_METRICS)
            return refuse(merging, "these profiles have more than %d different metrics",
                          PROFILE_MOST_METRICS);
        bool is_new = known == into->metric_count;
        into->metric_count += is_new;
        if ((is_new ? copy_metric : meet_metric)(&into->metrics[known], metric) < 0)
            return -ENOMEM;
    }
    return 0;
}

static bool knows_metrics(const struct merging *merging)
{
    for (unsigned i = 0; i < merging->from->metric_count; i++)
        if (find_metric(merging->into, &merging->from->metrics[i]) == merging->into->metric_count)
            return false;
    return true;
}

// Modules and processes

static int map_modules(struct merging *merging)
{
    const struct profile *from = merging->from;
    merging->module_map = calloc(from->module_count + 1u, sizeof *merging->module_map);
    if (!merging->module_map)
        return -ENOMEM;
    for (unsigned i = 0; i < from->module_count; i++) {
        const struct profile_module *module = &from->modules[i];
        if (i >= MODULE_FIRST_FILE) {
            const char *path = module->path ? module->path : "";
            merging->module_map[i] = module_table_id(&merging->modules, path, strlen(path),
                                                     module->build_id, module->build_id_bytes);
            if (merging->module_map[i] == MODULE_NONE)
                return refuse(merging, "these profiles have too many modules");
            continue;
        }
        merging->module_map[i] = i;
        struct profile_module *reserved = &merging->modules.modules[i];
        if (!reserved->path && module->path && copy_text(&reserved->path, module->path) < 0)
            return -ENOMEM;
        if (reserved->build_id_bytes == 0) {
            memcpy(reserved->build_id, module->build_id, sizeof module->build_id);
            reserved->build_id_bytes = module->build_id_bytes;
        }
    }
    return 0;
}

// Functions of the kernel. Of the same boot, they are the same.
static int take_functions(struct merging *merging)
{
    const struct profile *from = merging->from;
    struct profile *into = merging->into;
    if (from->kernel && !into->kernel && copy_text(&into->kernel, from->kernel) < 0)
        return -ENOMEM;
    for (unsigned i = 0; i < from->function_count; i++) {
        const struct profile_function *function = &from->functions[i];
        const unsigned module = place_module(function->begin);
        if (module >= from->module_count)
            continue;
        const place_t begin =
            place_make(merging->module_map[module], place_offset(function->begin));
        if (function_set_has(merging->named, begin))
            continue;
        struct profile_function taken = {.begin = begin, .bytes = function->bytes};
        if (function_set_add(merging->named, begin) < 0 ||
            copy_text(&taken.name, function->name) < 0 ||
            !profile_grow((void **)&into->functions, into->function_count,
                          into->function_count + (size_t)1, sizeof taken)) {
            free(taken.name);
            return -ENOMEM;
        }
        into->functions[into->function_count++] = taken;
    }
    return 0;
}

static place_t map_place(const struct merging *merging, place_t place)
{
    unsigned module = place_module(place);
    if (module >= merging->from->module_count) // a damaged profile
        return place == 0 ? 0 : PLACE_UNKNOWN;
    return place_make(merging->module_map[module], place_offset(place));
}

// Names that another tool has found. The same place has the same names.
static int take_place_names(struct merging *merging)
{
    const struct profile *from = merging->from;
    for (unsigned i = 0; i < from->place_count; i++) {
        const struct profile_place *place = &from->places[i];
        if (!place_names_add(merging->into, place, map_place(merging, place->place),
                             map_place(merging, place->begin)))
            return -ENOMEM;
    }
    return 0;
}

static const char *program_name(const struct profile_process *process)
{
    return process->command && process->command[0] ? last_part(process->command[0]) : "";
}

// The process that has the trees of a program; NONE if it is new.
static uint32_t representative(const struct merging *merging, const struct profile_process *process)
{
    if (merging->processes == MERGE_APART)
        return NONE;
    for (uint32_t i = 0; i < merging->into->process_count; i++) {
        const struct profile_process *known = &merging->into->processes[i];
        if (known->merged_into == PROFILE_NOT_MERGED &&
            same_text(program_name(known), program_name(process)))
            return i;
    }
    return NONE;
}

// Whether its trees were folded into another one's while it was recorded.
static bool is_folded(const struct profile *profile, uint32_t process)
{
    uint32_t into = profile->processes[process].merged_into;
    return into < profile->process_count && into != process;
}

static int copy_process(struct merging *merging, uint32_t index)
{
    struct profile *into = merging->into;
    const struct profile_process *process = &merging->from->processes[index];
    uint32_t number = into->process_count;
    struct profile_process *copy = &into->processes[number];
    *copy = *process;
    copy->command = NULL;
    if (!is_folded(merging->from, index)) {
        uint32_t target = representative(merging, process);
        copy->merged_into = target == NONE ? PROFILE_NOT_MERGED : target;
        merging->process_map[index] = target == NONE ? number : target;
    }
    merging->first_tree[number] = NONE;
    into->process_count++;
    if (contexts_copy(&copy->contexts, &process->contexts, merging->module_map,
                      merging->from->module_count) < 0)
        return -ENOMEM;
    return copy_command(&copy->command, process->command);
}

static int take_processes(struct merging *merging)
{
    const struct profile *from = merging->from;
    uint32_t base = merging->into->process_count;
    merging->process_map = calloc(from->process_count + 1u, sizeof *merging->process_map);
    if (!merging->process_map)
        return -ENOMEM;
    for (uint32_t i = 0; i < from->process_count; i++)
        if (copy_process(merging, i) < 0)
            return -ENOMEM;
    // Folded processes follow the process that they were folded into: one step, never a chain.
    for (uint32_t i = 0; i < from->process_count; i++)
        if (is_folded(from, i)) {
            merging->process_map[i] = merging->process_map[from->processes[i].merged_into];
            merging->into->processes[base + i].merged_into = merging->process_map[i];
        }
    return 0;
}

// Trees

// The calls that created threads.
static int take_creations(struct merging *merging)
{
    const struct profile *from = merging->from;
    merging->creation_map = calloc(from->creation_count + (size_t)1, sizeof *merging->creation_map);
    if (!merging->creation_map)
        return -ENOMEM;
    for (uint32_t i = 0; i < from->creation_count; i++) {
        const struct profile_creation *step = &from->creations[i];
        const uint32_t number = creation_table_add(
            &merging->creations,
            &(struct profile_creation){.parent = step->parent == PROFILE_NO_PARENT
                                                     ? PROFILE_NO_PARENT
                                                     : merging->creation_map[step->parent],
                                       .site = map_place(merging, step->site),
                                       .function = map_place(merging, step->function)});
        if (number == UINT32_MAX)
            return -ENOMEM;
        merging->creation_map[i] = number;
    }
    return 0;
}

// The tree in the numbers of the merged profile.
static int translate(const struct merging *merging, const struct profile_tree *tree,
                     struct profile_tree *to)
{
    unsigned metrics = merging->into->metric_count, old = merging->from->metric_count;
    *to = *tree;
    to->nodes = NULL;
    to->values = NULL;
    to->count = 0;
    to->charges = (struct profile_charges){0};
    to->process =
        tree->process < merging->from->process_count ? merging->process_map[tree->process] : 0;
    to->start = map_place(merging, tree->start);
    to->creator = tree->creator ? merging->creation_map[tree->creator - 1] + 1 : 0;
    if (!profile_grow_tree(to, tree->count, metrics))
        return -ENOMEM;
    to->count = tree->count;
    for (uint32_t i = 0; i < tree->count; i++) {
        const struct profile_node *node = &tree->nodes[i];
        to->nodes[i] = (struct profile_node){.parent = node->parent,
                                             .site = map_place(merging, node->site),
                                             .function = map_place(merging, node->function)};
        for (unsigned m = 0; m < old; m++)
            to->values[(size_t)i * metrics + merging->metric_map[m]] +=
                tree->values[(size_t)i * old + m];
    }
    return 0;
}

static uint32_t destination(const struct merging *merging, const struct profile_tree *tree)
{
    if (merging->processes == MERGE_APART)
        return NONE;
    uint32_t at = merging->first_tree[tree->process];
    while (at != NONE && !profile_same_threads(&merging->into->trees[at], tree))
        at = merging->next_tree[at];
    return at;
}

static int add_tree(struct merging *merging, uint32_t to, const struct profile_tree *tree)
{
    struct profile_tree *into = &merging->into->trees[to];
    profile_join_names(into, tree);
    if (merging->known && into->count > 0) {
        // It grows behind the merger's back.
        tree_merger_free(merging->mergers[to]);
        merging->mergers[to] = NULL;
        return tree_merge_partial(into, tree, merging->into, merging->known);
    }
    if (!merging->mergers[to])
        merging->mergers[to] = tree_merger_new(into, merging->into->metric_count);
    return merging->mergers[to] ? tree_merger_add(merging->mergers[to], tree, merging->ranks.went)
                                : -ENOMEM;
}

static int take_tree(struct merging *merging, const struct profile_tree *from)
{
    struct profile_tree tree;
    int result = translate(merging, from, &tree);
    uint32_t to = result == 0 ? destination(merging, &tree) : NONE;
    if (result == 0 && to == NONE) {
        uint32_t number = merging->into->tree_count++;
        merging->into->trees[number] = tree;
        merging->next_tree[number] = merging->first_tree[tree.process];
        merging->first_tree[tree.process] = number;
        return rank_merge_tree(&merging->ranks, from, number, NULL);
    }
    if (result == 0)
        result = rank_merge_room(&merging->ranks, from);
    if (result == 0)
        result = add_tree(merging, to, &tree);
    if (result == 0)
        result = rank_merge_tree(&merging->ranks, from, to, merging->ranks.went);
    free(tree.nodes);
    free(tree.values);
    return result;
}

static bool is_called(const struct profile *profile, const struct profile_tree *tree, uint32_t node)
{
    for (unsigned i = 0; i < profile->metric_count; i++)
        if (profile_counts_calls(&profile->metrics[i]) &&
            tree->values[(size_t)node * profile->metric_count + i] > 0)
            return true;
    return false;
}

// The functions whose calls were counted: others were not compiled to be followed.
static int know_functions(struct merging *merging)
{
    merging->known = function_set_new();
    if (!merging->known)
        return -ENOMEM;
    for (unsigned t = 0; t < merging->from->tree_count; t++) {
        const struct profile_tree *tree = &merging->from->trees[t];
        for (uint32_t i = 0; i < tree->count; i++)
            if (tree->nodes[i].parent != PROFILE_NO_PARENT && is_called(merging->from, tree, i) &&
                function_set_add(merging->known, map_place(merging, tree->nodes[i].function)) < 0)
                return -ENOMEM;
    }
    return 0;
}

static int take_profile(struct merging *merging, const char *name, bool lay_upon)
{
    const struct profile *from = merging->from;
    for (unsigned i = 0; i < from->metric_count; i++)
        merging->metric_map[i] = find_metric(merging->into, &from->metrics[i]);
    int result = take_session(merging);
    if (result == 0)
        result = map_modules(merging);
    if (result == 0)
        result = take_functions(merging);
    if (result == 0)
        result = take_place_names(merging);
    if (result == 0)
        result = take_processes(merging);
    if (result == 0)
        result = take_creations(merging);
    if (result == 0 && lay_upon)
        result = know_functions(merging);
    // The calls of one recording are laid upon the time of others: it is no rank beside them.
    if (result == 0 && name && !lay_upon)
        result = rank_merge_begin(&merging->ranks, merging->into, from, merging->metric_map, name);
    for (unsigned i = 0; i < from->tree_count && result == 0; i++)
        result = take_tree(merging, &from->trees[i]);
    result = rank_merge_end(&merging->ranks, result);
    free(merging->module_map);
    free(merging->process_map);
    free(merging->creation_map);
    function_set_free(merging->known);
    merging->module_map = NULL;
    merging->process_map = NULL;
    merging->creation_map = NULL;
    merging->known = NULL;
    return result;
}

// Of the profiles, before one is taken in.
struct survey {
    bool *calls; // each follows calls
    bool walked; // one at least does not
    size_t processes, trees;
};

static int get_profile(struct merging *merging, const struct merge_source *source, size_t number)
{
    merging->from = source->get(source->context, number, merging->error);
    return merging->from ? 0 : -EINVAL;
}

// Metrics of walked profiles come first.
static int look_through(struct merging *merging, const struct merge_source *source,
                        struct survey *survey)
{
    int result = 0;
    for (size_t i = 0; i < source->count && result == 0; i++) {
        result = get_profile(merging, source, i);
        if (result < 0)
            return result;
        survey->calls[i] = follows_calls(merging->from);
        survey->walked |= !survey->calls[i];
        survey->processes += merging->from->process_count;
        survey->trees += merging->from->tree_count;
        if (!survey->calls[i])
            result = take_metrics(merging);
    }
    for (size_t i = 0; i < source->count && result == 0; i++) {
        if (survey->calls[i])
            result = get_profile(merging, source, i);
        if (survey->calls[i] && result == 0)
            result = take_metrics(merging);
    }
    return result;
}

// Room for everything at once: trees must not move while others are added to them.
static int make_room(struct merging *merging, const struct survey *survey)
{
    const size_t processes = survey->processes + 1, trees = survey->trees + 1;
    struct profile *into = merging->into;
    into->processes = calloc(processes, sizeof *into->processes);
    into->trees = calloc(trees, sizeof *into->trees);
    merging->first_tree = calloc(processes, sizeof *merging->first_tree);
    merging->next_tree = calloc(trees, sizeof *merging->next_tree);
    merging->mergers = calloc(trees, sizeof *merging->mergers);
    bool made = into->processes && into->trees && merging->first_tree && merging->next_tree &&
                merging->mergers;
    merging->named = function_set_new();
    return made && merging->named ? module_table_start(&merging->modules) : -ENOMEM;
}

// A file may have grown since it was looked through, or be another one.
static bool has_room(const struct merging *merging, const struct survey *survey)
{
    return merging->into->process_count + (size_t)merging->from->process_count <=
               survey->processes &&
           merging->into->tree_count + (size_t)merging->from->tree_count <= survey->trees &&
           knows_metrics(merging);
}

// Trees that were walked come first: those of calls are laid upon them, whatever the order that the
// profiles were named in.
static int take_all(struct merging *merging, const struct merge_source *source,
                    const struct survey *survey)
{
    int result = 0;
    for (unsigned pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < source->count && result == 0; i++) {
            if (survey->calls[i] != (pass == 1))
                continue;
            result = get_profile(merging, source, i);
            if (result == 0 && !has_room(merging, survey))
                return refuse(merging, "profile %zu of these changed while it was read", i + 1);
            if (result == 0)
                result = take_profile(merging, source->names ? source->names[i] : NULL,
                                      pass == 1 && survey->walked);
        }
    return result;
}

static int merge_all(struct merging *merging, const struct merge_source *source)
{
    struct survey survey = {.calls = calloc(source->count + 1, sizeof *survey.calls)};
    struct profile *into = merging->into;
    into->format = 1;
    into->complete = true;
    into->metrics = calloc(PROFILE_MOST_METRICS, sizeof *into->metrics);
    int result = survey.calls && into->metrics ? look_through(merging, source, &survey) : -ENOMEM;
    if (result == 0)
        result = make_room(merging, &survey);
    if (result == 0)
        result = take_all(merging, source, &survey);
    free(survey.calls);
    return result;
}

struct profile *profile_merge(const struct merge_source *source, enum merge_processes processes,
                              char **error)
{
    *error = NULL;
    struct merging merging = {.processes = processes, .error = error};
    merging.into = calloc(1, sizeof *merging.into);
    int result = merging.into ? merge_all(&merging, source) : -ENOMEM;
    for (uint32_t i = 0; merging.mergers && i < merging.into->tree_count; i++)
        tree_merger_free(merging.mergers[i]);
    free(merging.mergers);
    function_set_free(merging.named);
    free(merging.first_tree);
    free(merging.next_tree);
    if (result == 0) {
        merging.into->modules = merging.modules.modules;
        merging.into->module_count = merging.modules.count;
        merging.modules.modules = NULL;
        merging.modules.count = 0;
        merging.into->creations = merging.creations.steps;
        merging.into->creation_count = merging.creations.count;
        merging.creations.steps = NULL;
    }
    module_table_free(&merging.modules);
    creation_table_free(&merging.creations);
    if (result == 0) {
        place_names_sort(merging.into);
        return merging.into;
    }
    if (!*error)
        *error = strdup("out of memory");
    profile_free(merging.into);
    return NULL;
}
