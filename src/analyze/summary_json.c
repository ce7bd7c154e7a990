// SPDX-License-Identifier: MIT

#include "analyze/hot.h"
#include "analyze/summary.h"
#include "base/json.h"
#include <inttypes.h>

static void put_text(struct json *json, const char *key, const char *text)
{
    json_key(json, key);
    json_string(json, text);
}

static void put_number(struct json *json, const char *key, uint64_t number)
{
    json_key(json, key);
    json_unsigned(json, number);
}

static void put_real(struct json *json, const char *key, double number)
{
    json_key(json, key);
    json_real(json, number);
}

static void put_events(struct json *json, const struct profile *profile,
                       const struct profile_totals *totals)
{
    json_key(json, "events");
    json_array(json);
    for (unsigned i = 0; i < profile->metric_count; i++) {
        const struct profile_metric *metric = &profile->metrics[i];
        if (profile_is_error(metric) || profile_is_edge(metric)) // of trees, not of events
            continue;
        json_object(json);
        put_text(json, "name", metric->name);
        put_text(json, "unit", metric->unit);
        put_number(json, "period", metric->period);
        put_text(json, "source", metric->source);
        put_real(json, "rate_requested", metric->rate_requested);
        put_real(json, "rate_achieved", profile_is_alloc(metric) ? 0 : totals_rate(totals));
        put_number(json, "runs", profile_runs(metric));
        json_end_object(json);
    }
    json_end_array(json);
}

static void put_walks(struct json *json, const struct profile_totals *totals)
{
    const uint64_t *verdicts = totals->verdicts;
    json_key(json, "walks");
    json_object(json);
    put_number(json, "complete", verdicts[VERDICT_COMPLETE]);
    put_number(json, "marker", verdicts[VERDICT_MARKER]);
    put_number(json, "truncated", totals_walks(totals) - totals_complete(totals));
    put_real(json, "complete_pct", totals_complete_percent(totals));
    json_key(json, "reasons");
    json_object(json);
    for (unsigned i = VERDICT_MARKER + 1; i < VERDICT_COUNT; i++)
        if (verdicts[i])
            put_number(json, verdict_name((enum verdict)i), verdicts[i]);
    json_end_object(json);
    json_end_object(json);
}

static void put_costs(struct json *json, const struct profile_totals *totals)
{
    json_key(json, "handler_ns");
    json_object(json);
    put_real(json, "mean", totals_handler_mean(totals));
    put_number(json, "p50", totals_handler_percentile(totals, 0.50));
    put_number(json, "p99", totals_handler_percentile(totals, 0.99));
    json_end_object(json);
    json_key(json, "frames_per_sample");
    json_object(json);
    put_real(json, "stack", summary_per_sample(totals, totals->frames_stack));
    put_real(json, "walked", summary_per_sample(totals, totals->frames_walked));
    json_end_object(json);
}

// What the trees have kept, and to what error; only where that is not everything.
static void put_kept(struct json *json, const struct profile *profile,
                     const struct profile_totals *totals)
{
    const struct profile_kind kind = profile_kind(profile);
    if (kind.hot || kind.has_errors) {
        const struct hot_use use = hot_use(profile);
        json_key(json, "hot");
        json_object(json);
        put_real(json, "phi", kind.phi);
        put_real(json, "epsilon", kind.epsilon);
        put_text(json, "miner", kind.hot ? kind.miner : "space-saving");
        put_number(json, "counters", use.counters);
        put_number(json, "counters_used", use.contexts);
        put_number(json, "total", use.whole);
        put_number(json, "error_bound", use.counters ? use.whole / use.counters : 0);
        put_number(json, "floor", use.floor);
        put_number(json, "largest_error", use.largest_error);
        json_end_object(json);
    }
    if (kind.bounded) {
        json_key(json, "bounded");
        json_object(json);
        put_number(json, "depth", kind.depth);
        json_end_object(json);
    }
    put_number(json, "purged", totals->purged);
}

static void put_modules(struct json *json, const struct analysis *analysis)
{
    static const char *const qualities[] = {"none", "table", "dwarf"};
    const struct profile *profile = analysis->profile;
    json_key(json, "modules");
    json_spread_array(json);
    for (unsigned i = MODULE_VDSO; i < profile->module_count; i++) {
        const struct profile_module *module = &profile->modules[i];
        if (!module->path)
            continue;
        char build_id[2 * sizeof module->build_id + 1] = "";
        for (unsigned b = 0; b < module->build_id_bytes && b < sizeof module->build_id; b++)
            snprintf(build_id + 2 * b, 3, "%02x", module->build_id[b]);
        json_object(json);
        put_text(json, "path", module->path);
        put_text(json, "build_id", build_id);
        put_text(json, "symbols", qualities[symbols_quality(analysis->symbols, i)]);
        json_end_object(json);
    }
    json_end_array(json);
}

