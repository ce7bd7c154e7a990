// SPDX-License-Identifier: MIT

// The text above the table of a report: the recording, and the selected part.

#include "analyze/report/report_frame.h"
#include "analyze/summary/sample_warning.h"
#include "base/memory.h"
#include "base/text/wrap.h"
#include "profile/queries/sampling_error.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct report_sums report_sum_up(const struct report *report)
{
    const struct profile *profile = report->analysis->profile;
    struct report_sums sums = {0};
    bool *met = memory_array(profile->process_count, sizeof *met);
    for (unsigned i = 0; i < profile->tree_count; i++) {
        const struct profile_tree *tree = &profile->trees[i];
        if (!build_selects(report->analysis->functions, profile, tree, &report->options->build))
            continue;
        sums.samples += tree->stats.samples;
        sums.hook_ns += tree->stats.hook_ns;
        for (unsigned v = 0; v < VERDICT_COUNT; v++)
            sums.verdicts[v] += tree->stats.verdicts[v];
        sums.threads += tree->threads;
        sums.processes += !met[tree->process];
        met[tree->process] = true;
    }
    free(met);
    const struct build_options *build = &report->options->build;
    if (build->tid || build->thread || build->phase)
        return sums;
    // Threads that were never sampled left no tree, nor did processes that were folded into others.
    sums.threads = sums.processes = 0;
    for (uint32_t i = 0; i < profile->process_count; i++) {
        const uint32_t into = profile->processes[i].merged_into;
        const uint32_t owner = into < profile->process_count ? into : i;
        if (!build_selects_process(report->analysis->functions, profile, owner, build))
            continue;
        sums.threads += profile->processes[i].thread_starts;
        sums.processes++;
    }
    return sums;
}

const char *report_sees_more(const struct profile_metric *metric)
{
    return strcmp(metric->name, "cpu") == 0
               ? "try 'cairn record -F 10000', or '-e wall' for time spent waiting.\n"
               : "try 'cairn record -F 10000'.\n";
}

static void put_view(const struct report *report)
{
    const struct report_options *options = report->options;
    static const char *const by[] = {"function", "line",    "module", "thread",
                                     "process",  "program", "file"};
    const char *metric = text_safe(report->metrics.chosen[0].name);
    bool counts_calls = profile_counts_calls(&report->analysis->profile->metrics[report->metric]);
    if (options->view == VIEW_TREE && report->kind.functions)
        fprintf(report->out, "functions by %s: their callers were not recorded", metric);
    else if (options->view == VIEW_TREE)
        fprintf(report->out, "call tree by %s: each function under its caller; %s", metric,
                counts_calls ? "below is with the calls that it makes, and these make"
                             : "total is with all it calls");
    else if (options->view == VIEW_CALLERS)
        fprintf(report->out,
                "callers by %s: under each function, its callers; all costs are that function's",
                metric);
    else if (options->view == VIEW_BLAME)
        fprintf(report->out, "waiters by %s: under each, who held the lock", metric);
    else if (options->view == VIEW_PROCESSES)
        fprintf(report->out,
                "processes by %s: each under the one that started it; total is with all below",
                metric);
    else
        fprintf(report->out, "%s by %s, sorted by %s", metric, by[options->by],
                report->order == ORDER_SELF ? "self" : "total");
    fputc('\n', report->out);
}

static void put_selection(const struct report *report)
{
    const struct report_options *options = report->options;
    FILE *out = report->out;
    const char *whole = build_is_part(&options->build) ? "what was chosen" : "the total";
    const struct time_range *range = &report->analysis->range;
    if (report->analysis->is_part && range->to_ns < UINT64_MAX)
        fprintf(out, "only from %s to %s\n", text_duration(range->from_ns).text,
                text_duration(range->to_ns).text);
    else if (report->analysis->is_part)
        fprintf(out, "only from %s on\n", text_duration(range->from_ns).text);
    if (options->build.process)
        fprintf(out, "only process %u\n", options->build.process);
    if (options->build.tid)
        fprintf(out, "only thread %u\n", options->build.tid);
    if (options->build.process_name)
        fprintf(out, "only processes like '%s'\n",
                text_safe(pattern_text(options->build.process_name)));
    if (options->build.thread)
        fprintf(out, "only threads like '%s'\n", text_safe(pattern_text(options->build.thread)));
    if (options->build.across_threads)
        fprintf(out, "each thread below the call that created it\n");
    for (unsigned i = 0; i < options->build.ignore_count; i++)
        fprintf(out, "without functions like '%s': their cost is their callers'\n",
                text_safe(pattern_text(options->build.ignore[i])));
    for (unsigned i = 0; i < options->through.count; i++)
        fprintf(out, "only paths through '%s'\n",
                text_safe(pattern_text(options->through.patterns[i])));
    for (unsigned i = 0; i < options->without.count; i++)
        fprintf(out, "only paths without '%s'\n",
                text_safe(pattern_text(options->without.patterns[i])));
    if (options->build.phase)
        fprintf(out, "only phases like '%s'\n", text_safe(pattern_text(options->build.phase)));
    if (options->focus && options->view == VIEW_CALLERS)
        fprintf(out, "only functions like '%s'\n", text_safe(pattern_text(options->focus)));
    else if (options->focus)
        fprintf(out, "only from '%s' down\n", text_safe(pattern_text(options->focus)));
    if (report->part != report->whole)
        fprintf(out, "shown is %s of %s: %s\n",
                text_percent((double)report->part, (double)report->whole).text, whole,
                text_amount(report->part, report->metrics.chosen[0].unit).text);
    else if (report->focus != report->whole)
        fprintf(out, "in focus is %s of %s: %s\n",
                text_percent((double)report->focus, (double)report->whole).text, whole,
                text_amount(report->focus, report->metrics.chosen[0].unit).text);
}

