// SPDX-License-Identifier: MIT

#include "analyze/summary/sampling_cost.h"
#include "analyze/summary/summary.h"
#include "analyze/views/hot.h"
#include "base/memory.h"
#include "base/text/wrap.h"
#include "live/choices.h"
#include "profile/queries/sampling_error.h"
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct sheet {
    FILE *out;
    const struct text_style *style;
};

enum { VALUE_COLUMN = 13 };

// A row of the list: a title, a value, and its meaning. Values are wrapped on a terminal; where
// lines have no width, each is one line.
static void put(const struct sheet *sheet, const char *what, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void put(const struct sheet *sheet, const char *what, const char *format, ...)
{
    char *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    if (vasprintf(&text, format, arguments) < 0)
        memory_checked(NULL);
    va_end(arguments);
    text_put(sheet->out, sheet->style, TEXT_DIM, what);
    fprintf(sheet->out, "%*s", VALUE_COLUMN - (int)text_width(what), "");
    if (sheet->style->width)
        wrap_print(sheet->out, sheet->style, TEXT_PLAIN, text, VALUE_COLUMN);
    else
        fprintf(sheet->out, "%s\n", text_safe(text));
    free(text);
}

// A damaged file may claim any rate, infinity among them.
static struct text_number rate_text(double rate)
{
    return text_count(rate > 0 && rate < 1e18 ? (uint64_t)(rate + 0.5) : 0);
}

static void put_event(const struct sheet *sheet, const char *what, const struct profile *profile,
                      unsigned index, const struct profile_totals *totals)
{
    const struct profile_metric *metric = &profile->metrics[index];
    const char *source = metric->source && *metric->source ? metric->source : "?";
    struct text_number every = text_amount(metric->period, metric->unit);
    char runs[64] = "";
    if (profile_runs(metric) > 1)
        snprintf(runs, sizeof runs, ", of %s runs", text_count(metric->runs).text);
    bool calls = profile_counts_calls(metric);
    if (profile_is_estimated(profile, index))
        put(sheet, what, "%s by %s%s, a sample every %s; ± holds in 95 of 100 recordings",
            metric->name, source, runs, every.text);
    else if (profile_is_counted(metric))
        put(sheet, what, "%s by %s%s, every one counted", metric->name, source, runs);
    else if (profile_is_counter(metric) && metric->rate_requested > 0)
        put(sheet, what, "%s by %s%s: %s samples a second asked for", metric->name, source, runs,
            rate_text(metric->rate_requested).text);
    else if (calls || metric->rate_requested <= 0)
        put(sheet, what, "%s by %s%s%s%s", metric->name, source, runs,
            metric->period ? ", one in " : "", metric->period ? every.text : "");
    else
        put(sheet, what, "%s by %s%s, every %s: %s samples a second asked for, %s got",
            metric->name, source, runs, every.text, rate_text(metric->rate_requested).text,
            rate_text(summary_rate(profile, index, totals)).text);
}

static void put_recording(const struct sheet *sheet, const struct analysis *analysis,
                          const struct profile_totals *totals)
{
    const struct profile *profile = analysis->profile;
    char *whole = analysis_command(profile->command), when[64] = "";
    const unsigned width = sheet->style->width;
    char *command = text_cut(whole, width > VALUE_COLUMN ? width - VALUE_COLUMN : 0, sheet->style);
    free(whole);
    time_t seconds = (time_t)(profile->start_realtime_ns / 1000000000);
    struct tm local;
    if (localtime_r(&seconds, &local))
        strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &local);
    put(sheet, "command", "%s", command);
    free(command);
    // An imported profile need not know its time.
    const bool dated = profile->start_realtime_ns != 0;
    put(sheet, "recorded", "%s%sfor %s%s", dated ? when : "", dated ? ", " : "",
        text_duration(profile->duration_ns).text,
        profile->complete ? "" : " (cut off, or still going on)");
    put(sheet, "processes", "%s, with %s thread%s", text_count(profile->process_count).text,
        text_count(totals->threads).text, text_plural(totals->threads));
    for (unsigned i = 0; i < profile->metric_count; i++) {
        const struct profile_metric *metric = &profile->metrics[i];
        // "alloc" is one event that has all its metrics; so is "io".
        if (!profile_is_error(metric) && !profile_is_edge(metric) &&
            (!profile_is_caused(metric) || summary_names_event(metric)))
            put_event(sheet, i ? "" : "event", profile, i, totals);
    }
    const char *why = profile->kernel ? strchr(profile->kernel, ' ') : NULL;
    put(sheet, "tracker", "%s, %s tree%s", profile->tracker ? profile->tracker : "?",
        profile->tree_kind ? profile->tree_kind : "?",
        !profile->kernel ? ""
        : why            ? ", with system calls"
                         : ", with the kernel's frames");
    if (why)
        put(sheet, "kernel", "%s", why + 1);
}

