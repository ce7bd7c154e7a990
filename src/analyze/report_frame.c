// SPDX-License-Identifier: MIT

#include "analyze/report_frame.h"
#include "analyze/few.h"
#include "base/memory.h"
#include "base/wrap.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NOTES_SHOWN 5
#define INCOMPLETE_LEAST 0.005 // of all paths

struct sums {
    uint64_t samples, threads;
    uint64_t verdicts[VERDICT_COUNT];
};

static struct sums sum_up(const struct report *report)
{
    const struct profile *profile = report->analysis->profile;
    struct sums sums = {0};
    for (unsigned i = 0; i < profile->tree_count; i++) {
        const struct profile_tree *tree = &profile->trees[i];
        if (!build_selects(report->analysis->functions, profile, tree, &report->options->build))
            continue;
        sums.samples += tree->stats.samples;
        for (unsigned v = 0; v < VERDICT_COUNT; v++)
            sums.verdicts[v] += tree->stats.verdicts[v];
        sums.threads += tree->threads;
    }
    if (!build_is_part(&report->options->build)) {
        // Threads that were never sampled left no tree.
        sums.threads = 0;
        for (unsigned i = 0; i < profile->process_count; i++)
            sums.threads += profile->processes[i].thread_starts;
    }
    return sums;
}

static const char *what_sees_more(const struct profile_metric *metric)
{
    return strcmp(metric->name, "cpu") == 0
               ? "try 'cairn record -F 10000', or '-e wall' for time spent waiting.\n"
               : "try 'cairn record -F 10000'.\n";
}

static const char *plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}

static void put_view(const struct report *report)
{
    const struct report_options *options = report->options;
    static const char *const by[] = {"function", "line", "module", "thread", "process", "program"};
    const char *metric = text_safe(report->metrics.chosen[0].name);
    bool counts_calls = profile_counts_calls(&report->analysis->profile->metrics[report->metric]);
    if (options->view == VIEW_TREE && report->kind.functions)
        fprintf(report->out, "functions by %s: who called them was not recorded", metric);
    else if (options->view == VIEW_TREE)
        fprintf(report->out, "call tree by %s: each function under its caller; %s", metric,
                counts_calls ? "below is with the calls that it makes, and these make"
                             : "total is with all it calls");
    else if (options->view == VIEW_CALLERS)
        fprintf(report->out,
                "callers by %s: under each function who called it; all costs are that function's",
                metric);
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
    if (options->build.process)
        fprintf(out, "only process %u\n", options->build.process);
    if (options->build.tid)
        fprintf(out, "only thread %u\n", options->build.tid);
    if (options->build.process_name)
        fprintf(out, "only processes like '%s'\n",
                text_safe(pattern_text(options->build.process_name)));
    if (options->build.thread)
        fprintf(out, "only threads like '%s'\n", text_safe(pattern_text(options->build.thread)));
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
    char *few = few_samples(&report->analysis->profile->metrics[report->metric], samples);
    if (few)
        fprintf(report->out, "%s\n", few);
    free(few);
}

#define COMMAND_COLUMNS 60 // of the command, at most
#define COMMAND_LEAST 20

// How much there is of the metric, in what.
static void put_size(const struct report *report, const struct sums *sums)
{
    const struct profile *profile = report->analysis->profile;
    const struct profile_metric *metric = &profile->metrics[report->metric];
    const char *name = text_safe(report->metrics.chosen[0].name);
    if (profile_counts_calls(metric))
        fprintf(report->out, ": %s %s, ", text_count(report->whole).text, name);
    else if (profile_is_alloc(metric) && !profile_samples_blocks(profile))
        fprintf(report->out, ": %s of %s, ", text_amount(report->whole, metric->unit).text,
                name); // the samples are another event's
    else
        fprintf(report->out, ": %s of %s in %s %s%s, ",
                text_amount(report->whole, metric->unit).text, name, text_count(sums->samples).text,
                profile_is_alloc(metric) ? "allocation" : "sample", plural(sums->samples));
    if (report->runs[report->metric] > 1)
        fprintf(report->out, "%.0f runs, ", report->runs[report->metric]);
    fprintf(report->out, "%s process%s, %s thread%s\n", text_count(profile->process_count).text,
            profile->process_count == 1 ? "" : "es", text_count(sums->threads).text,
            plural(sums->threads));
}