static void put_few(const struct report *report, uint64_t samples)
{
    char *few = sample_warning(&report->analysis->profile->metrics[report->metric], samples);
    if (few)
        fprintf(report->out, "%s\n", few);
    free(few);
}

#define COMMAND_COLUMNS 60 // of the command, at most
#define COMMAND_LEAST 20

static double whole_error(const struct report *report)
{
    const double whole = (double)report->whole;
    const bool recorded = report->metrics.chosen[0].index == report->metric;
    return recorded ? sampling_error(whole, whole * profile_sample_weight(report->analysis->profile,
                                                                          report->metric))
                    : 0;
}

// " ±1.2 MB", where blocks were sampled.
static void put_whole(const struct report *report)
{
    const char *unit = report->analysis->profile->metrics[report->metric].unit;
    const uint64_t error = (uint64_t)whole_error(report);
    fprintf(report->out, ": %s", text_amount(report->whole, unit).text);
    if (error)
        fprintf(report->out, " %s%s", report->style->unicode ? "±" : "+-",
                text_amount(error, unit).text);
}

// How much there is of the metric, in what.
static void put_size(const struct report *report, const struct report_sums *sums)
{
    const struct profile *profile = report->analysis->profile;
    const struct profile_metric *metric = &profile->metrics[report->metric];
    const char *name = text_safe(report->metrics.chosen[0].name);
    if (profile_counts_calls(metric))
        fprintf(report->out, ": %s %s, ", text_count(report->whole).text, name);
    else
        put_whole(report);
    // Or the samples are another event's, or not what this metric counts.
    const bool caused = profile_is_caused(metric);
    if (caused && metric != profile_samples_caused(profile))
        fprintf(report->out, " of %s, ", name);
    else if (!profile_counts_calls(metric))
        fprintf(report->out, " of %s in %s %s%s, ", name, text_count(sums->samples).text,
                profile_sample_word(metric), text_plural(sums->samples));
    if (report->runs[report->metric] > 1)
        fprintf(report->out, "%.0f runs, ", report->runs[report->metric]);
    fprintf(report->out, "%s process%s, %s thread%s\n", text_count(sums->processes).text,
            sums->processes == 1 ? "" : "es", text_count(sums->threads).text,
            text_plural(sums->threads));
}

// The command, cut so that the line fits, and the size of the profile.
static void put_title(const struct report *report, const struct report_sums *sums)
{
    const struct text_style *style = report->style;
    char *size = NULL;
    size_t bytes = 0;
    struct report sized = *report;
    sized.out = memory_checked(open_memstream(&size, &bytes));
    put_size(&sized, sums);
    fclose(sized.out);
    memory_checked(size);
    const unsigned taken = text_width(size) - 1; // without the end of the line
    unsigned most = report->options->wide ? 0 : COMMAND_COLUMNS;
    if (most > 0 && style->width > 0 && style->width < taken + most)
        most = style->width > taken + COMMAND_LEAST ? style->width - taken : COMMAND_LEAST;
    char *command = analysis_command(report->analysis->profile->command);
    char *cut = text_cut(command, most, style);
    text_put(report->out, style, TEXT_BOLD, cut);
    if (style->width > 0 && text_width(cut) + taken > style->width)
        fputs(":\n  ", report->out);
    else
        fputs(": ", report->out);
    fputs(size + 2, report->out);
    free(cut);
    free(command);
    free(size);
}

// Where one metric is empty, the others need not be.
static void put_other_sums(const struct report *report)
{
    const struct profile *profile = report->analysis->profile;
    unsigned others = 0;
    for (unsigned i = 0; i < profile->metric_count; i++) {
        const uint64_t sum = i == report->metric ? 0 : hot_whole(profile, i);
        if (sum > 0)
            fprintf(report->out, "%s%s of %s", others++ ? ", " : "; there is ",
                    text_amount(sum, profile->metrics[i].unit).text,
                    text_safe(profile->metrics[i].name));
    }
    fputs(others ? " (--metric NAME)\n" : "\n", report->out);
}