static void put_blocks(const struct sheet *sheet, const char *what,
                       const struct summary_alloc *alloc, enum alloc_metric bytes)
{
    if (!alloc->has[bytes] || !alloc->has[bytes + 1])
        return;
    if (alloc->period)
        put(sheet, what, "%s ±%s in %s ±%s block%s", text_bytes(alloc->sum[bytes]).text,
            text_bytes((uint64_t)alloc->error[bytes]).text, text_count(alloc->sum[bytes + 1]).text,
            text_count((uint64_t)alloc->error[bytes + 1]).text, text_plural(alloc->sum[bytes + 1]));
    else
        put(sheet, what, "%s in %s block%s", text_bytes(alloc->sum[bytes]).text,
            text_count(alloc->sum[bytes + 1]).text, text_plural(alloc->sum[bytes + 1]));
}

// Allocations. Of trees that forget, the process knows more than they do.
static void put_alloc(const struct sheet *sheet, const struct profile *profile,
                      const struct profile_totals *totals)
{
    struct summary_alloc alloc;
    const struct profile_alloc *known = &totals->alloc;
    if (!summary_alloc(profile, &alloc))
        return;
    if (!alloc.has[ALLOC_BLOCKS] && alloc.period)
        put(sheet, "allocated", "%s ±%s, by %s sampled blocks; %s live at the end, at most %s",
            text_bytes(alloc.sum[ALLOC_BYTES]).text,
            text_bytes((uint64_t)alloc.error[ALLOC_BYTES]).text, text_count(totals->samples).text,
            text_bytes(known->live).text, text_bytes(known->peak).text);
    else if (!alloc.has[ALLOC_BLOCKS])
        put(sheet, "allocated", "%s in %s blocks; %s live at the end, at most %s",
            text_bytes(totals->cost_ns).text, text_count(totals->samples).text,
            text_bytes(known->live).text, text_bytes(known->peak).text);
    put_blocks(sheet, "allocated", &alloc, ALLOC_BYTES);
    put_blocks(sheet, "freed", &alloc, ALLOC_FREED);
    put_blocks(sheet, "live at end", &alloc, ALLOC_LIVE);
    if (alloc.has[ALLOC_LIVE_AGE] && alloc.sum[ALLOC_LIVE])
        put(sheet, "", "%s old on average",
            text_amount(alloc.sum[ALLOC_LIVE_AGE] / alloc.sum[ALLOC_LIVE], "s").text);
    put_blocks(sheet, "at peak", &alloc, ALLOC_PEAK);
    if (alloc.sum[ALLOC_TEMPORARY])
        put(sheet, "temporary", "%s blocks (%s) freed before their thread allocated another one",
            text_count(alloc.sum[ALLOC_TEMPORARY]).text,
            text_percent((double)alloc.sum[ALLOC_TEMPORARY], (double)alloc.sum[ALLOC_BLOCKS]).text);
    if (alloc.sum[ALLOC_MAPPED] || alloc.sum[ALLOC_UNMAPPED])
        put(sheet, "mapped", "%s by the program itself, and %s unmapped",
            text_bytes(alloc.sum[ALLOC_MAPPED]).text, text_bytes(alloc.sum[ALLOC_UNMAPPED]).text);
    if (known->rootless)
        put(sheet, "", "%s blocks without a context: a handler, or a thread that has ended",
            text_count(known->rootless).text);
    if (known->unheld)
        put(sheet, "",
            "%s blocks (%s) found no room in the table: they count as live (see --memory)",
            text_count(known->unheld).text, text_bytes(known->unheld_bytes).text);
    if (known->unknown)
        put(sheet, "", "%s blocks freed that are not among these: from before, or from a parent",
            text_count(known->unknown).text);
}