static void put_processes(struct json *json, const struct profile *profile)
{
    json_key(json, "process_list");
    json_spread_array(json);
    for (unsigned i = 0; i < profile->process_count; i++) {
        const struct profile_process *process = &profile->processes[i];
        json_object(json);
        put_number(json, "pid", process->pid);
        put_number(json, "parent_pid", process->parent_pid);
        json_key(json, "command");
        json_array(json);
        for (char **word = process->command; word && *word; word++)
            json_string(json, *word);
        json_end_array(json);
        json_key(json, "forked");
        json_bool(json, process->forked);
        json_key(json, "ended");
        json_bool(json, process->ended);
        put_number(json, "duration_ns",
                   process->end_ns > process->start_ns ? process->end_ns - process->start_ns : 0);
        put_number(json, "threads", process->thread_starts);
        put_number(json, "samples", process->samples);
        put_number(json, "cost_ns", process->cost_ns);
        json_end_object(json);
    }
    json_end_array(json);
}

static void put_thread_list(struct json *json, const struct profile *profile)
{
    json_key(json, "tree_list");
    json_spread_array(json);
    for (unsigned i = 0; i < profile->tree_count; i++) {
        const struct profile_tree *tree = &profile->trees[i];
        json_object(json);
        put_number(json, "pid",
                   tree->process < profile->process_count ? profile->processes[tree->process].pid
                                                          : 0);
        put_number(json, "tid", tree->tid);
        put_number(json, "threads", tree->threads);
        json_key(json, "phase");
        json_string(json, tree->phase[0] ? tree->phase : NULL);
        put_number(json, "nodes", tree->count);
        put_number(json, "samples", tree->stats.samples);
        put_number(json, "cost_ns", tree->stats.cost_ns);
        put_number(json, "residue_ns", tree->stats.residue_ns);
        json_end_object(json);
    }
    json_end_array(json);
}

// Null: nobody has counted them.
static void put_calls_per_s(struct json *json, const struct profile *profile)
{
    const double seconds = (double)profile->duration_ns / 1e9;
    unsigned metric = 0;
    while (metric < profile->metric_count && !profile_counts_calls(&profile->metrics[metric]))
        metric++;
    json_key(json, "calls_per_s");
    if (metric == profile->metric_count || seconds <= 0) {
        json_null(json);
        return;
    }
    uint64_t calls = 0;
    for (unsigned i = 0; i < profile->tree_count; i++)
        for (uint32_t node = 0; node < profile->trees[i].count; node++)
            calls += profile->trees[i].values[(size_t)node * profile->metric_count + metric];
    json_real(json, (double)calls / seconds);
}

// By which call sites the calls of programs were followed that were not built for it.
static void put_sites(struct json *json, const struct live_encode *sites)
{
    json_key(json, "call_sites");
    json_object(json);
    put_number(json, "modules", sites->modules);
    put_number(json, "functions", sites->functions);
    put_number(json, "patched", sites->sites_patched);
    put_number(json, "stubs", sites->stubs);
    put_number(json, "traps", sites->traps);
    put_number(json, "callbacks", sites->callbacks);
    put_number(json, "left", sites->sites_skipped);
    put_number(json, "left_tables", sites->tables);
    put_number(json, "undecoded", sites->opaque);
    put_number(json, "late_modules", sites->late);
    json_end_object(json);
}

// Depths by powers of two, of the stack and of the ccStack, at samples that were decoded.
static void put_depths(struct json *json, const struct live_encode *encode)
{
    json_key(json, "stack_depth_avg");
    json_real(json,
              encode->path_samples ? (double)encode->path_sum / (double)encode->path_samples : 0);
    for (unsigned which = 0; which < 2; which++) {
        json_key(json, which ? "ccstack_depths" : "stack_depths");
        json_array(json);
        for (unsigned i = 0; i < LIVE_DEPTHS; i++)
            json_unsigned(json, which ? encode->stack_class[i] : encode->path_class[i]);
        json_end_array(json);
    }
}

static void put_progress(struct json *json, const struct live_encode *encode)
{
    json_key(json, "progress");
    json_array(json);
    for (uint64_t i = 0; i < encode->progress_count && i < LIVE_PROGRESS; i++) {
        char text[32];
        snprintf(text, sizeof text, "%" PRIu64, encode->progress[i].max_id);
        json_object(json);
        put_number(json, "samples", encode->progress[i].samples);
        put_number(json, "nodes", encode->progress[i].functions);
        put_number(json, "edges", encode->progress[i].edges);
        put_text(json, "max_id", text);
        json_end_object(json);
    }
    json_end_array(json);
}

