// SPDX-License-Identifier: MIT

#include "cmd/status.h"
#include "base/json.h"
#include "base/text.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

// The line stands below the cursor, at the right, and leaves the cursor where the program had it:
// ESC D makes room below (scrolling if need be), ESC 7 and ESC 8 save and restore the position.
// When the program writes on, its text comes to the left of ours instead of into it.
#define LINE_BEGIN "\033D\033[A\0337\033[B\r\033[2K"
#define LINE_END "\0338"

void status_line_open(struct status_line *line, const struct record_options *options)
{
    const char *terminal = getenv("TERM");
    line->wanted = !options->quiet && !options->json && isatty(STDERR_FILENO) && terminal &&
                   strcmp(terminal, "dumb");
    line->shown = false;
}

// A program that reads single keys (an editor, a pager) owns the screen: keep off it. And a process
// group in the background must not write there at all.
static bool terminal_is_free(void)
{
    struct termios mode;
    return tcgetpgrp(STDERR_FILENO) == getpgrp() && !tcgetattr(STDERR_FILENO, &mode) &&
           mode.c_lflag & ICANON;
}

void status_line_show(struct status_line *line, uint64_t elapsed_ns,
                      const struct recorder_totals *totals, uint64_t file_bytes)
{
    char text[128];
    struct winsize size = {0};
    if (!line->wanted || !terminal_is_free())
        return;
    const bool calls = totals->samples == 0 && totals->calls > 0;
    const char *what = calls ? "calls" : totals->peak_bytes ? "allocations" : "samples";
    int length = snprintf(
        text, sizeof text, "[cairn] %.0f s, %s %s, %s thread%s, %u process%s, %s",
        (double)elapsed_ns / 1e9, text_count(calls ? totals->calls : totals->samples).text, what,
        text_count(totals->threads).text, totals->threads == 1 ? "" : "s", totals->processes,
        totals->processes == 1 ? "" : "es", text_bytes(file_bytes).text);
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) || size.ws_col < length + 2)
        return;
    fprintf(stderr, LINE_BEGIN "\033[%dG\033[2m%s\033[0m" LINE_END, size.ws_col - length, text);
    fflush(stderr);
    line->shown = true;
}

void status_line_clear(struct status_line *line)
{
    if (line->shown && terminal_is_free()) {
        fputs("\033[J", stderr);
        fflush(stderr);
    }
    line->shown = false;
}

static double rate_requested(const struct record_options *options)
{
    return live_event_counts(options->event) ? 0 : 1e9 / (double)options->period_ns;
}

static double rate_achieved(const struct recorder_totals *totals)
{
    return totals->cost_ns ? (double)totals->samples * 1e9 / (double)totals->cost_ns : 0;
}

char *source_advice(const struct record_options *options, const struct recording_summary *summary)
{
    char *advice = NULL;
    const struct recorder_totals *totals = &summary->totals;
    bool timer = summary->sources.by[LIVE_SOURCE_TIMER];
    // Who asks for a source knows what it means.
    if (options->source != LIVE_SOURCE_AUTO || !timer)
        return NULL;
    int length =
        asprintf(&advice,
                 "perf events are not permitted here, so timers took the samples: %.0f a "
                 "second of CPU time where %.0f were asked for; the total is right all the "
                 "same. To get more: sysctl kernel.perf_event_paranoid=2 (or CAP_PERFMON)",
                 rate_achieved(totals), rate_requested(options));
    return length < 0 ? NULL : advice;
}

char *unseen_advice(const struct record_options *options, const struct recording_summary *summary)
{
    const struct recorder_totals *totals = &summary->totals;
    char *advice = NULL;
    // Only where the two sums are meant to be the same.
    if (options->event != LIVE_EVENT_CPU || options->delay_ns || options->duration_ns ||
        !options->follow_fork || options->empty_handler || summary->running)
        return NULL;
    // Until the agent is in, a process has loaded its libraries; the kernel may count by its tick.
    uint64_t allowed =
        UINT64_C(50000000) + UINT64_C(10000000) * totals->processes + summary->cpu_ns / 20;
    if (summary->cpu_ns <= totals->cost_ns + allowed)
        return NULL;
    uint64_t unseen = summary->cpu_ns - totals->cost_ns;
    int length = asprintf(&advice,
                          "%s of the %s CPU time that the kernel counted were not seen: spent in "
                          "programs that the agent could not get into (static, setuid), perhaps",
                          text_duration(unseen).text, text_duration(summary->cpu_ns).text);
    return length < 0 ? NULL : advice;
}