static void put_io(const struct sheet *sheet, const struct profile *profile,
                   const struct profile_totals *totals)
{
    struct summary_io io;
    if (!summary_io(profile, &io))
        return;
    if (io.has[LIVE_IO_OPERATIONS])
        put(sheet, "i/o", "%s read and %s written in %s operation%s, which took %s",
            text_bytes(io.sum[LIVE_IO_READ]).text, text_bytes(io.sum[LIVE_IO_WRITTEN]).text,
            text_count(io.sum[LIVE_IO_OPERATIONS]).text, text_plural(io.sum[LIVE_IO_OPERATIONS]),
            text_duration(io.sum[LIVE_IO_NS]).text);
    else
        put(sheet, "i/o", "%s in %s operations", text_bytes(totals->cost_ns).text,
            text_count(totals->samples).text);
}

static void put_lock(const struct sheet *sheet, const struct profile *profile,
                     const struct profile_totals *totals)
{
    struct summary_lock lock;
    if (!summary_lock(profile, &lock))
        return;
    if (!lock.has[LIVE_LOCK_ACQUIRED]) {
        put(sheet, "locks", "%s waited for locks that were busy",
            text_duration(totals->cost_ns).text);
        return;
    }
    put(sheet, "locks", "%s taken, %s of them after a wait, which took %s",
        text_count(lock.sum[LIVE_LOCK_ACQUIRED]).text,
        text_count(lock.sum[LIVE_LOCK_CONTENDED]).text, text_duration(lock.sum[LIVE_LOCK_NS]).text);
    put(sheet, "", "%s of that are blamed on who held the lock",
        text_percent((double)lock.sum[LIVE_LOCK_BLAME], (double)lock.sum[LIVE_LOCK_NS]).text);
    put(sheet, "threads", "%s waited for other threads, in %s operation%s",
        text_duration(lock.sum[LIVE_SYNC_NS]).text, text_count(lock.sum[LIVE_SYNCS]).text,
        text_plural(lock.sum[LIVE_SYNCS]));
}

// Contexts of events that the program causes.
static void put_verified(const struct sheet *sheet, const struct profile_totals *totals)
{
    const struct profile_alloc *known = &totals->alloc;
    if (known->verified)
        put(sheet, "", "%s remembered contexts compared with a walk, %s of them wrong",
            text_count(known->verified).text, text_count(known->mismatches).text);
}

// The whole cost of sampling.
static void put_overhead(const struct sheet *sheet, const struct profile *profile,
                         const struct profile_totals *totals)
{
    const struct profile_overhead *overhead = &profile->overhead;
    const struct sampling_cost cost =
        sampling_cost(overhead, totals->handler_ns, totals->samples, totals->switches);
    if (totals->sparse)
        put(sheet, "sparse", "%s samples, of threads that are switched often: they stand for more",
            text_count(totals->sparse).text);
    if (!cost.measured)
        return;
    const double whole = (double)totals->cost_ns;
    put(sheet, "overhead",
        "about %s of the time sampled: handlers %s, interrupts and signals %s, "
        "context switches %s; the start of processes is not included (%s a sample where it was "
        "recorded, and %s at each of %s context switches)",
        text_percent((double)sampling_cost_sum(&cost), whole).text,
        text_percent((double)cost.handlers_ns, whole).text,
        text_percent((double)cost.ticks_ns, whole).text,
        text_percent((double)cost.switches_ns, whole).text, text_duration(overhead->tick_ns).text,
        text_duration(overhead->switch_ns).text, text_count(totals->switches).text);
}

