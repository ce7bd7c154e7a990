// SPDX-License-Identifier: MIT

#include "analyze/names/names.h"
#include "analyze/summary/sampling_cost.h"
#include "analyze/summary/summary.h"
#include "analyze/tree/creation_path.h"
#include "analyze/views/hot.h"
#include "base/text/json.h"
#include "live/choices.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

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
        json_put_string(json, "name", metric->name);
        json_put_string(json, "unit", metric->unit);
        json_put_unsigned(json, "period", metric->period);
        json_put_string(json, "source", metric->source);
        json_put_real(json, "rate_requested", metric->rate_requested);
        json_put_real(json, "rate_achieved", summary_rate(profile, i, totals));
        json_put_unsigned(json, "runs", profile_runs(metric));
        json_end_object(json);
    }
    json_end_array(json);
}

static void put_walks(struct json *json, const struct profile_totals *totals)
{
    const uint64_t *verdicts = totals->verdicts;
    json_key(json, "walks");
    json_object(json);
    json_put_unsigned(json, "complete", verdicts[VERDICT_COMPLETE]);
    json_put_unsigned(json, "marker", verdicts[VERDICT_MARKER]);
    json_put_unsigned(json, "guessed", verdicts[VERDICT_GUESSED]);
    json_put_unsigned(json, "truncated", totals_truncated(totals));
    json_put_real(json, "complete_pct", totals_complete_percent(totals));
    json_put_real(json, "guessed_pct", totals_guessed_percent(totals));
    json_key(json, "reasons");
    json_object(json);
    for (unsigned i = VERDICT_MARKER + 1; i < VERDICT_COUNT; i++)
        if (verdicts[i] && i != VERDICT_GUESSED)
            json_put_unsigned(json, verdict_name((enum verdict)i), verdicts[i]);
    json_end_object(json);
    json_end_object(json);
}

// The whole cost of sampling; null if the part beside the handlers was not measured.
static void put_overhead(struct json *json, const struct profile *profile,
                         const struct profile_totals *totals)
{
    const struct profile_overhead *overhead = &profile->overhead;
    const struct sampling_cost cost =
        sampling_cost(overhead, totals->handler_ns, totals->samples, totals->switches);
    json_put_unsigned(json, "samples_sparse", totals->sparse);
    json_put_unsigned(json, "switches", totals->switches);
    json_key(json, "sampling_cost_ns");
    if (!cost.measured) {
        json_null(json);
        return;
    }
    json_object(json);
    json_put_unsigned(json, "total", sampling_cost_sum(&cost));
    json_put_unsigned(json, "handlers", cost.handlers_ns);
    json_put_unsigned(json, "ticks", cost.ticks_ns);
    json_put_unsigned(json, "switches", cost.switches_ns);
    json_put_unsigned(json, "per_tick", overhead->tick_ns);
    json_put_unsigned(json, "per_switch", overhead->switch_ns);
    json_end_object(json);
}

static void put_costs(struct json *json, const struct profile *profile,
                      const struct profile_totals *totals)
{
    json_key(json, "handler_ns");
    json_object(json);
    json_put_real(json, "mean", totals_handler_mean(totals));
    json_put_unsigned(json, "p50", totals_handler_percentile(totals, 0.50));
    json_put_unsigned(json, "p99", totals_handler_percentile(totals, 0.99));
    json_end_object(json);
    put_overhead(json, profile, totals);
    json_key(json, "frames_per_sample");
    json_object(json);
    json_put_real(json, "stack", summary_per_sample(totals, totals->frames_stack));
    json_put_real(json, "walked", summary_per_sample(totals, totals->frames_walked));
    json_end_object(json);
}

