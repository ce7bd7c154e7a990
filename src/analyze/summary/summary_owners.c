// SPDX-License-Identifier: MIT

// The threads and processes of a recording, by name.

#include "analyze/names/names.h"
#include "analyze/summary/summary.h"
#include "analyze/tree/name_sums.h"
#include "base/memory.h"

#define PROCESSES_SHOWN 10

static int compare_processes(const void *left, const void *right)
{
    const struct profile_process *a = *(struct profile_process *const *)left;
    const struct profile_process *b = *(struct profile_process *const *)right;
    if (a->cost_ns != b->cost_ns)
        return a->cost_ns < b->cost_ns ? 1 : -1;
    return a < b ? -1 : a > b;
}

static const char *cost_head(const char *unit)
{
    return strcmp(unit, "ns") == 0 ? "time" : unit;
}

static const char *sample_head(const struct profile_metric *caused)
{
    return !caused ? "samples" : profile_is_alloc(caused) ? "blocks" : "operations";
}

static void print_processes(FILE *out, const struct text_style *style,
                            const struct profile *profile, const struct names *names)
{
    static const enum text_align align[] = {TEXT_RIGHT, TEXT_RIGHT, TEXT_RIGHT, TEXT_RIGHT,
                                            TEXT_FLEX};
    const struct profile_metric *caused = profile_samples_caused(profile);
    const char *unit = caused ? caused->unit : "ns";
    const char *const head[] = {"pid", cost_head(unit), sample_head(caused), "threads", "process"};
    if (profile->process_count < 2)
        return;
    const struct profile_process **sorted = memory_array(profile->process_count, sizeof *sorted);
    for (unsigned i = 0; i < profile->process_count; i++)
        sorted[i] = &profile->processes[i];
    qsort(sorted, profile->process_count, sizeof *sorted, compare_processes);
    struct text_table *table = text_table_new(5, align, head);
    for (unsigned i = 0; i < profile->process_count && i < PROCESSES_SHOWN; i++) {
        const struct profile_process *process = sorted[i];
        char pid[16];
        snprintf(pid, sizeof pid, "%u", process->pid);
        text_table_cell(table, TEXT_PLAIN, pid);
        text_table_cell(table, TEXT_PLAIN, text_amount(process->cost_ns, unit).text);
        text_table_cell(table, TEXT_PLAIN, text_count(process->samples).text);
        text_table_cell(table, TEXT_PLAIN, text_count(process->thread_starts).text);
        text_table_cell(table, TEXT_PLAIN,
                        names_process(names, (uint32_t)(process - profile->processes)));
    }
    free(sorted);
    fputc('\n', out);
    text_table_print(table, out, style);
    text_table_free(table);
    if (profile->process_count > PROCESSES_SHOWN)
        fprintf(out, "and %u more: 'cairn report --view processes'\n",
                profile->process_count - PROCESSES_SHOWN);
}

static void print_sums(FILE *out, const struct text_style *style, const struct profile *profile,
                       const char *const head[2], const struct name_sums *sums)
{
    static const enum text_align align[] = {TEXT_RIGHT, TEXT_RIGHT, TEXT_FLEX};
    const struct profile_metric *caused = profile_samples_caused(profile);
    const char *unit = caused ? caused->unit : "ns";
    const char *const heads[] = {cost_head(unit), head[0], head[1]};
    struct text_table *table = text_table_new(3, align, heads);
    for (size_t i = 0; i < sums->count && i < PROCESSES_SHOWN; i++) {
        text_table_cell(table, TEXT_PLAIN, text_amount(sums->sums[i].cost, unit).text);
        text_table_cell(table, TEXT_PLAIN, text_count(sums->sums[i].members).text);
        text_table_cell(table, TEXT_PLAIN, sums->sums[i].name);
    }
    fputc('\n', out);
    text_table_print(table, out, style);
    text_table_free(table);
    if (sums->count > PROCESSES_SHOWN)
        fprintf(out, "and %zu more: 'cairn report --by %s'\n", sums->count - PROCESSES_SHOWN,
                head[1]);
}

void summary_print_owners(FILE *out, const struct text_style *style,
                          const struct analysis *analysis)
{
    static const char *const program[] = {"processes", "program"}, *const thread[] = {"threads",
                                                                                      "thread"};
    const struct profile *profile = analysis->profile;
    const struct build_options all = {0};
    struct name_sums programs = name_sums_programs(analysis->functions, profile, &all, NULL);
    if (programs.count > 1 && profile->process_count > PROCESSES_SHOWN)
        print_sums(out, style, profile, program, &programs);
    name_sums_free(&programs);
    print_processes(out, style, profile, functions_names(analysis->functions));
    build_resolve_starts(analysis->functions, profile);
    struct name_sums threads = name_sums_threads(analysis->functions, profile, &all, NULL);
    if (threads.count > 1)
        print_sums(out, style, profile, thread, &threads);
    name_sums_free(&threads);
}