static void put_samples(const struct sheet *sheet, const struct profile *profile,
                        const struct profile_totals *totals)
{
    const bool caused = profile_samples_caused(profile) != NULL;
    if (profile_times(profile) == 0 && !caused && !totals->samples)
        return; // calls were followed, and nothing was sampled
    if (!caused)
        put(sheet, "samples", "%s, %s lost%s%s", text_count(totals->samples).text,
            text_count(totals->lost).text, totals->cost_ns ? "; they stand for " : "",
            totals->cost_ns ? text_duration(totals->cost_ns).text : "");
    if (totals->unplaced)
        put(sheet, "",
            "%s without room in memory: counted to the nearest known caller (see --memory)",
            text_count(totals->unplaced).text);
    if (totals->hook_ns)
        put(sheet, "hooks", "%s in hooks on calls (%s samples): taken out, no function has it",
            text_duration(totals->hook_ns).text, text_count(totals->hook_samples).text);
    if (!caused && totals->samples == 0)
        return; // nothing to be said of none
    put(sheet, "contexts",
        "%.2f %% complete: %s walked to the root, %s to the marker, %s cut short",
        totals_complete_percent(totals), text_count(totals->verdicts[VERDICT_COMPLETE]).text,
        text_count(totals->verdicts[VERDICT_MARKER]).text,
        text_count(totals_truncated(totals)).text);
    if (totals->verdicts[VERDICT_GUESSED])
        put(sheet, "", "%.2f %% guessed: %s led through code without unwind tables",
            totals_guessed_percent(totals), text_count(totals->verdicts[VERDICT_GUESSED]).text);
    for (unsigned i = VERDICT_MARKER + 1; i < VERDICT_COUNT; i++)
        if (totals->verdicts[i] && i != VERDICT_GUESSED)
            put(sheet, "", "%s: %s", verdict_name((enum verdict)i),
                text_count(totals->verdicts[i]).text);
    put(sheet, "stack depth", "%.1f frames on average, of which %.1f were walked",
        summary_per_sample(totals, totals->frames_stack),
        summary_per_sample(totals, totals->frames_walked));
    if (caused)
        return;
    put(sheet, "handler", "%s on average, half below %s, 99 %% below %s: %s of the time sampled",
        text_duration((uint64_t)totals_handler_mean(totals)).text,
        text_duration(totals_handler_percentile(totals, 0.50)).text,
        text_duration(totals_handler_percentile(totals, 0.99)).text,
        text_percent((double)totals->handler_ns, (double)totals->cost_ns).text);
    put_overhead(sheet, profile, totals);
}

static void put_timeline(const struct sheet *sheet, const struct profile *profile,
                         const struct profile_totals *totals)
{
    const struct profile_timeline *timeline = &profile->timeline;
    const double charges = totals->charges ? (double)totals->charges : 1;
    if (timeline->recorded)
        put(sheet, "timeline", "%s charges with their time, %s lost; %s, %.1f bytes each",
            text_count(totals->charges).text, text_count(totals->charges_lost).text,
            text_bytes(timeline->stored_bytes).text, (double)timeline->stored_bytes / charges);
}

// Contexts that programs asked for.
static void put_asked(const struct sheet *sheet, const struct profile_totals *totals)
{
    if (!totals->asked_bytes && !totals->asked_unknown)
        return;
    put(sheet, "asked for", "contexts: %s by a new number, %s by a walk; %s to decode them",
        text_count(totals->asked_numbers).text, text_count(totals->asked_walked).text,
        text_bytes(totals->asked_bytes).text);
    if (totals->asked_unknown)
        put(sheet, "", "%s are not known, mostly for lack of room (see --memory)",
            text_count(totals->asked_unknown).text);
}