// The part that the trees have kept, with its error; only if that is not everything.
static void put_kept(struct json *json, const struct profile *profile,
                     const struct profile_totals *totals)
{
    const struct profile_kind kind = profile_kind(profile);
    if (kind.hot || kind.has_errors) {
        const struct hot_use use = hot_use(profile);
        json_key(json, "hot");
        json_object(json);
        json_put_real(json, "phi", kind.phi);
        json_put_real(json, "epsilon", kind.epsilon);
        json_put_string(json, "miner", live_word(LIVE_MINERS, kind.miner));
        json_put_unsigned(json, "counters", use.counters);
        json_put_unsigned(json, "counters_used", use.contexts);
        json_put_unsigned(json, "total", use.whole);
        json_put_unsigned(json, "error_bound", use.counters ? use.whole / use.counters : 0);
        json_put_unsigned(json, "floor", use.floor);
        json_put_unsigned(json, "largest_error", use.largest_error);
        json_end_object(json);
    }
    if (kind.bounded) {
        json_key(json, "bounded");
        json_object(json);
        json_put_unsigned(json, "depth", kind.depth);
        json_end_object(json);
    }
    json_put_unsigned(json, "purged", totals->purged);
}

// "frames", "calls" or "none"; and why no frames.
static void put_kernel(struct json *json, const struct profile *profile)
{
    const char *why = profile->kernel ? strchr(profile->kernel, ' ') : NULL;
    json_put_string(json, "kernel", !profile->kernel ? "none" : why ? "calls" : profile->kernel);
    if (why)
        json_put_string(json, "kernel_note", why + 1);
}

static void put_modules(struct json *json, const struct analysis *analysis)
{
    static const char *const qualities[] = {"none", "table", "table", "dwarf"};
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
        json_put_string(json, "path", module->path);
        json_put_string(json, "build_id", build_id);
        json_put_string(json, "symbols", qualities[symbols_quality(analysis->symbols, i)]);
        json_end_object(json);
    }
    json_end_array(json);
}

static void put_processes(struct json *json, const struct analysis *analysis)
{
    const struct profile *profile = analysis->profile;
    const struct names *names = functions_names(analysis->functions);
    json_key(json, "process_list");
    json_spread_array(json);
    for (unsigned i = 0; i < profile->process_count; i++) {
        const struct profile_process *process = &profile->processes[i];
        json_object(json);
        json_put_unsigned(json, "pid", process->pid);
        json_put_unsigned(json, "parent_pid", process->parent_pid);
        json_put_words(json, "command", process->command);
        json_put_string(json, "program", names_program(names, i));
        json_put_string(json, "name", names_process(names, i));
        json_put_bool(json, "forked", process->forked);
        json_put_bool(json, "ended", process->ended);
        json_put_unsigned(json, "duration_ns",
                          process->end_ns > process->start_ns ? process->end_ns - process->start_ns
                                                              : 0);
        json_put_unsigned(json, "threads", process->thread_starts);
        json_put_unsigned(json, "samples", process->samples);
        json_put_unsigned(json, "cost_ns", process->cost_ns);
        json_end_object(json);
    }
    json_end_array(json);
}

// The functions on the path that created the threads of a tree, the outermost first; null: not
// known, or the main thread.
static void put_creator(struct json *json, const struct analysis *analysis,
                        const struct profile_tree *tree)
{
    struct profile_tree path = creation_path(analysis->profile, tree, &(struct known_functions){0});
    json_key(json, "created_by");
    if (path.count == 1)
        json_null(json);
    else
        json_array(json);
    for (uint32_t i = 1; i < path.count; i++) {
        const struct spot *spot =
            functions_look_up(analysis->functions, tree->process, path.nodes[i].function);
        const struct located *last =
            spot ? functions_located(analysis->functions, spot) + spot->count - 1 : NULL;
        const struct function *function =
            last ? functions_get(analysis->functions, last->function) : NULL;
        if (path.nodes[i].function && !(function && function->agent))
            json_string(json, function ? function->name : "<unknown>");
    }
    if (path.count > 1)
        json_end_array(json);
    free(path.nodes);
}

