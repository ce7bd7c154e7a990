// SPDX-License-Identifier: MIT

#include "cmd/record/status.h"
#include "analyze/summary/sampling_cost.h"
#include "base/text/json.h"
#include "base/text/text.h"
#include "event/event.h"
#include "profile/profile.h"
#include "profile/queries/sampling_error.h"
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
    const uint64_t seen = totals->cost_ns + totals->hook_ns;
    if (summary->cpu_ns <= seen + allowed)
        return NULL;
    uint64_t unseen = summary->cpu_ns - seen;
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
    else if (options->event == LIVE_EVENT_IO)
        complain("no I/O was seen: %s has read and written nothing by functions of libc",
                 options->command[0]);
    else if (options->event == LIVE_EVENT_LOCK)
        complain("no lock was taken: %s has used none, or other ones than those of libc",
                 options->command[0]);
    else if (options->event == LIVE_EVENT_ALLOC)
        complain("no allocation was %s: %s made none, or has an allocator of its own%s",
                 options->alloc_period ? "sampled" : "seen", options->command[0],
                 options->alloc_period ? ", or made few: -e alloc counts each" : "");
    else if (options->event == LIVE_EVENT_OFFCPU)
        complain("no wait was seen: %s was never off the processor for long", options->command[0]);
    else if (options->event == LIVE_EVENT_COUNTER)
        complain("no sample was taken: %s counted no period of %s", options->command[0],
                 options->event_name);
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

// Shares of all walks, in percent.
struct walk_shares {
    double complete, guessed;
};

static struct walk_shares shares_of(const struct recorder_totals *totals)
{
    const double walks = (double)(totals->complete + totals->guessed + totals->truncated);
    if (walks == 0)
        return (struct walk_shares){.complete = 100.0};
    return (struct walk_shares){100.0 * (double)totals->complete / walks,
                                100.0 * (double)totals->guessed / walks};
}

struct contexts_text {
    char text[64];
};

static struct contexts_text contexts_text(const struct recorder_totals *totals)
{
    const struct walk_shares shares = shares_of(totals);
    struct contexts_text shown;
    const int length =
        snprintf(shown.text, sizeof shown.text, "%.2f %% complete contexts", shares.complete);
    if (totals->guessed)
        snprintf(shown.text + length, sizeof shown.text - (size_t)length, ", %.2f %% guessed",
                 shares.guessed);
    return shown;
}

static void print_samples(const struct record_options *options,
                          const struct recording_summary *summary)
{
    const struct recorder_totals *totals = &summary->totals;
    const struct sampling_cost cost = cost_of(summary);
    const bool wall_beside =
        options->event == LIVE_EVENT_CPU && record_has(options, LIVE_EVENT_WALL);
    complain("%s sample%s of %s %s%s time in %s thread%s, %u process%s; %s lost",
             text_count(totals->samples).text, text_plural(totals->samples),
             text_duration(totals->cost_ns).text, options->event_name,
             wall_beside ? " and of wall" : "", text_count(totals->threads).text,
             text_plural(totals->threads), totals->processes, totals->processes == 1 ? "" : "es",
             text_count(totals->lost).text);
    if (totals->handler_ns)
        complain("%s; %s", contexts_text(totals).text,
                 sampling_cost_text(&cost, totals->cost_ns).text);
    else // from outside there are no handlers
        complain("%s", contexts_text(totals).text);
    if (totals->hook_ns)
        complain("hooks on calls took another %s, which no function is charged with",
                 text_duration(totals->hook_ns).text);
}

// Peaks of several processes are not of one moment: the highest is shown, not their sum.
static const char *whose_peak(const struct recorder_totals *totals)
{
    return totals->processes > 1 ? " in one process" : "";
}

struct allocated_text {
    char text[192];
};