// By which call sites the calls of programs were followed that were not built for it.
static void put_sites(const struct sheet *sheet, const struct live_encode *sites)
{
    put(sheet, "call sites", "%s patched, of %s functions in %s file%s; %s more that call back",
        text_count(sites->sites_patched).text, text_count(sites->functions).text,
        text_count(sites->modules).text, text_plural(sites->modules),
        text_count(sites->callbacks).text);
    put(sheet, "", "%s left as they are, of which %s jumps by a table; %s cost a signal each time",
        text_count(sites->sites_skipped).text, text_count(sites->tables).text,
        text_count(sites->traps).text);
    if (sites->opaque)
        put(sheet, "", "%s functions or files cannot be decoded: their calls were not followed",
            text_count(sites->opaque).text);
    if (sites->late)
        put(sheet, "", "%s libraries came when there were threads: their calls were not followed",
            text_count(sites->late).text);
}

static struct text_number per_second(uint64_t count, const struct profile *profile)
{
    return rate_text(profile->duration_ns ? (double)count * 1e9 / (double)profile->duration_ns : 0);
}

// Counters of the encode tracker.
static void put_encoding(const struct sheet *sheet, const struct profile *profile,
                         const struct profile_totals *totals)
{
    const struct live_encode *encode = &totals->encode;
    if (!encode->functions)
        return;
    if (encode->modules) {
        put_sites(sheet, encode);
        return;
    }
    put(sheet, "encoding", "%s functions, %s edges, ids up to %s; %s re-encodings, %s in all",
        text_count(encode->functions).text, text_count(encode->edges).text,
        text_count(encode->max_id).text, text_count(encode->reencodings).text,
        text_duration(encode->reencode_ns).text);
    put(sheet, "", "%s sites patched, %s left alone%s", text_count(encode->sites_patched).text,
        text_count(encode->sites_skipped).text,
        encode->stopped ? "; stopped, since an unwinder remembers the stack's tables" : "");
    put(sheet, "",
        "%s pushes a second: %s recursion, %s overflow, %s targets without an arm, %s new edges",
        per_second(encode->pushes, profile).text,
        per_second(encode->pushes_recursion, profile).text,
        per_second(encode->pushes_overflow, profile).text,
        per_second(encode->pushes_armless, profile).text,
        per_second(encode->pushes_new, profile).text);
    put(sheet, "", "%s samples by a known number, %s by a new one, %s by a walk",
        text_count(encode->decoded).text, text_count(encode->confirmed).text,
        text_count(encode->walked).text);
    put(sheet, "", "%s at a frame with a number, %s in leaf functions, %s further away",
        text_count(encode->direct).text, text_count(encode->from_leaf).text,
        text_count(encode->climbed).text);
    put(sheet, "", "%s numbers compared with a walk, %s of them wrong",
        text_count(encode->verified).text, text_count(encode->mismatches).text);
}

// The part that the trees have kept, if that is not everything.
static void put_kept(const struct sheet *sheet, const struct profile *profile,
                     const struct profile_totals *totals)
{
    const struct profile_kind kind = profile_kind(profile);
    const struct hot_use use = hot_use(profile);
    const char *unit = profile->metrics[0].unit;
    const double whole = (double)use.whole;
    if (kind.hot)
        put(sheet, "kept",
            "hot contexts: at least %.3g %% of the total, to an error of %.3g %% at most; by %s",
            100 * kind.phi, 100 * kind.epsilon, live_word(LIVE_MINERS, kind.miner));
    // The others have as many as they need.
    const bool has_limit = kind.hot && kind.miner == LIVE_MINER_SPACE_SAVING;
    if (kind.hot && !kind.full && use.counters)
        put(sheet, "",
            "%s%s%s counters in use; a context that has none had at most %s, %s of the total",
            text_count(use.contexts).text, has_limit ? " of " : "",
            has_limit ? text_count(use.counters).text : "", text_amount(use.floor, unit).text,
            text_percent((double)use.floor, whole).text);
    else if (!kind.hot && use.counters) // as many as there was memory for
        put(sheet, "kept",
            "everything, until the memory was used up; a context that is not there had at most %s "
            "since, %s of the total",
            text_amount(use.floor, unit).text, text_percent((double)use.floor, whole).text);
    const bool samples_contexts = kind.hot && kind.miner == LIVE_MINER_STICKY;
    if (samples_contexts)
        put(sheet, "", "counts begin by chance: what a context had before that is missing");
    else if (kind.has_errors)
        put(sheet, "", "the largest error of a count is %s, %s of the total%s",
            text_amount(use.largest_error, unit).text,
            text_percent((double)use.largest_error, whole).text,
            use.largest_error ? "" : ": all are exact");
    if (kind.bounded)
        put(sheet, "kept", "at most %u frames of a sample", kind.depth);
    if (kind.functions)
        put(sheet, "kept", "functions, not who called them");
    if (totals->purged)
        put(sheet, "", "%s were purged: their contexts are forgotten",
            text_amount(totals->purged, unit).text);
}

