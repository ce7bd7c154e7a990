// SPDX-License-Identifier: MIT

#include "cmd/record/status.h"
#include "analyze/summary/sampling_cost.h"
#include "base/text/json.h"
#include "base/text/text.h"
#include "event/event.h"
#include "profile/profile.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double rate_requested(const struct record_options *options)
{
    return !event_of(options->event)->by_clock ? 0 : 1e9 / (double)options->period_ns;
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
    // A user who asks for a source knows its limits.
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
        !options->follow_fork || options->empty_handler || summary->running || summary->refused)
        return NULL;
    // Until the agent is in, a process has loaded its libraries; the kernel may count by its tick.
    uint64_t allowed =
        UINT64_C(50000000) + UINT64_C(10000000) * totals->processes + summary->cpu_ns / 20;
    if (summary->cpu_ns <= totals->cost_ns + allowed)
        return NULL;
    uint64_t unseen = summary->cpu_ns - totals->cost_ns;
    int length = asprintf(
        &advice,
        "%s of the %s CPU time that the kernel counted were not seen: spent %sin "
        "programs that the agent could not get into (static, setuid, 32-bit, of another user), "
        "perhaps",
        text_duration(unseen).text, text_duration(summary->cpu_ns).text,
        options->tracker == LIVE_TRACKER_WALK ? "" : "on rewriting call sites at the start, or ");
    return length < 0 ? NULL : advice;
}

char *refused_advice(const struct record_options *options, const struct recording_summary *summary)
{
    char *advice = NULL;
    if (!summary->refused)
        return NULL;
    int length =
        asprintf(&advice,
                 "%s process%s not recorded: the file size limit (ulimit -f) leaves room for %u, "
                 "with %s each; raise it, or lower --memory",
                 text_count(summary->refused).text, summary->refused == 1 ? " was" : "es were",
                 summary->totals.processes, text_bytes(options->memory).text);
    return length < 0 ? NULL : advice;
}

static void print_advice(char *advice)
{
    if (advice)
        complain("%s", advice);
    free(advice);
}

// Notes about things that the agent could not do, or left alone.
static void print_notes(const struct recording_summary *summary)
{
    for (unsigned i = 0; summary->notes[i]; i++)
        complain("%s", summary->notes[i]);
    if (summary->more_notes)
        complain("%u more notes: 'cairn info' has them all", summary->more_notes);
}

// The last line of a recording that went wrong.
static void print_incomplete(const struct record_options *options,
                             const struct recording_summary *summary)
{
    if (summary->is_elsewhere)
        complain("%s is lost: %s; name another file with -o, and record again", options->output,
                 summary->incomplete);
    else
        complain("%s is incomplete: %s; it holds the first %s of %s. Make room, or name another "
                 "file with -o, and record again",
                 options->output, summary->incomplete, text_duration(summary->written_ns).text,
                 text_duration(summary->elapsed_ns).text);
}

static void print_why_empty(const struct record_options *options,
                            const struct recording_summary *summary)
{
    const struct recorder_totals *totals = &summary->totals;
    if (totals->processes == 0 && summary->refused)
        complain("nothing was recorded");
    else if (totals->processes == 0)
        complain("nothing was recorded: the agent was not loaded into %s. It may have run a static "
                 "or setuid program, or one with a cleared environment: record that program itself",
                 options->command[0]);
    else if (!summary->started)
        complain("nothing was recorded: %s ended within the --delay", options->command[0]);
    else if (options->event == LIVE_EVENT_CALLS && options->burst_interval_ns)
        complain(
            "no call was followed: %s called nothing in a burst (%s out of each %s): it may be "
            "too short for them",
            options->command[0], text_duration(options->burst_length_ns).text,
            text_duration(options->burst_interval_ns).text);
    else if (options->event == LIVE_EVENT_CALLS)
        complain("no call was followed: %s ran no function that %s; see --calls-by",
                 options->command[0],
                 options->calls_by == LIVE_BY_ENTRIES ? "was built with 'cairn cc'"
                                                      : "could be followed");
    else if (options->event == LIVE_EVENT_ALLOC)
        complain("no allocation was seen: %s made none, or has an allocator of its own",
                 options->command[0]);
    else
        complain("no sample was taken: %s ran for less than a period (%s) of %s time; a higher "
                 "rate (-F) sees more%s",
                 options->command[0], text_duration(options->period_ns).text, options->event_name,
                 options->event == LIVE_EVENT_CPU ? ", and -e wall what it waited for" : "");
}

static void print_calls(const struct recorder_totals *totals)
{
    complain("%s call%s in %s context%s (%s), %s thread%s, %u process%s",
             text_count(totals->calls).text, text_plural(totals->calls),
             text_count(totals->frames).text, text_plural(totals->frames),
             text_bytes(totals->tree_bytes).text, text_count(totals->threads).text,
             text_plural(totals->threads), totals->processes, totals->processes == 1 ? "" : "es");
}

static struct sampling_cost cost_of(const struct recording_summary *summary)
{
    const struct recorder_totals *totals = &summary->totals;
    return sampling_cost(&summary->overhead, totals->handler_ns, totals->samples, totals->switches);
}

static void print_samples(const struct record_options *options,
                          const struct recording_summary *summary)
{
    const struct recorder_totals *totals = &summary->totals;
    const struct sampling_cost cost = cost_of(summary);
    uint64_t walks = totals->complete + totals->incomplete;
    const bool wall_beside =
        options->event == LIVE_EVENT_CPU && record_has(options, LIVE_EVENT_WALL);
    complain("%s sample%s of %s %s%s time in %s thread%s, %u process%s; %s lost",
             text_count(totals->samples).text, text_plural(totals->samples),
             text_duration(totals->cost_ns).text, options->event_name,
             wall_beside ? " and of wall" : "", text_count(totals->threads).text,
             text_plural(totals->threads), totals->processes, totals->processes == 1 ? "" : "es",
             text_count(totals->lost).text);
    complain("%.2f %% complete contexts; %s",
             walks ? 100.0 * (double)totals->complete / (double)walks : 100.0,
             sampling_cost_text(&cost, totals->cost_ns).text);
}