// "35.8 MB allocated in 304,945 blocks"; of sampled ones, with the interval that 95 of 100
// estimates lie in.
static struct allocated_text allocated(const struct record_options *options, uint64_t bytes,
                                       uint64_t blocks, uint64_t variance)
{
    struct allocated_text said;
    const double period = (double)options->alloc_period;
    if (!options->alloc_period)
        snprintf(said.text, sizeof said.text, "%s allocated in %s block%s", text_bytes(bytes).text,
                 text_count(blocks).text, text_plural(blocks));
    else if (variance)
        snprintf(said.text, sizeof said.text, "%s ±%s allocated in %s ±%s blocks",
                 text_bytes(bytes).text,
                 text_bytes((uint64_t)sampling_error((double)bytes, (double)bytes * period)).text,
                 text_count(blocks).text,
                 text_count((uint64_t)sampling_error((double)blocks, (double)variance)).text);
    else
        snprintf(said.text, sizeof said.text, "%s ±%s allocated", text_bytes(bytes).text,
                 text_bytes((uint64_t)sampling_error((double)bytes, (double)bytes * period)).text);
    return said;
}

// Blocks, where the samples are another event's.
static void print_blocks_beside(const struct record_options *options,
                                const struct recorder_totals *totals)
{
    complain("%s, %s live at the end, at most %s%s",
             allocated(options, totals->block_bytes, totals->blocks, totals->blocks_variance).text,
             text_bytes(totals->live_bytes).text, text_bytes(totals->peak_bytes).text,
             whose_peak(totals));
}

static void print_unheld(const struct recorder_totals *totals)
{
    if (totals->unheld)
        complain("%s blocks found no room in the table of blocks, and count as live whether they "
                 "are or not; --memory raises it",
                 text_count(totals->unheld).text);
}

static void print_blocks(const struct record_options *options, const struct recorder_totals *totals)
{
    const uint64_t blocks = options->alloc_period ? totals->blocks : totals->samples;
    if (options->alloc_period)
        complain("%s block%s sampled, one every %s; ± holds in 95 of 100 recordings",
                 text_count(totals->samples).text, text_plural(totals->samples),
                 text_bytes(options->alloc_period).text);
    complain("%s, %s live at the end, at most %s%s; %s thread%s, %u process%s; %s",
             allocated(options, totals->cost_ns, blocks, totals->blocks_variance).text,
             text_bytes(totals->live_bytes).text, text_bytes(totals->peak_bytes).text,
             whose_peak(totals), text_count(totals->threads).text, text_plural(totals->threads),
             totals->processes, totals->processes == 1 ? "" : "es", contexts_text(totals).text);
}

static void print_io(const struct recorder_totals *totals)
{
    const uint64_t operations = totals->io[LIVE_IO_OPERATIONS];
    complain("%s read and %s written in %s operation%s, which took %s",
             text_bytes(totals->io[LIVE_IO_READ]).text,
             text_bytes(totals->io[LIVE_IO_WRITTEN]).text, text_count(operations).text,
             text_plural(operations), text_duration(totals->io[LIVE_IO_NS]).text);
}

static void print_lock(const struct recorder_totals *totals)
{
    const uint64_t acquired = totals->lock[LIVE_LOCK_ACQUIRED];
    complain("%s lock%s taken, %s after a wait: %s waited for locks, %s for other threads",
             text_count(acquired).text, text_plural(acquired),
             text_count(totals->lock[LIVE_LOCK_CONTENDED]).text,
             text_duration(totals->lock[LIVE_LOCK_NS]).text,
             text_duration(totals->lock[LIVE_SYNC_NS]).text);
}