static void put_phases(const struct sheet *sheet, const struct profile *profile)
{
    char *names = profile_phases(profile, ", ");
    if (names)
        put(sheet, "phases", "%s", names);
    free(names);
}

static void put_sizes(const struct sheet *sheet, const struct profile *profile,
                      const struct profile_totals *totals)
{
    const struct profile_kind kind = profile_kind(profile);
    put(sheet, "tree", "%s nodes of %u bytes; %s of memory in all, at most %s in one process",
        text_count(totals->nodes).text, summary_node_bytes(profile, &kind),
        text_bytes(totals->tree_bytes).text, text_bytes(totals->agent_bytes).text);
    put(sheet, "file", "%s, format %u", text_bytes(profile->file_bytes).text, profile->format);
}

static void print_modules(FILE *out, const struct text_style *style,
                          const struct analysis *analysis)
{
    static const enum text_align align[] = {TEXT_LEFT, TEXT_FLEX};
    static const char *const qualities[] = {"no symbols", "function names", "functions and lines",
                                            "functions and lines"};
    static const char *const head[] = {"symbols", "module"};
    struct text_table *table = text_table_new(2, align, head);
    for (unsigned i = MODULE_VDSO; i < analysis->profile->module_count; i++) {
        const char *path = analysis->profile->modules[i].path;
        if (!path)
            continue;
        enum symbol_quality quality = symbols_quality(analysis->symbols, i);
        text_table_cell(table, quality == SYMBOLS_NONE ? TEXT_WARM : TEXT_PLAIN,
                        qualities[quality]);
        text_table_cell(table, TEXT_PLAIN, path);
    }
    text_table_print(table, out, style);
    text_table_free(table);
}

static void put_note(FILE *out, const struct text_style *style, bool first, const char *note)
{
    char *line = NULL;
    if (asprintf(&line, "%sNote: %s", first ? "\n" : "", text_safe(note)) < 0)
        memory_checked(NULL);
    wrap_lines(out, style, TEXT_PLAIN, line);
    free(line);
}

void summary_print(FILE *out, const struct text_style *style, const struct analysis *analysis,
                   const struct profile_totals *totals)
{
    const struct sheet sheet = {out, style};
    put_recording(&sheet, analysis, totals);
    put_kept(&sheet, analysis->profile, totals);
    put_phases(&sheet, analysis->profile);
    put_alloc(&sheet, analysis->profile, totals);
    put_io(&sheet, analysis->profile, totals);
    put_lock(&sheet, analysis->profile, totals);
    put_verified(&sheet, totals);
    put_samples(&sheet, analysis->profile, totals);
    put_encoding(&sheet, analysis->profile, totals);
    put_asked(&sheet, totals);
    put_timeline(&sheet, analysis->profile, totals);
    put_sizes(&sheet, analysis->profile, totals);
    summary_print_owners(out, style, analysis);
    fputc('\n', out);
    print_modules(out, style, analysis);
    const char *note;
    for (unsigned i = 0; (note = analysis_note(analysis, i)); i++)
        put_note(out, style, i == 0, note);
}