// Peaks of several processes are not of one moment: the highest is shown, not their sum.
static const char *whose_peak(const struct recorder_totals *totals)
{
    return totals->processes > 1 ? " in one process" : "";
}

// Blocks, where the samples are another event's.
static void print_blocks_beside(const struct recorder_totals *totals)
{
    complain("%s allocated in %s block%s, %s live at the end, at most %s%s",
             text_bytes(totals->block_bytes).text, text_count(totals->blocks).text,
             text_plural(totals->blocks), text_bytes(totals->live_bytes).text,
             text_bytes(totals->peak_bytes).text, whose_peak(totals));
}

static void print_unheld(const struct recorder_totals *totals)
{
    if (totals->unheld)
        complain("%s blocks found no room in the table of blocks, and count as live whether they "
                 "are or not; --memory raises it",
                 text_count(totals->unheld).text);
}

static void print_blocks(const struct recorder_totals *totals)
{
    uint64_t walks = totals->complete + totals->incomplete;
    complain("%s allocated in %s block%s, %s live at the end, at most %s%s; %s thread%s, %u "
             "process%s; %.2f %% complete contexts",
             text_bytes(totals->cost_ns).text, text_count(totals->samples).text,
             text_plural(totals->samples), text_bytes(totals->live_bytes).text,
             text_bytes(totals->peak_bytes).text, whose_peak(totals),
             text_count(totals->threads).text, text_plural(totals->threads), totals->processes,
             totals->processes == 1 ? "" : "es",
             walks ? 100.0 * (double)totals->complete / (double)walks : 100.0);
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
        print_samples(options, summary);
    if (options->event != LIVE_EVENT_ALLOC && totals->blocks)
        print_blocks_beside(totals);
    print_unheld(totals);
    if (totals->calls)
        print_calls(totals);
    if (options->trigger && totals->calls)
        complain("the calls are an estimate, by stack samples at one call out of %s",
                 text_count(options->call_period).text);
    if (counts && totals->lost)
        complain("%s calls were made by signal handlers at moments when none can be counted",
                 text_count(totals->lost).text);
    if (totals->unplaced)
        complain("%s %s count at the nearest caller with a place in the tree: the memory limit "
                 "was reached; --memory raises it",
                 text_count(totals->unplaced).text,
                 options->event_count > 1 ? "samples, calls or blocks"
                                          : event_of(options->event)->many);
    if (totals->forgetting)
        complain("the memory limit was reached: from then on only hot contexts were kept, with a "
                 "bound of their error; --memory raises it");
    print_notes(summary);
    print_advice(source_advice(options, summary));
    print_advice(unseen_advice(options, summary));
    print_advice(refused_advice(options, summary));
    if (summary->running == 1)
        complain("1 process still runs; the profile completes when it ends");
    else if (summary->running)
        complain("%u processes still run; the profile completes when they end", summary->running);
    bool standard = !strcmp(options->output, DEFAULT_PROFILE);
    if (!summary->is_elsewhere)
        complain("%s is %s; next: cairn report%s%s", options->output,
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
        {"samples_sparse", totals->sparse},
        {"switches", totals->switches},
        {"nodes", totals->nodes},
        {"contexts", totals->frames},
        {"calls", totals->calls},
        {"blocks", totals->blocks},
        {"block_bytes", totals->block_bytes},
        {"tree_bytes", totals->tree_bytes},
        {"file_bytes", summary->file_bytes},
    };
    struct json json;
    json_start(&json, stderr);
    json_object(&json);
    json_put_string(&json, "profile", options->output);
    json_put_string(&json, "event", options->event_name);
    json_key(&json, "events");
    json_array(&json);
    for (unsigned i = 0; i < options->event_count; i++)
        json_string(&json, event_of(options->events[i])->name);
    json_end_array(&json);
    json_put_unsigned(&json, "period_ns", options->period_ns);
    json_put_real(&json, "rate_requested", rate_requested(options));
    json_put_real(&json, "rate_achieved", rate_achieved(totals));
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        json_put_unsigned(&json, counts[i].key, counts[i].value);
    const struct sampling_cost cost = cost_of(summary);
    json_key(&json, "sampling_cost_ns");
    if (cost.measured)
        json_unsigned(&json, sampling_cost_sum(&cost));
    else
        json_null(&json);
    json_put_string(&json, "tree", tree_name(&options->trees).text);
    json_put_bool(&json, "memory_limit_reached", totals->forgetting > 0);
    json_put_real(&json, "complete_pct",
                  walks ? 100.0 * (double)totals->complete / (double)walks : 100.0);
    char *advice = source_advice(options, summary);
    json_put_string(&json, "advice", advice);
    free(advice);
    json_put_bool(&json, "complete", !summary->incomplete && !summary->running);
    json_put_string(&json, "error", summary->incomplete);
    json_put_words(&json, "notes", summary->notes);
    json_put_unsigned(&json, "processes_refused", summary->refused);
    json_end_object(&json);
    json_finish(&json);
}

void print_summary(const struct record_options *options, const struct recording_summary *summary)
{
    if (options->json && !options->quiet)
        print_json(options, summary);
    else if (!options->quiet)
        print_lines(options, summary);
    if (summary->incomplete && !options->json)
        print_incomplete(options, summary);
    fflush(stderr);
}