static void print_offcpu(const struct recorder_totals *totals)
{
    const uint64_t *sums = totals->offcpu, waits = sums[LIVE_OFFCPU_WAITS];
    const uint64_t known = sums[LIVE_OFFCPU_LOCK] + sums[LIVE_OFFCPU_IO] + sums[LIVE_OFFCPU_SLEEP] +
                           sums[LIVE_OFFCPU_QUEUE];
    const uint64_t rest = sums[LIVE_OFFCPU_NS] > known ? sums[LIVE_OFFCPU_NS] - known : 0;
    if (!waits) // a tree that forgets has no more than the cost
        return;
    complain("%s off the processor in %s wait%s: %s for locks, %s for I/O, %s asleep, %s ready to "
             "run, %s else",
             text_duration(sums[LIVE_OFFCPU_NS]).text, text_count(waits).text, text_plural(waits),
             text_duration(sums[LIVE_OFFCPU_LOCK]).text, text_duration(sums[LIVE_OFFCPU_IO]).text,
             text_duration(sums[LIVE_OFFCPU_SLEEP]).text,
             text_duration(sums[LIVE_OFFCPU_QUEUE]).text, text_duration(rest).text);
}

static bool knows_io(const struct recorder_totals *totals)
{
    return totals->io[LIVE_IO_OPERATIONS] > 0;
}

static bool knows_locks(const struct recorder_totals *totals)
{
    return totals->lock[LIVE_LOCK_ACQUIRED] || totals->lock[LIVE_SYNCS];
}

// I/O, or locks, with nothing sampled beside them. Of trees that forget, the cost is what is known.
static void print_caused_alone(const struct record_options *options,
                               const struct recorder_totals *totals)
{
    if (options->event == LIVE_EVENT_IO && !knows_io(totals))
        complain("%s read or written in %s operation%s", text_bytes(totals->cost_ns).text,
                 text_count(totals->samples).text, text_plural(totals->samples));
    if (options->event == LIVE_EVENT_LOCK && !knows_locks(totals))
        complain("%s waited for locks, %s time%s", text_duration(totals->cost_ns).text,
                 text_count(totals->samples).text, text_plural(totals->samples));
    complain("%s thread%s, %u process%s; %s", text_count(totals->threads).text,
             text_plural(totals->threads), totals->processes, totals->processes == 1 ? "" : "es",
             contexts_text(totals).text);
}

// Counters, with no clock beside them: the first of them.
static void print_counted(const struct record_options *options,
                          const struct recorder_totals *totals)
{
    const struct counter_choice *first = &options->counters[0];
    complain("%s %s in %s sample%s%s, %s thread%s, %u process%s; %s lost",
             text_amount(totals->cost_ns, first->unit).text, first->name,
             text_count(totals->samples).text, text_plural(totals->samples),
             options->counter_count > 1 ? " of all events" : "", text_count(totals->threads).text,
             text_plural(totals->threads), totals->processes, totals->processes == 1 ? "" : "es",
             text_count(totals->lost).text);
    complain("%s", contexts_text(totals).text);
}

static void print_intervals(const struct record_options *options,
                            const struct continuous_totals *intervals)
{
    const char *name = options->continuous.destination.name;
    complain("%s interval%s of %s in %s", text_count(intervals->delivered).text,
             text_plural(intervals->delivered), text_duration(options->continuous.every_ns).text,
             name);
    if (intervals->prolonged)
        complain("%s interval%s could not be written in time and became part of the next",
                 text_count(intervals->prolonged).text, text_plural(intervals->prolonged));
    if (intervals->refused)
        complain("%s interval%s refused, and lost: %s", text_count(intervals->refused).text,
                 intervals->refused == 1 ? " was" : "s were", intervals->problem);
    if (intervals->waiting)
        complain("%s interval%s could not be delivered (%s): see %s/waiting",
                 text_count(intervals->waiting).text, text_plural(intervals->waiting),
                 intervals->problem, intervals->folder);
    if (intervals->is_unmade)
        complain("the last interval could not be written (%s): it is %s/latest.out less %s",
                 intervals->problem, intervals->folder,
                 intervals->delivered + intervals->waiting ? "delivered.out there" : "nothing");
}

