// SPDX-License-Identifier: MIT
#include "make_profile.h"
#include "profile/loader.h"
#include <stdlib.h>
#include <string.h>

static void *must(void *memory)
{
    if (!memory)
        abort();
    return memory;
}

static void grow(void *array, size_t count, size_t each)
{
    if (!profile_grow(array, count, count + 1, each))
        abort();
}

void make_text(char **text, const char *value)
{
    free(*text);
    *text = must(strdup(value));
}

static char **make_command(const char *program)
{
    char **command = must(calloc(2, sizeof *command));
    command[0] = must(strdup(program));
    return command;
}

struct profile *make_profile(const char *metric, const char *unit, uint64_t period)
{
    struct profile *profile = must(calloc(1, sizeof *profile));
    profile->format = 1;
    profile->command = make_command("app");
    make_text(&profile->tracker, "walk");
    make_text(&profile->tree_kind, "full");
    profile->start_realtime_ns = 1700000000000000000;
    profile->duration_ns = 2000000000;
    profile->complete = true;
    profile->metric_count = 1;
    profile->metrics = must(calloc(1, sizeof *profile->metrics));
    make_text(&profile->metrics[0].name, metric);
    make_text(&profile->metrics[0].unit, unit);
    make_text(&profile->metrics[0].source, "perf-task-clock");
    profile->metrics[0].period = period;
    profile->metrics[0].rate_requested = period ? 1e9 / (double)period : 0;
    make_module(profile, "[unknown]");
    make_module(profile, "[anonymous]");
    make_module(profile, "[vdso]");
    return profile;
}

unsigned make_module(struct profile *profile, const char *path)
{
    grow(&profile->modules, profile->module_count, sizeof *profile->modules);
    make_text(&profile->modules[profile->module_count].path, path);
    return profile->module_count++;
}

unsigned make_process(struct profile *profile, uint32_t pid, uint32_t parent_pid,
                      const char *program)
{
    grow(&profile->processes, profile->process_count, sizeof *profile->processes);
    struct profile_process *process = &profile->processes[profile->process_count];
    process->pid = pid;
    process->parent_pid = parent_pid;
    process->ended = true;
    process->start_ns = 1000;
    process->end_ns = 2000000000;
    process->command = make_command(program);
    process->merged_into = PROFILE_NOT_MERGED;
    return profile->process_count++;
}

unsigned make_tree(struct profile *profile, unsigned process, place_t start)
{
    grow(&profile->trees, profile->tree_count, sizeof *profile->trees);
    struct profile_tree *tree = &profile->trees[profile->tree_count];
    tree->process = process;
    tree->tid = profile->processes[process].pid;
    tree->start = start;
    tree->threads = 1;
    profile->processes[process].thread_starts++;
    make_node(profile, profile->tree_count, PROFILE_NO_PARENT, 0, start);
    return profile->tree_count++;
}

uint32_t make_node(struct profile *profile, unsigned index, uint32_t parent, place_t site,
                   place_t function)
{
    struct profile_tree *tree = &profile->trees[index];
    if (!profile_grow_tree(tree, tree->count + 1, profile->metric_count))
        abort();
    tree->nodes[tree->count] = (struct profile_node){parent, site, function};
    return tree->count++;
}

uint32_t make_frame(struct profile *profile, unsigned tree, uint32_t parent, place_t site,
                    place_t function)
{
    return make_node(profile, tree, parent, site, function);
}

uint32_t make_statement(struct profile *profile, unsigned index, uint32_t parent, place_t pc,
                        uint64_t cost)
{
    uint32_t node = make_node(profile, index, parent, pc, 0);
    struct profile_tree *tree = &profile->trees[index];
    tree->values[(size_t)node * profile->metric_count] = cost;
    tree->stats.samples++;
    tree->stats.cost_ns += cost;
    tree->stats.verdicts[VERDICT_COMPLETE]++;
    tree->stats.handler_histogram[live_bucket(1000)]++;
    tree->stats.handler_ns += 1000;
    profile->processes[tree->process].samples++;
    profile->processes[tree->process].cost_ns += cost;
    return node;
}

uint32_t make_creation(struct profile *profile, uint32_t parent, place_t site, place_t function)
{
    grow(&profile->creations, profile->creation_count, sizeof *profile->creations);
    profile->creations[profile->creation_count] =
        (struct profile_creation){.parent = parent, .site = site, .function = function};
    return profile->creation_count++;
}

void make_note(struct profile *profile, const char *text)
{
    grow(&profile->notes, profile->note_count, sizeof *profile->notes);
    make_text(&profile->notes[profile->note_count++], text);
}