static void put_thread_list(struct json *json, const struct analysis *analysis)
{
    const struct profile *profile = analysis->profile;
    build_resolve_starts(analysis->functions, profile);
    json_key(json, "tree_list");
    json_spread_array(json);
    for (unsigned i = 0; i < profile->tree_count; i++) {
        const struct profile_tree *tree = &profile->trees[i];
        json_object(json);
        json_put_unsigned(
            json, "pid",
            tree->process < profile->process_count ? profile->processes[tree->process].pid : 0);
        json_put_unsigned(json, "tid", tree->tid);
        json_put_unsigned(json, "threads", tree->threads);
        // The name that the program gave them, or null; and their start routine.
        json_put_string(json, "name", names_thread(functions_names(analysis->functions), i));
        json_put_string(json, "start",
                        build_thread_name(analysis->functions, profile, tree, THREADS_BY_START));
        json_put_string(json, "phase", tree->phase[0] ? tree->phase : NULL);
        put_creator(json, analysis, tree);
        json_put_unsigned(json, "nodes", tree->count);
        json_put_unsigned(json, "samples", tree->stats.samples);
        json_put_unsigned(json, "cost_ns", tree->stats.cost_ns);
        json_put_unsigned(json, "residue_ns", tree->stats.residue_ns);
        json_end_object(json);
    }
    json_end_array(json);
}

// Null: they were not counted.
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
    json_put_unsigned(json, "modules", sites->modules);
    json_put_unsigned(json, "functions", sites->functions);
    json_put_unsigned(json, "patched", sites->sites_patched);
    json_put_unsigned(json, "stubs", sites->stubs);
    json_put_unsigned(json, "traps", sites->traps);
    json_put_unsigned(json, "callbacks", sites->callbacks);
    json_put_unsigned(json, "left", sites->sites_skipped);
    json_put_unsigned(json, "left_tables", sites->tables);
    json_put_unsigned(json, "undecoded", sites->opaque);
    json_put_unsigned(json, "late_modules", sites->late);
    json_end_object(json);
}

// Depths by powers of two, of the stack and of the ccStack, at samples that were decoded.
static void put_depths(struct json *json, const struct live_encode *encode)
{
    json_put_real(json, "stack_depth_avg",
                  encode->path_samples ? (double)encode->path_sum / (double)encode->path_samples
                                       : 0);
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
        json_put_unsigned(json, "samples", encode->progress[i].samples);
        json_put_unsigned(json, "nodes", encode->progress[i].functions);
        json_put_unsigned(json, "edges", encode->progress[i].edges);
        json_put_string(json, "max_id", text);
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
    json_put_unsigned(json, "nodes", encode->functions);
    json_put_unsigned(json, "edges", encode->edges);
    snprintf(text, sizeof text, "%" PRIu64, encode->max_id);
    json_put_string(json, "max_id", text);
    json_put_real(json, "ccstack_per_s", seconds > 0 ? (double)encode->pushes / seconds : 0);
    json_put_real(json, "ccstack_depth_avg",
                  encode->depth_samples ? (double)encode->depth_sum / (double)encode->depth_samples
                                        : 0);
    json_put_unsigned(json, "reencodings", encode->reencodings);
    json_put_unsigned(json, "reencode_us", encode->reencode_ns / 1000);
    put_calls_per_s(json, profile);
    json_put_unsigned(json, "sites_patched", encode->sites_patched);
    json_put_unsigned(json, "sites_skipped", encode->sites_skipped);
    json_put_unsigned(json, "look_us", encode->look_ns / 1000);
    json_put_unsigned(json, "samples_decoded", encode->decoded);
    json_put_unsigned(json, "samples_confirmed", encode->confirmed);
    json_put_unsigned(json, "samples_walked", encode->walked);
    json_put_unsigned(json, "verified", encode->verified);
    json_put_unsigned(json, "mismatches", encode->mismatches);
    json_put_unsigned(json, "bytes", encode->bytes);
    json_put_unsigned(json, "stopped", encode->stopped);
    json_put_unsigned(json, "samples_direct", encode->direct);
    json_put_unsigned(json, "samples_from_leaf", encode->from_leaf);
    json_put_unsigned(json, "samples_climbed", encode->climbed);
    json_put_unsigned(json, "pushes", encode->pushes);
    json_put_unsigned(json, "pushes_recursion", encode->pushes_recursion);
    json_put_unsigned(json, "pushes_overflow", encode->pushes_overflow);
    json_put_unsigned(json, "pushes_armless", encode->pushes_armless);
    json_put_unsigned(json, "pushes_new", encode->pushes_new);
    json_put_unsigned(json, "samples_in_hooks", encode->in_hooks);
    json_put_unsigned(json, "samples_outside", encode->outside);
    json_put_unsigned(json, "samples_undecoded", encode->undecoded);
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
    json_put_unsigned(json, "numbers", totals->asked_numbers);
    json_put_unsigned(json, "walked", totals->asked_walked);
    json_put_unsigned(json, "unknown", totals->asked_unknown);
    json_put_unsigned(json, "bytes", totals->asked_bytes);
    json_end_object(json);
}