// The command, cut so that the line fits, and the size of the profile.
static void put_title(const struct report *report, const struct sums *sums)
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

static void put_head(const struct report *report)
{
    const struct profile *profile = report->analysis->profile;
    const struct profile_metric *metric = &profile->metrics[report->metric];
    const char *name = text_safe(metric->name);
    const struct sums sums = sum_up(report);
    if (!profile->complete)
        fputs("this recording is still going on, or was cut off: this is what was saved of it\n",
              report->out);
    if (report->whole == 0 && profile_counts_calls(metric)) {
        fputs("no call was counted\n", report->out);
        return;
    }
    if (report->whole == 0 && profile_is_counted(metric)) {
        fprintf(report->out, "nothing: there is no %s at all\n", name);
        return;
    }
    if (report->whole == 0) {
        if (profile->complete)
            fprintf(report->out, "nothing was sampled, the program was too short or idle: %s",
                    what_sees_more(metric));
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

// Prints what a function says, wrapped.
static void put_wrapped(const struct report *report, enum text_tone tone,
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
    const struct sums sums = sum_up(report);
    put_title(report, &sums);
    put_wrapped(report, TEXT_PLAIN, put_head);
}

// Rows of a tree that are not there are part of those above them; those of a list are of none.
static void put_left_out(const struct report *report, uint64_t count, const char *more)
{
    const bool one = count == 1;
    if (report->options->view == VIEW_FLAT)
        fprintf(report->out, " %s left out; %s.\n", one ? "is" : "are", more);
    else
        fprintf(report->out, " %s no row of %s own: the totals above include %s; %s.\n",
                one ? "has" : "have", one ? "its" : "their", one ? "it" : "them", more);
}

static void put_hidden(const struct report *report, const struct show_options *show,
                       const struct show_hidden *hidden)
{
    FILE *out = report->out;
    // Costs of hidden paths add up only where nothing is counted twice.
    bool adds_up = report->options->view != VIEW_CALLERS;
    double whole = (double)report->whole;
    if (hidden->small_count > 0 && hidden->least_percent <= 0) {
        // A list by self with --min 0: what is missing only calls others.
        fprintf(out, "%s row%s without cost of their own: --sort total shows them.\n",
                text_count(hidden->small_count).text, plural(hidden->small_count));
    } else if (hidden->small_count > 0) {
        fprintf(out, "%s %s%s below %.3g %%", text_count(hidden->small_count).text,
                report->options->view == VIEW_FLAT ? "row" : "path", plural(hidden->small_count),
                hidden->least_percent);
        if (report->focus != report->whole)
            fputs(" of these", out);
        if (hidden->library_percent > hidden->least_percent)
            fprintf(out, " (inside of libraries: %.3g %%)", hidden->library_percent);
        if (adds_up)
            fprintf(out, ", %s in all,", text_percent((double)hidden->small_cost, whole).text);
        put_left_out(report, hidden->small_count, "--min 0 shows all");
    }
    if (hidden->deep_count > 0) {
        fprintf(out, "%s path%s deeper than %u call%s", text_count(hidden->deep_count).text,
                plural(hidden->deep_count), show->depth, plural(show->depth));
        if (adds_up)
            fprintf(out, ", %s in all,", text_percent((double)hidden->deep_cost, whole).text);
        put_left_out(report, hidden->deep_count, "a larger --depth shows more");
    }
}

static void put_recursion(const struct report *report)
{
    if (report->folded)
        fputs("Recursion is folded: a function is on a path once, with all that its inner calls "
              "do; --fold-recursion=no shows each call.\n",
              report->out);
}

static void put_cut(const struct report *report)
{
    unsigned depth = report->options->depth ? report->options->depth - 1 : CALLERS_DEPTH;
    if (report->cut > 0)
        fprintf(report->out, "Not followed beyond %u caller%s: %s path%s (--depth).\n", depth,
                plural(depth), text_count(report->cut).text, plural(report->cut));
}

// Paths that do not begin where their thread did. What a bounded tree cuts is told elsewhere.
static void put_incomplete(const struct report *report)
{
    const struct sums sums = sum_up(report);
    uint64_t walks = 0, cut = 0;
    enum verdict reason = VERDICT_COMPLETE;
    for (unsigned v = 0; v < VERDICT_COUNT; v++) {
        walks += sums.verdicts[v];
        if (v == VERDICT_COMPLETE || v == VERDICT_MARKER || v == VERDICT_DETACHED)
            continue;
        cut += sums.verdicts[v];
        if (reason == VERDICT_COMPLETE || sums.verdicts[v] > sums.verdicts[reason])
            reason = (enum verdict)v;
    }
    if (cut > 0 && cut >= walks * INCOMPLETE_LEAST)
        fprintf(report->out,
                "Cut short: %s of the paths, most by %s; who called the outermost function of "
                "these is not known ('cairn info' tells more).\n",
                text_percent((double)cut, (double)walks).text, verdict_name(reason));
}

const struct report_explained report_explained[REPORT_EXPLAINED] = {
    {FUNCTION_STARTUP, "exec, the loader, and cairn's own start, before the first sample"},
    {FUNCTION_EXIT, "the kernel's work after the last instruction of a process"},
    {NO_PATH, "threads while they begin and end, and all of a thread that ends before its first "
              "sample (-F takes more)"},
};

static void put_explained(const struct report *report, const struct show_options *show,
                          const struct show_hidden *hidden)
{
    // It has a row, unless that is too small, rows are no functions, or something else is in focus.
    const bool functions = report->options->view != VIEW_FLAT ||
                           report->options->by == FLAT_FUNCTION || report->options->by == FLAT_LINE;
    const uint64_t least = show_least(show, hidden->least_percent);
    for (unsigned i = 0; i < REPORT_EXPLAINED && strcmp(show->unit, "ns") == 0; i++)
        if (functions && !show->to_roots && report->explained[i] > 0 &&
            report->explained[i] >= least)
            fprintf(report->out, "%s: %s.\n", report_explained[i].name,
                    report_explained[i].meaning);
}

static void put_hints(const struct report *report)
{
    const struct profile *profile = report->analysis->profile;
    bool by_process = report->options->build.processes == PROCESSES_APART ||
                      (report->options->view == VIEW_FLAT && report->options->by == FLAT_PROCESS);
    uint64_t folded = 0;
    for (unsigned i = 0; by_process && i < profile->process_count; i++)
        folded += profile->processes[i].merged_into != PROFILE_NOT_MERGED;
    if (folded)
        fprintf(report->out,
                "%s process%s counted with another one of the same program: 'cairn info --json' "
                "has the cost of each.\n",
                text_count(folded).text, folded == 1 ? " is" : "es are");
    if (sum_up(report).samples == 0 && !profile_is_counted(&profile->metrics[report->metric]))
        fprintf(report->out, "Too short for samples, only its time is known: %s",
                what_sees_more(&profile->metrics[report->metric]));
}

static void put_notes(const struct report *report)
{
    unsigned count = 0;
    for (const char *note; (note = analysis_note(report->analysis, count)); count++)
        if (count < NOTES_SHOWN)
            fprintf(report->out, "Note: %s\n", text_safe(note));
    if (count > NOTES_SHOWN)
        fprintf(report->out, "%u more notes: 'cairn info' has them all.\n", count - NOTES_SHOWN);
}

// What trees that forget have left out, and how far what they have can be trusted.
static void put_forgotten(const struct report *report, const struct show_options *show)
{
    FILE *out = report->out;
    const double whole = (double)report->whole;
    if (report->phi > 0 && report->hot.contexts == 0)
        fprintf(out, "Hot: no context has %.3g %% of the total, the hottest has %.3g %%: %s.\n",
                100 * report->phi, 100 * (double)report->hot.hottest / whole,
                report->kind.hot ? "record with a smaller phi (--tree hot:PHI)"
                                 : "a smaller --phi shows more");
    else if (report->phi > 0)
        fprintf(out,
                "Hot: %s context%s with at least %.3g %% of the total, and %s callers; %s lies "
                "outside of them%s.\n",
                text_count(report->hot.contexts).text, plural(report->hot.contexts),
                100 * report->phi, report->hot.contexts == 1 ? "its" : "their",
                text_percent((double)report->outside, whole).text,
                report->kind.hot ? " (--phi raises the limit)" : "");
    if (report->hot.unsure)
        fprintf(out,
                "Not shown: %s context%s met after the memory was used up, of which more than half "
                "may be an error.\n",
                text_count(report->hot.unsure).text, plural(report->hot.unsure));
    if (report->purged)
        fprintf(out, "%s of the total was purged from the trees: its contexts are forgotten.\n",
                text_percent((double)report->purged, whole).text);
    if (report->kind.hot && strcmp(report->kind.miner, "sticky") == 0)
        fprintf(out,
                "Sticky Sampling: a share may be too small by %.3g %% of the total, hardly ever by "
                "more.\n",
                100 * report->kind.epsilon);
    if (show->has_error)
        fprintf(out,
                "%s: by so much a share may be too large, because of contexts that were forgotten; "
                "without it, by less than 0.005. It is never too small.\n",
                show->unicode ? "±" : "+-");
    if (report->detached > 0)
        fprintf(out,
                DETACHED
                " f: a sample walked %u frames and met none that was known: who called f is "
                "not known.\n",
                report->kind.depth);
}

static void put_per_call(const struct report *report, const struct show_options *show)
{
    double costs = report->runs[show->metric], calls = report->runs[show->calls];
    fputs("per call: total divided by calls, what one call costs on that path with all it calls",
          report->out);
    if (costs != calls)
        fprintf(report->out, " (cost is of %.0f run%s, calls of %.0f)", costs,
                costs == 1 ? "" : "s", calls);
    fputs(".\n", report->out);
}

static bool is_chosen(const struct report *report, unsigned metric)
{
    for (unsigned i = 0; i < report->metrics.count; i++)
        if (report->metrics.chosen[i].index == metric)
            return true;
    return false;
}

static void put_other_metrics(const struct report *report, unsigned shown)
{
    for (unsigned i = shown; i < report->metrics.count; i++)
        fprintf(report->out, "%s%s",
                i > shown ? ", " : "Too wide for this terminal: ", report->metrics.chosen[i].name);
    if (shown < report->metrics.count)
        fputs("; --wide shows all metrics, --metric NAME,NAME some.\n", report->out);
    const struct profile *profile = report->analysis->profile;
    unsigned others = 0;
    for (unsigned i = 0; i < profile->metric_count; i++)
        if (!is_chosen(report, i) && !profile_is_error(&profile->metrics[i]) &&
            !profile_is_edge(&profile->metrics[i]))
            fprintf(report->out, "%s%s",
                    others++ ? ", " : "Recorded, too: ", profile->metrics[i].name);
    if (others && report_has_waiting(profile) && !report->metrics.waiting)
        fputs(", and so " METRIC_WAITING " (wall less cpu)", report->out);
    if (others)
        fputs(" (--metric NAME, or --metric all for all side by side).\n", report->out);
}

static void put_more(const struct report *report)
{
    static const char *const more[] = {
        ("More: --view callers (who calls the costly functions), --focus NAME (from a function "
         "down), --lines, 'cairn help report'.\n"),
        "More: --focus NAME (who calls one function), --view tree, 'cairn help report'.\n",
        "More: --by line, --by module, --view callers --focus NAME, 'cairn help report'.\n",
        "More: --process NAME (one of them), --by program, --per-process, 'cairn help report'.\n",
    };
    bool list = report->kind.functions &&
                report->options->view !=
                    VIEW_PROCESSES; // whatever the view: there are no callers to be shown
    fputs(list ? "More: --by module, 'cairn help report'.\n" : more[report->options->view],
          report->out);
}

void report_text_foot(const struct report *report, const struct show_options *show,
                      const struct show_hidden *hidden)
{
    char *text = NULL;
    size_t bytes = 0;
    struct report aside = *report;
    aside.out = memory_checked(open_memstream(&text, &bytes));
    fputc('\n', aside.out);
    put_hidden(&aside, show, hidden);
    put_recursion(&aside);
    put_cut(&aside);
    put_forgotten(&aside, show);
    put_incomplete(&aside);
    put_explained(&aside, show, hidden);
    bool column = report->options->view == VIEW_TREE || report->options->view == VIEW_CALLERS ||
                  report->options->by == FLAT_FUNCTION;
    if (hidden->returns)
        fputs("returns: how often the frame was seen to return between samples; not a count of "
              "calls.\n",
              aside.out);
    if (show->has_calls && !show->counts_calls && column)
        put_per_call(&aside, show);
    put_hints(&aside);
    put_notes(&aside);
    put_other_metrics(&aside, hidden->metrics);
    fclose(aside.out);
    wrap_lines(report->out, report->style, TEXT_PLAIN, memory_checked(text));
    free(text);
    put_wrapped(report, TEXT_DIM, put_more);
}

void report_json_head(const struct report *report, struct json *json)
{
    static const char *const views[] = {"tree", "callers", "flat", "processes"};
    static const char *const by[] = {"function", "line", "module", "thread", "process", "program"};
    const struct profile *profile = report->analysis->profile;
    struct sums sums = sum_up(report);
    char *few = few_samples(&profile->metrics[report->metric], sums.samples);
    json_put_string(json, "view", views[report->options->view]);
    if (report->options->view == VIEW_FLAT)
        json_put_string(json, "by", by[report->options->by]);
    json_put_words(json, "command", profile->command);
    json_key(json, "metrics");
    json_array(json);
    for (unsigned i = 0; i < profile->metric_count; i++) {
        if (profile_is_error(&profile->metrics[i])) // these are told apart, as "error"
            continue;
        json_object(json);
        json_put_string(json, "name", profile->metrics[i].name);
        json_put_string(json, "unit", profile->metrics[i].unit);
        json_end_object(json);
    }
    json_end_array(json);
    // The one that rows are sorted and left out by.
    json_put_string(json, "metric", profile->metrics[report->metric].name);
    json_put_bool(json, "complete", profile->complete); // false: still being recorded, or cut off
    json_put_unsigned(json, "samples", sums.samples);
    json_put_bool(json, "few_samples", few != NULL);   // shares may be far off by chance
    json_put_unsigned(json, "whole", report->whole);   // before refinement
    json_put_string(json, "tree", profile->tree_kind); // full, hot:PHI,EPS, bounded:K, functions
    // The share of the whole from which on contexts are shown; null: all are.
    json_put_real(json, "phi", report->phi > 0 ? report->phi : NAN);
    json_put_unsigned(json, "outside", report->outside); // what contexts that are not shown had
    json_put_unsigned(json, "purged", report->purged);   // what trees have forgotten
    // What contexts have in all beyond the whole, by their errors.
    json_put_unsigned(json, "made_up", report->made_up);
    report_json_names(report, json);
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
