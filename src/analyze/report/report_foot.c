// SPDX-License-Identifier: MIT

// The text below the table of a report: hidden rows, the meaning of rows, and how to see more.

#include "analyze/report/report_frame.h"
#include "analyze/report/show_chain.h"
#include "base/memory.h"
#include "base/text/wrap.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define NOTES_SHOWN 5
#define INCOMPLETE_LEAST 0.005 // of all paths

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
        // A list by self with --min 0: missing functions only call others.
        fprintf(out, "%s row%s without cost of their own: --sort total shows them.\n",
                text_count(hidden->small_count).text, text_plural(hidden->small_count));
    } else if (hidden->small_count > 0) {
        fprintf(out, "%s %s%s below %.3g %%", text_count(hidden->small_count).text,
                report->options->view == VIEW_FLAT ? "row" : "path",
                text_plural(hidden->small_count), hidden->least_percent);
        if (report->focus != report->whole)
            fputs(" of these", out);
        if (hidden->library_percent > hidden->least_percent)
            fprintf(out, " (%.3g %% inside libraries)", hidden->library_percent);
        if (adds_up)
            fprintf(out, ", %s in all,", text_percent((double)hidden->small_cost, whole).text);
        put_left_out(report, hidden->small_count, "--min 0 shows all");
    }
    if (hidden->deep_count > 0) {
        fprintf(out, "%s path%s deeper than %u call%s", text_count(hidden->deep_count).text,
                text_plural(hidden->deep_count), show->depth, text_plural(show->depth));
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

static void put_going_on(const struct report *report, const struct show_options *show,
                         const struct show_hidden *hidden)
{
    if (hidden->going_on > 0)
        fprintf(report->out,
                "%s %s: from there on, the callers are those of the first row with that "
                "function.\n",
                show->unicode ? "‹" : "<", chain_gap(show));
}

static void put_cut(const struct report *report)
{
    unsigned depth = report->options->depth ? report->options->depth - 1 : CALLERS_DEPTH;
    if (report->cut > 0 && depth == 0)
        fputs("Callers are left out; a larger --depth shows them.\n", report->out);
    else if (report->cut > 0)
        fprintf(report->out, "%s path%s on beyond %u caller%s; a larger --depth shows more.\n",
                text_count(report->cut).text, report->cut == 1 ? " goes" : "s go", depth,
                text_plural(depth));
}

// Paths that do not begin where their thread did. The cuts of a bounded tree are reported
// elsewhere.
static void put_incomplete(const struct report *report)
{
    const struct report_sums sums = report_sum_up(report);
    uint64_t walks = 0, cut = 0;
    enum verdict reason = VERDICT_COMPLETE;
    for (unsigned v = 0; v < VERDICT_COUNT; v++) {
        walks += sums.verdicts[v];
        if (v == VERDICT_COMPLETE || v == VERDICT_MARKER || v == VERDICT_DETACHED ||
            v == VERDICT_GUESSED)
            continue;
        cut += sums.verdicts[v];
        if (reason == VERDICT_COMPLETE || sums.verdicts[v] > sums.verdicts[reason])
            reason = (enum verdict)v;
    }
    if (cut > 0 && cut >= walks * INCOMPLETE_LEAST)
        fprintf(report->out,
                "Cut short: %s of the paths, most by %s; the callers of their outermost "
                "functions are not known ('cairn info' says more).\n",
                text_percent((double)cut, (double)walks).text, verdict_name(reason));
    const uint64_t guessed = sums.verdicts[VERDICT_GUESSED];
    if (guessed > 0 && guessed >= walks * INCOMPLETE_LEAST)
        fprintf(report->out,
                "Guessed: %s of the paths lead through code without unwind tables; some of their "
                "frames may be missing or wrong.\n",
                text_percent((double)guessed, (double)walks).text);
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
                           report->options->by == FLAT_FUNCTION ||
                           report->options->by == FLAT_LINE || report->options->by == FLAT_FILE;
    const uint64_t least = show_least(show, hidden->least_percent);
    for (unsigned i = 0; i < REPORT_EXPLAINED && strcmp(show->unit, "ns") == 0; i++)
        if (functions && !show->to_roots && report->explained[i] > 0 &&
            report->explained[i] >= least)
            fprintf(report->out, "%s: %s.\n", report_explained[i].name,
                    report_explained[i].meaning);
}

static void put_hooks(const struct report *report)
{
    const uint64_t ns = report_sum_up(report).hook_ns;
    if (ns && strcmp(report->analysis->profile->metrics[report->metric].unit, "ns") == 0)
        fprintf(
            report->out,
            "Hooks on calls took another %s, which no function is charged with. Code that ran "
            "beside them is hidden there: cost per call is a lower bound ('cairn help merge').\n",
            text_duration(ns).text);
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
    if (report_sum_up(report).samples == 0 &&
        !profile_is_counted(&profile->metrics[report->metric]))
        fprintf(report->out, "Too short for samples, only its time is known: %s",
                report_sees_more(&profile->metrics[report->metric]));
}

static void put_notes(const struct report *report)
{
    // Missing symbols do not matter where rows are processes.
    const struct report_options *options = report->options;
    const bool by_process =
        options->view == VIEW_FLAT && (options->by == FLAT_PROCESS || options->by == FLAT_PROGRAM);
    const unsigned most = by_process ? report->analysis->profile->note_count : UINT_MAX;
    unsigned count = 0;
    for (const char *note; count < most && (note = analysis_note(report->analysis, count)); count++)
        if (count < NOTES_SHOWN)
            fprintf(report->out, "Note: %s\n", text_safe(note));
    if (count > NOTES_SHOWN)
        fprintf(report->out, "%u more notes: 'cairn info' has them all.\n", count - NOTES_SHOWN);
}

// The cost that hot and bounded trees left out, and the bound of their errors.
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
                text_count(report->hot.contexts).text, text_plural(report->hot.contexts),
                100 * report->phi, report->hot.contexts == 1 ? "its" : "their",
                text_percent((double)report->outside, whole).text,
                report->kind.hot ? " (--phi raises the limit)" : "");
    if (report->hot.unsure)
        fprintf(out,
                "Not shown: %s context%s met after the memory was used up, of which more than half "
                "may be an error.\n",
                text_count(report->hot.unsure).text, text_plural(report->hot.unsure));
    if (report->purged)
        fprintf(out, "%s of the total was purged from the trees: its contexts are forgotten.\n",
                text_percent((double)report->purged, whole).text);
    if (report->kind.hot && report->kind.miner == LIVE_MINER_STICKY)
        fprintf(out,
                "Sticky Sampling: a share may be too small by %.3g %% of the total, hardly ever by "
                "more.\n",
                100 * report->kind.epsilon);
    if (show->has_error)
        fprintf(out,
                "%s: a share may be too large by this much, since the tree drops contexts; without "
                "it, by less than 0.005. It is never too small.\n",
                show->unicode ? "±" : "+-");
    if (show->estimated && !show->has_error)
        fprintf(out,
                "%s: by so much a share may be off, because blocks were sampled; in 95 of 100 "
                "recordings it is not off by more.\n",
                show->unicode ? "±" : "+-");
    if (report->detached > 0)
        fprintf(out,
                DETACHED " f: a sample walked %u frames and met no known one: the callers of f are "
                         "not known.\n",
                report->kind.depth);
}