static void put_encoding(struct json *json, const struct profile *profile,
                         const struct profile_totals *totals)
{
    const struct live_encode *encode = &totals->encode;
    const double seconds = (double)profile->duration_ns / 1e9;
    char text[32];
    if (!encode->functions)
        return;
    if (encode->modules) {
        put_sites(json, encode);
        return;
    }
    json_key(json, "encode");
    json_object(json);
    put_number(json, "nodes", encode->functions);
    put_number(json, "edges", encode->edges);
    snprintf(text, sizeof text, "%" PRIu64, encode->max_id);
    put_text(json, "max_id", text);
    json_key(json, "ccstack_per_s");
    json_real(json, seconds > 0 ? (double)encode->pushes / seconds : 0);
    json_key(json, "ccstack_depth_avg");
    json_real(json, encode->depth_samples
                        ? (double)encode->depth_sum / (double)encode->depth_samples
                        : 0);
    put_number(json, "reencodings", encode->reencodings);
    put_number(json, "reencode_us", encode->reencode_ns / 1000);
    put_calls_per_s(json, profile);
    put_number(json, "sites_patched", encode->sites_patched);
    put_number(json, "sites_skipped", encode->sites_skipped);
    put_number(json, "samples_decoded", encode->decoded);
    put_number(json, "samples_confirmed", encode->confirmed);
    put_number(json, "samples_walked", encode->walked);
    put_number(json, "verified", encode->verified);
    put_number(json, "mismatches", encode->mismatches);
    put_number(json, "bytes", encode->bytes);
    put_number(json, "frozen", encode->frozen);
    put_number(json, "samples_in_hooks", encode->in_hooks);
    put_number(json, "samples_outside", encode->outside);
    put_number(json, "samples_undecoded", encode->undecoded);
    put_depths(json, encode);
    put_progress(json, encode);
    json_end_object(json);
}

// Contexts that programs asked for.
static void put_asked(struct json *json, const struct profile_totals *totals)
{
    if (!totals->asked_bytes && !totals->asked_unknown)
        return;
    json_key(json, "asked");
    json_object(json);
    put_number(json, "numbers", totals->asked_numbers);
    put_number(json, "walked", totals->asked_walked);
    put_number(json, "unknown", totals->asked_unknown);
    put_number(json, "bytes", totals->asked_bytes);
    json_end_object(json);
}

// What was allocated; only with that event. Null: trees of that kind do not know.
static void put_alloc(struct json *json, const struct profile *profile,
                      const struct profile_totals *totals)
{
    static const char *const keys[ALLOC_METRICS] = {
        "allocated", "allocations", "freed", "frees", "live", "live_blocks", "peak", "peak_blocks"};
    const struct profile_alloc *known = &totals->alloc;
    struct summary_alloc alloc;
    if (!summary_alloc(profile, &alloc))
        return;
    json_key(json, "alloc");
    json_object(json);
    for (unsigned i = 0; i < ALLOC_METRICS; i++) {
        json_key(json, keys[i]);
        if (alloc.has[i])
            json_unsigned(json, alloc.sum[i]);
        else if (i == ALLOC_BLOCKS || i == ALLOC_LIVE || i == ALLOC_PEAK)
            json_unsigned(json, i == ALLOC_BLOCKS ? totals->samples
                                : i == ALLOC_LIVE ? known->live
                                                  : known->peak);
        else
            json_null(json);
    }
    put_number(json, "without_context", known->rootless);
    put_number(json, "without_room", known->unheld);
    put_number(json, "without_room_bytes", known->unheld_bytes);
    put_number(json, "unknown_frees", known->unknown);
    put_number(json, "verified", known->verified);
    put_number(json, "mismatches", known->mismatches);
    json_end_object(json);
}

void summary_print_json(FILE *out, const struct analysis *analysis,
                        const struct profile_totals *totals)
{
    const struct profile *profile = analysis->profile;
    const struct profile_kind kind = profile_kind(profile);
    struct json writer, *json = &writer;
    json_start(json, out);
    json_object(json);
    put_number(json, "format", profile->format);
    json_key(json, "command");
    json_array(json);
    for (char **word = profile->command; word && *word; word++)
        json_string(json, *word);
    json_end_array(json);
    put_text(json, "tracker", profile->tracker);
    put_text(json, "tree", profile->tree_kind);
    put_kept(json, profile, totals);
    put_events(json, profile, totals);
    put_number(json, "processes", profile->process_count);
    put_number(json, "threads", totals->threads);
    put_number(json, "start_realtime_ns", profile->start_realtime_ns);
    put_number(json, "duration_ns", profile->duration_ns);
    json_key(json, "complete");
    json_bool(json, profile->complete);
    put_number(json, "samples", totals->samples);
    put_number(json, "samples_lost", totals->lost);
    put_number(json, "samples_unplaced", totals->unplaced);
    put_number(json, "cost_ns", totals->cost_ns);
    put_walks(json, totals);
    put_costs(json, totals);
    put_number(json, "nodes", totals->nodes);
    put_number(json, "node_bytes", summary_node_bytes(profile, &kind));
    put_number(json, "tree_bytes", totals->tree_bytes);
    put_number(json, "agent_peak_bytes", totals->agent_bytes);
    put_number(json, "file_bytes", profile->file_bytes);
    put_calls_per_s(json, profile);
    put_encoding(json, profile, totals);
    put_asked(json, totals);
    put_alloc(json, profile, totals);
    put_modules(json, analysis);
    put_processes(json, profile);
    put_thread_list(json, profile);
    json_key(json, "notes");
    json_array(json);
    const char *note;
    for (unsigned i = 0; (note = analysis_note(analysis, i)); i++)
        json_string(json, note);
    json_end_array(json);
    json_end_object(json);
    json_finish(json);
}