// How far the numbers may be off: half of the interval that they lie in 19 times of 20.
static void put_sampled(struct json *json, const struct summary_alloc *alloc,
                        const char *const *keys)
{
    json_key(json, "error");
    if (!alloc->period) {
        json_null(json);
        return;
    }
    json_object(json);
    for (unsigned i = 0; i < ALLOC_METRICS; i++)
        if (keys[i] && alloc->has[i])
            json_put_unsigned(json, keys[i], (uint64_t)alloc->error[i]);
    json_end_object(json);
}

// Allocations; only with that event. Null: trees of that kind do not know.
static void put_alloc(struct json *json, const struct profile *profile,
                      const struct profile_totals *totals)
{
    static const char *const keys[ALLOC_METRICS] = {
        [ALLOC_BYTES] = "allocated",   [ALLOC_BLOCKS] = "allocations",
        [ALLOC_FREED] = "freed",       [ALLOC_FREES] = "frees",
        [ALLOC_LIVE] = "live",         [ALLOC_LIVE_BLOCKS] = "live_blocks",
        [ALLOC_PEAK] = "peak",         [ALLOC_PEAK_BLOCKS] = "peak_blocks",
        [ALLOC_LIVE_AGE] = "live_age", [ALLOC_TEMPORARY] = "temporary",
        [ALLOC_MAPPED] = "mapped",     [ALLOC_UNMAPPED] = "unmapped",
    };
    const struct profile_alloc *known = &totals->alloc;
    struct summary_alloc alloc;
    if (!summary_alloc(profile, &alloc))
        return;
    json_key(json, "alloc");
    json_object(json);
    for (unsigned i = 0; i < ALLOC_METRICS; i++) {
        if (!keys[i])
            continue;
        json_key(json, keys[i]);
        if (alloc.has[i])
            json_unsigned(json, alloc.sum[i]);
        else if (alloc.period && i == ALLOC_BLOCKS)
            json_null(json);
        else if (i == ALLOC_BLOCKS || i == ALLOC_LIVE || i == ALLOC_PEAK)
            json_unsigned(json, i == ALLOC_BLOCKS ? totals->samples
                                : i == ALLOC_LIVE ? known->live
                                                  : known->peak);
        else
            json_null(json);
    }
    put_sampled(json, &alloc, keys);
    json_put_unsigned(json, "without_context", known->rootless);
    json_put_unsigned(json, "without_room", known->unheld);
    json_put_unsigned(json, "without_room_bytes", known->unheld_bytes);
    json_put_unsigned(json, "unknown_frees", known->unknown);
    json_put_unsigned(json, "verified", known->verified);
    json_put_unsigned(json, "mismatches", known->mismatches);
    json_end_object(json);
}

// I/O; only with that event.
static void put_io(struct json *json, const struct profile *profile,
                   const struct profile_totals *totals)
{
    static const char *const keys[LIVE_IO_VALUES] = {"bytes", "read", "written", "operations",
                                                     "time_ns"};
    struct summary_io io;
    if (!summary_io(profile, &io))
        return;
    json_key(json, "io");
    json_object(json);
    for (unsigned i = 0; i < LIVE_IO_VALUES; i++) {
        json_key(json, keys[i]);
        if (io.has[i])
            json_unsigned(json, io.sum[i]);
        else if (i == LIVE_IO_OPERATIONS)
            json_unsigned(json, totals->samples);
        else
            json_null(json);
    }
    json_put_unsigned(json, "verified", totals->alloc.verified);
    json_put_unsigned(json, "mismatches", totals->alloc.mismatches);
    json_end_object(json);
}