static void put_head(const struct report *report)
{
    const struct profile *profile = report->analysis->profile;
    const struct profile_metric *metric = &profile->metrics[report->metric];
    const char *name = text_safe(metric->name);
    const struct report_sums sums = report_sum_up(report);
    if (!profile->complete)
        fputs("this recording is still going on, or was cut off: this is what was saved of it\n",
              report->out);
    if (report->whole == 0 && profile_counts_calls(metric)) {
        fputs("no call was counted\n", report->out);
        return;
    }
    if (report->whole == 0 && profile_is_counted(metric)) {
        fprintf(report->out, "nothing: there is no %s at all", name);
        put_other_sums(report);
        return;
    }
    if (report->whole == 0) {
        if (profile->complete)
            fprintf(report->out, "nothing was sampled, the program was too short or idle: %s",
                    report_sees_more(metric));
        else
            fputs("nothing was sampled yet\n", report->out);
        return;
    }
    put_few(report, sums.samples);
    report_text_names(report);
    put_view(report);
    put_selection(report);
    fputc('\n', report->out);
}

void report_put_wrapped(const struct report *report, enum text_tone tone,
                        void (*say)(const struct report *))
{
    char *text = NULL;
    size_t bytes = 0;
    struct report aside = *report;
    aside.out = memory_checked(open_memstream(&text, &bytes));
    say(&aside);
    fclose(aside.out);
    wrap_lines(report->out, report->style, tone, memory_checked(text));
    free(text);
}

void report_text_head(const struct report *report)
{
    const struct report_sums sums = report_sum_up(report);
    put_title(report, &sums);
    report_put_wrapped(report, TEXT_PLAIN, put_head);
}

static void put_metric(struct json *json, const char *name, const char *unit)
{
    json_object(json);
    json_put_string(json, "name", name);
    json_put_string(json, "unit", unit);
    json_end_object(json);
}

// The profiles that costs are spread over.
static void put_ranks(struct json *json, const struct spread *spread)
{
    json_key(json, "ranks");
    json_array(json);
    for (uint32_t i = 0; i < spread->count; i++)
        json_string(json, spread->profile->ranks[spread->ranks[i]].name);
    json_end_array(json);
}

void report_json_head(const struct report *report, struct json *json)
{
    static const char *const views[] = {"tree", "callers", "flat", "processes", "blame"};
    static const char *const by[] = {"function", "line",    "module", "thread",
                                     "process",  "program", "file"};
    const struct profile *profile = report->analysis->profile;
    struct report_sums sums = report_sum_up(report);
    char *few = sample_warning(&profile->metrics[report->metric], sums.samples);
    json_put_string(json, "view", views[report->options->view]);
    if (report->options->view == VIEW_FLAT)
        json_put_string(json, "by", by[report->options->by]);
    json_put_words(json, "command", profile->command);
    json_key(json, "metrics");
    json_array(json);
    for (unsigned i = 0; i < profile->metric_count; i++)
        if (!profile_is_error(&profile->metrics[i])) // these are members of their own: "error"
            put_metric(json, profile->metrics[i].name, profile->metrics[i].unit);
    if (report->metrics.waiting)
        put_metric(json, METRIC_WAITING, "ns");
    json_end_array(json);
    json_key(json, "ratios");
    json_array(json);
    for (unsigned i = 0; i < report->ratio_count; i++)
        put_metric(json, report->ratios[i].name, report->ratios[i].unit);
    json_end_array(json);
    // The one that rows are sorted and left out by.
    json_put_string(json, "metric", report->metrics.chosen[0].name);
    json_put_bool(json, "complete", profile->complete); // false: still being recorded, or cut off
    json_put_unsigned(json, "samples", sums.samples);
    json_put_bool(json, "few_samples", few != NULL); // shares may be far off by chance
    json_put_unsigned(json, "whole", report->whole); // before refinement
    // Half of the interval that the whole lies in 19 times of 20, where blocks were sampled.
    json_put_unsigned(json, "whole_error", (uint64_t)whole_error(report));
    json_put_string(json, "tree", profile->tree_kind); // full, hot:PHI,EPS, bounded:K, functions
    // The share of the whole from which on contexts are shown; null: all are.
    json_put_real(json, "phi", report->phi > 0 ? report->phi : NAN);
    json_put_unsigned(json, "outside", report->outside); // the cost of contexts that are not shown
    json_put_unsigned(json, "purged", report->purged);   // the cost that trees have dropped
    json_put_unsigned(json, "hook_ns", sums.hook_ns);    // in no node: cairn's own time
    // The sum of contexts exceeds the whole by this, because of their errors.
    json_put_unsigned(json, "made_up", report->made_up);
    report_json_names(report, json);
    if (report->spread)
        put_ranks(json, report->spread);
    json_key(json, "notes");
    json_array(json);
    if (few)
        json_string(json, few);
    free(few);
    const char *note;
    for (unsigned i = 0; (note = analysis_note(report->analysis, i)); i++)
        json_string(json, note);
    json_end_array(json);
}