static void print_why_empty(const struct record_options *options,
                            const struct recording_summary *summary)
{
    const struct recorder_totals *totals = &summary->totals;
    if (totals->processes == 0)
        complain("nothing was recorded: the agent was not loaded into %s. It may have run a static "
                 "or setuid program, or one with a cleared environment: record that program itself",
                 options->command[0]);
    else if (!summary->started)
        complain("nothing was recorded: %s ended within the --delay", options->command[0]);
    else if (options->event == LIVE_EVENT_CALLS)
        complain("no call was followed: %s ran no function that %s; see --calls-by",
                 options->command[0],
                 options->calls_by == LIVE_CALLS_BY_ENTRIES ? "was built with 'cairn cc'"
                                                            : "could be followed");
    else if (options->event == LIVE_EVENT_ALLOC)
        complain("no allocation was seen: %s has an allocator of its own, perhaps",
                 options->command[0]);
    else
        complain("no sample was taken: %s ran for less than a period (%s) of %s time; a higher "
                 "rate (-F) sees more",
                 options->command[0], text_duration(options->period_ns).text, options->event_name);
}

static void print_calls(const struct recorder_totals *totals)
{
    fprintf(stderr, "cairn: %s call%s in %s context%s (%s), %s thread%s, %u process%s\n",
            text_count(totals->calls).text, totals->calls == 1 ? "" : "s",
            text_count(totals->frames).text, totals->frames == 1 ? "" : "s",
            text_bytes(totals->tree_bytes).text, text_count(totals->threads).text,
            totals->threads == 1 ? "" : "s", totals->processes, totals->processes == 1 ? "" : "es");
}

static void print_samples(const struct record_options *options,
                          const struct recorder_totals *totals)
{
    uint64_t walks = totals->complete + totals->incomplete;
    fprintf(stderr, "cairn: %s sample%s of %s %s time in %s thread%s, %u process%s; %s lost\n",
            text_count(totals->samples).text, totals->samples == 1 ? "" : "s",
            text_duration(totals->cost_ns).text, options->event_name,
            text_count(totals->threads).text, totals->threads == 1 ? "" : "s", totals->processes,
            totals->processes == 1 ? "" : "es", text_count(totals->lost).text);
    fprintf(stderr, "cairn: %.2f %% complete contexts; cost of sampling: %.2f %%\n",
            walks ? 100.0 * (double)totals->complete / (double)walks : 100.0,
            totals->cost_ns ? 100.0 * (double)totals->handler_ns / (double)totals->cost_ns : 0);
}

static void print_blocks(const struct recorder_totals *totals)
{
    uint64_t walks = totals->complete + totals->incomplete;
    fprintf(stderr,
            "cairn: %s allocated in %s block%s, %s live at the end, at most %s; %s thread%s, %u "
            "process%s; %.2f %% complete contexts\n",
            text_bytes(totals->cost_ns).text, text_count(totals->samples).text,
            totals->samples == 1 ? "" : "s", text_bytes(totals->live_bytes).text,
            text_bytes(totals->peak_bytes).text, text_count(totals->threads).text,
            totals->threads == 1 ? "" : "s", totals->processes, totals->processes == 1 ? "" : "es",
            walks ? 100.0 * (double)totals->complete / (double)walks : 100.0);
    if (totals->unheld)
        complain("%s blocks found no room in the table of blocks, and count as live whether they "
                 "are or not; --memory raises it",
                 text_count(totals->unheld).text);
}