static void print_lines(const struct record_options *options,
                        const struct recording_summary *summary)
{
    const struct recorder_totals *totals = &summary->totals;
    const bool counts = options->event == LIVE_EVENT_CALLS;
    if (counts ? totals->calls == 0 : totals->samples == 0)
        print_why_empty(options, summary);
    else if (options->event == LIVE_EVENT_ALLOC)
        print_blocks(options, totals);
    else if (options->event == LIVE_EVENT_OFFCPU)
        complain("%s thread%s, %u process%s; %s", text_count(totals->threads).text,
                 text_plural(totals->threads), totals->processes,
                 totals->processes == 1 ? "" : "es", contexts_text(totals).text);
    else if (options->event == LIVE_EVENT_COUNTER)
        print_counted(options, totals);
    else if (options->event == LIVE_EVENT_IO || options->event == LIVE_EVENT_LOCK)
        print_caused_alone(options, totals);
    else if (!counts)
        print_samples(options, summary);
    if (options->event != LIVE_EVENT_ALLOC && totals->blocks)
        print_blocks_beside(options, totals);
    if (knows_io(totals))
        print_io(totals);
    if (knows_locks(totals))
        print_lock(totals);
    if (record_has(options, LIVE_EVENT_OFFCPU))
        print_offcpu(totals);
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
                 options->event_count > 1 ? "samples, calls, blocks or operations"
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
    if (summary->has_intervals)
        print_intervals(options, &summary->intervals);
    if (!summary->is_elsewhere && !summary->intervals.profile_is_gone)
        complain("%s is %s; next: cairn report%s%s", options->output,
                 text_bytes(summary->file_bytes).text, standard ? "" : " ",
                 standard ? "" : options->output);
}

static void put_intervals(struct json *json, const struct continuous_totals *intervals)
{
    json_object(json);
    json_put_unsigned(json, "delivered", intervals->delivered);
    json_put_unsigned(json, "empty", intervals->empty);
    json_put_unsigned(json, "prolonged", intervals->prolonged);
    json_put_unsigned(json, "refused", intervals->refused);
    json_put_unsigned(json, "waiting", intervals->waiting);
    json_put_unsigned(json, "waiting_bytes", intervals->waiting_bytes);
    json_put_bool(json, "last_unmade", intervals->is_unmade);
    json_put_string(json, "folder",
                    intervals->waiting || intervals->is_unmade ? intervals->folder : NULL);
    json_put_string(json, "problem", *intervals->problem ? intervals->problem : NULL);
    json_end_object(json);
}

static void print_json(const struct record_options *options,
                       const struct recording_summary *summary)
{
    const struct recorder_totals *totals = &summary->totals;
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
        {"hook_ns", totals->hook_ns},
        {"samples_sparse", totals->sparse},
        {"switches", totals->switches},
        {"nodes", totals->nodes},
        {"contexts", totals->frames},
        {"calls", totals->calls},
        {"blocks", totals->blocks},
        {"block_bytes", totals->block_bytes},
        {"io_operations", totals->io[LIVE_IO_OPERATIONS]},
        {"io_read", totals->io[LIVE_IO_READ]},
        {"io_written", totals->io[LIVE_IO_WRITTEN]},
        {"locks", totals->lock[LIVE_LOCK_ACQUIRED]},
        {"lock_wait_ns", totals->lock[LIVE_LOCK_NS]},
        {"offcpu_ns", totals->offcpu[LIVE_OFFCPU_NS]},
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
        json_string(&json, record_event_name(options, i));
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
    const struct walk_shares shares = shares_of(totals);
    json_put_real(&json, "complete_pct", shares.complete);
    json_put_real(&json, "guessed_pct", shares.guessed);
    char *advice = source_advice(options, summary);
    json_put_string(&json, "advice", advice);
    free(advice);
    json_put_bool(&json, "complete", !summary->incomplete && !summary->running);
    json_put_string(&json, "error", summary->incomplete);
    json_put_words(&json, "notes", summary->notes);
    json_put_unsigned(&json, "processes_refused", summary->refused);
    json_key(&json, "intervals");
    if (summary->has_intervals)
        put_intervals(&json, &summary->intervals);
    else
        json_null(&json);
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