static void put_spread(const struct report *report, const struct show_options *show)
{
    const struct spread *spread = report->spread;
    const struct spread_row *whole = &spread->whole;
    fprintf(report->out,
            "min, mean, max: of the total in one of the %s profiles that were merged; imbalance: "
            "by how much max exceeds mean. %s has the most of all: %s, ",
            text_count(spread->count).text, text_safe(spread->profile->ranks[whole->rank].name),
            text_amount(whole->most, show->unit).text);
    fprintf(report->out, "where the mean is %s.\n",
            text_amount((uint64_t)spread_mean(spread, whole), show->unit).text);
}

static void put_per_call(const struct report *report, const struct show_options *show)
{
    double costs = report->runs[show->metric], calls = report->runs[show->calls];
    fputs("per call: total divided by calls, what one call costs on that path with all it calls",
          report->out);
    if (costs != calls)
        fprintf(report->out, " (cost of %.0f run%s, calls of %.0f)", costs,
                text_plural((uint64_t)costs), calls);
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
    unsigned wall, cpu;
    if (others && metric_waiting(profile, &wall, &cpu) && !report->metrics.waiting)
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
        NULL,
        "More: --process NAME (one of them), --by program, --per-process, 'cairn help report'.\n",
        "More: --focus NAME (from a function down), --metric blame (holders), 'cairn help "
        "report'.\n",
    };
    static const char *const more_of_lists[] = {
        "More: --by line, --by module, --view callers --focus NAME, 'cairn help report'.\n",
        "More: --by function, --by module, --view callers --focus NAME, 'cairn help report'.\n",
        "More: --by function, --by line, --view callers --focus NAME, 'cairn help report'.\n",
        ("More: --per-thread=tid (each thread of a name), --thread NAME (one of them), 'cairn help "
         "report'.\n"),
        ("More: --view processes (who started whom), --process NAME (one of them), 'cairn help "
         "report'.\n"),
        ("More: --by process (each process of a program), --process NAME (one of them), 'cairn "
         "help report'.\n"),
        ("More: --view callers --focus NAME (who uses a file), --metric NAME, 'cairn help "
         "report'.\n"),
    };
    const bool flat = report->options->view == VIEW_FLAT;
    bool list = report->kind.functions &&
                report->options->view !=
                    VIEW_PROCESSES; // whatever the view: there are no callers to be shown
    fputs(list   ? "More: --by module, 'cairn help report'.\n"
          : flat ? more_of_lists[report->options->by]
                 : more[report->options->view],
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
    put_going_on(&aside, show, hidden);
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
    if (show->spread)
        put_spread(&aside, show);
    put_hooks(&aside);
    put_hints(&aside);
    put_notes(&aside);
    put_other_metrics(&aside, hidden->metrics);
    fclose(aside.out);
    wrap_lines(report->out, report->style, TEXT_PLAIN, memory_checked(text));
    free(text);
    report_put_wrapped(report, TEXT_DIM, put_more);
}