static void print_lines(const struct record_options *options,
                        const struct recording_summary *summary)
{
    const struct recorder_totals *totals = &summary->totals;
    const bool counts = options->event == LIVE_EVENT_CALLS;
    if (counts ? totals->calls == 0 : totals->samples == 0)
        print_why_empty(options, summary);
    else if (options->event == LIVE_EVENT_ALLOC)
        print_blocks(totals);
    else if (!counts)
        print_samples(options, totals);
    if (totals->calls)
        print_calls(totals);
    if (options->trigger && totals->samples)
        fprintf(stderr,
                "cairn: the calls are an estimate, by %s stack samples at one call out of %s\n",
                text_count(totals->samples).text, text_count(options->call_period).text);
    if (counts && totals->lost)
        complain("%s calls were made by signal handlers at moments when none can be counted",
                 text_count(totals->lost).text);
    if (totals->unplaced)
        complain("%s %s count to an ancestor of where they belong: the memory limit was "
                 "reached; --memory raises it",
                 text_count(totals->unplaced).text,
                 options->event == LIVE_EVENT_ALLOC ? "blocks"
                 : counts                           ? "calls"
                                                    : "samples");
    if (totals->forgetting)
        complain("the memory limit was reached: from then on only hot contexts were kept, with a "
                 "bound of their error; --memory raises it");
    char *advice = source_advice(options, summary);
    if (advice)
        complain("%s", advice);
    free(advice);
    advice = unseen_advice(options, summary);
    if (advice)
        complain("%s", advice);
    free(advice);
    if (summary->running == 1)
        complain("1 process still runs; the profile completes when it ends");
    else if (summary->running)
        complain("%u processes still run; the profile completes when they end", summary->running);
    bool standard = !strcmp(options->output, DEFAULT_PROFILE);
    fprintf(stderr, "cairn: %s is %s; next: cairn report%s%s\n", options->output,
            text_bytes(summary->file_bytes).text, standard ? "" : " ",
            standard ? "" : options->output);
}

static void print_json(const struct record_options *options,
                       const struct recording_summary *summary)
{
    const struct recorder_totals *totals = &summary->totals;
    uint64_t walks = totals->complete + totals->incomplete;
    const struct {
        const char *key;
        uint64_t value;
    } counts[] = {
        {"duration_ns", summary->elapsed_ns},
        {"processes", totals->processes},
        {"processes_running", summary->running},
        {"threads", totals->threads},
        {"samples", totals->samples},
        {"samples_lost", totals->lost},
        {"samples_unplaced", totals->unplaced},
        {"cost_ns", totals->cost_ns},
        {"cpu_ns", summary->cpu_ns},
        {"handler_ns", totals->handler_ns},
        {"nodes", totals->nodes},
        {"contexts", totals->frames},
        {"calls", totals->calls},
        {"tree_bytes", totals->tree_bytes},
        {"file_bytes", summary->file_bytes},
    };
    struct json json;
    json_start(&json, stderr);
    json_object(&json);
    json_key(&json, "profile");
    json_string(&json, options->output);
    json_key(&json, "event");
    json_string(&json, options->event_name);
    json_key(&json, "period_ns");
    json_unsigned(&json, options->period_ns);
    json_key(&json, "rate_requested");
    json_real(&json, rate_requested(options));
    json_key(&json, "rate_achieved");
    json_real(&json, rate_achieved(totals));
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        json_key(&json, counts[i].key);
        json_unsigned(&json, counts[i].value);
    }
    json_key(&json, "tree");
    json_string(&json, tree_name(&options->trees).text);
    json_key(&json, "memory_limit_reached");
    json_bool(&json, totals->forgetting > 0);
    json_key(&json, "complete_pct");
    json_real(&json, walks ? 100.0 * (double)totals->complete / (double)walks : 100.0);
    char *advice = source_advice(options, summary);
    json_key(&json, "advice");
    json_string(&json, advice);
    free(advice);
    json_end_object(&json);
    json_finish(&json);
}

void print_summary(const struct record_options *options, const struct recording_summary *summary)
{
    if (options->quiet)
        return;
    if (options->json)
        print_json(options, summary);
    else
        print_lines(options, summary);
    fflush(stderr);
}