// Waiting; only with that event. Null: trees of that kind do not know.
static void put_lock(struct json *json, const struct profile *profile,
                     const struct profile_totals *totals)
{
    static const char *const keys[LIVE_LOCK_VALUES] = {"wait_ns",  "contended", "acquired",
                                                       "blame_ns", "sync_ns",   "syncs"};
    struct summary_lock lock;
    if (!summary_lock(profile, &lock))
        return;
    json_key(json, "lock");
    json_object(json);
    for (unsigned i = 0; i < LIVE_LOCK_VALUES; i++) {
        json_key(json, keys[i]);
        if (lock.has[i])
            json_unsigned(json, lock.sum[i]);
        else
            json_null(json);
    }
    json_put_unsigned(json, "verified", totals->alloc.verified);
    json_put_unsigned(json, "mismatches", totals->alloc.mismatches);
    json_end_object(json);
}

static void put_timeline(struct json *json, const struct profile *profile,
                         const struct profile_totals *totals)
{
    const struct profile_timeline *timeline = &profile->timeline;
    json_key(json, "timeline");
    if (!timeline->recorded) {
        json_null(json);
        return;
    }
    json_object(json);
    json_put_unsigned(json, "charges", totals->charges);
    json_put_unsigned(json, "lost", totals->charges_lost);
    json_put_unsigned(json, "bytes", timeline->stored_bytes);
    json_put_real(json, "bytes_per_charge",
                  totals->charges ? (double)timeline->stored_bytes / (double)totals->charges : NAN);
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
    json_put_unsigned(json, "format", profile->format);
    json_put_words(json, "command", profile->command);
    json_put_string(json, "tracker", profile->tracker);
    json_put_string(json, "tree", profile->tree_kind);
    put_kept(json, profile, totals);
    put_kernel(json, profile);
    put_events(json, profile, totals);
    json_put_unsigned(json, "processes", profile->process_count);
    json_put_unsigned(json, "threads", totals->threads);
    json_put_unsigned(json, "start_realtime_ns", profile->start_realtime_ns);
    json_put_unsigned(json, "duration_ns", profile->duration_ns);
    json_put_bool(json, "complete", profile->complete);
    json_put_unsigned(json, "samples", totals->samples);
    json_put_unsigned(json, "samples_lost", totals->lost);
    json_put_unsigned(json, "samples_unplaced", totals->unplaced);
    json_put_unsigned(json, "cost_ns", totals->cost_ns);
    json_put_unsigned(json, "hook_ns", totals->hook_ns); // in no node, and not in cost_ns
    json_put_unsigned(json, "hook_samples", totals->hook_samples);
    put_walks(json, totals);
    put_costs(json, analysis->profile, totals);
    json_put_unsigned(json, "nodes", totals->nodes);
    json_put_unsigned(json, "node_bytes", summary_node_bytes(profile, &kind));
    json_put_unsigned(json, "tree_bytes", totals->tree_bytes);
    json_put_unsigned(json, "agent_peak_bytes", totals->agent_bytes);
    json_put_unsigned(json, "file_bytes", profile->file_bytes);
    put_calls_per_s(json, profile);
    put_encoding(json, profile, totals);
    put_asked(json, totals);
    put_alloc(json, profile, totals);
    put_io(json, profile, totals);
    put_lock(json, profile, totals);
    put_timeline(json, profile, totals);
    put_modules(json, analysis);
    put_processes(json, analysis);
    put_thread_list(json, analysis);
    json_key(json, "notes");
    json_array(json);
    const char *note;
    for (unsigned i = 0; (note = analysis_note(analysis, i)); i++)
        json_string(json, note);
    json_end_array(json);
    json_end_object(json);
    json_finish(json);
}
