// SPDX-License-Identifier: MIT

// The profile in words: small, and so it may be JSON.

#include "analyze/metric_ratios.h"
#include "analyze/summary/sample_warning.h"
#include "base/memory.h"
#include "base/text/json.h"
#include "export/page/page_columns.h"
#include "profile/queries/kind.h"
#include "profile/queries/sampling_error.h"

enum { MOST_CHANGES = 1000 }; // that are told

static const char *metric_kind(const struct profile_metric *metric)
{
    return profile_counts_calls(metric) ? "calls"
           : profile_is_error(metric)   ? "error"
           : profile_is_edge(metric)    ? "edge"
                                        : "cost";
}

// The cost that one sample stands for, about; 0: nothing was sampled. A sample of wall time stands
// for as long as its thread waited.
static double sample_weight(const struct profile *profile, unsigned index)
{
    const struct profile_metric *metric = &profile->metrics[index];
    if (profile_is_estimated(profile, index))
        return profile_sample_weight(profile, index);
    if (profile_is_counted(metric) || !profile_is_cost(metric) || strcmp(metric->name, "wall") == 0)
        return 0;
    if (profile_is_time(metric) && metric->rate_requested > 0)
        return 1e9 / metric->rate_requested;
    return (double)metric->period;
}

static void put_metric(struct json *json, const struct profile *profile, unsigned index,
                       uint64_t samples)
{
    const struct profile_metric *metric = &profile->metrics[index];
    const unsigned error = profile_error_of(profile, index);
    char *few = sample_warning(metric, samples);
    json_object(json);
    json_put_string(json, "name", metric->name);
    json_put_string(json, "unit", metric->unit);
    json_put_string(json, "kind", metric_kind(metric));
    json_put_real(json, "sample_weight", sample_weight(profile, index));
    json_put_unsigned(json, "runs", profile_runs(metric));
    json_key(json, "error");
    if (error < profile->metric_count)
        json_unsigned(json, error);
    else
        json_null(json);
    json_put_string(json, "warning", few);
    json_end_object(json);
    free(few);
}

static void put_waiting(struct json *json, const struct profile *profile)
{
    json_key(json, "waiting");
    unsigned wall, cpu;
    if (!metric_waiting(profile, &wall, &cpu)) {
        json_null(json);
        return;
    }
    json_object(json);
    json_put_unsigned(json, "wall", wall);
    json_put_unsigned(json, "cpu", cpu);
    json_end_object(json);
}

static void put_ratios(struct json *json, const struct profile *profile)
{
    json_key(json, "ratios");
    json_array(json);
    for (unsigned i = 0; i < METRIC_RATIOS; i++) {
        const struct metric_ratio *ratio = &metric_ratios[i];
        unsigned of, over;
        if (!metric_ratio_parts(ratio, profile, &of, &over))
            continue;
        json_object(json);
        json_put_string(json, "name", ratio->name);
        json_put_string(json, "unit", ratio->unit);
        json_put_string(json, "meaning", ratio->meaning);
        json_put_unsigned(json, "of", of);
        json_put_unsigned(json, "over", over);
        json_end_object(json);
    }
    json_end_array(json);
}

// Metrics that the charges of a timeline are of.
static void put_timeline(struct json *json, const struct page_input *input)
{
    const struct profile_timeline *timeline = &input->analysis->profile->timeline;
    json_key(json, "timeline");
    if (!page_has_timeline(input)) {
        json_null(json);
        return;
    }
    json_array(json);
    for (unsigned i = 0; i < timeline->metric_count; i++)
        json_unsigned(json, timeline->metrics[i]);
    json_end_array(json);
}

// The metrics of a diff come in fours: new, old, both, and contexts whose change is no noise.
static void put_diff(struct json *json, const struct page_input *input)
{
    json_key(json, "diff");
    if (!input->old) {
        json_null(json);
        return;
    }
    json_object(json);
    json_put_string(json, "old", input->old);
    json_put_string(json, "new", input->new);
    json_end_object(json);
}

static void put_change(struct json *json, const struct diff_row *row, uint32_t node)
{
    json_object(json);
    json_put_unsigned(json, "node", node);
    json_put_unsigned(json, "contexts", row->contexts);
    json_put_real(json, "old", row->cost[DIFF_OLD]);
    json_put_real(json, "new", row->cost[DIFF_NEW]);
    json_put_real(json, "by_calls", row->by_calls);
    json_put_real(json, "by_price", row->by_price);
    json_put_bool(json, "significant", row->significant);
    json_end_object(json);
}

static void put_changes(struct json *json, const struct diff_rows *changes, const uint32_t *id)
{
    json_put_bool(json, "split", changes->has_calls);
    json_key(json, "changes");
    json_array(json);
    for (size_t i = 0; i < changes->count && i < MOST_CHANGES; i++)
        put_change(json, &changes->rows[i], id[changes->rows[i].node]);
    json_end_array(json);
}

static uint64_t count_samples(const struct profile *profile)
{
    uint64_t samples = 0;
    for (unsigned t = 0; t < profile->tree_count; t++)
        samples += profile->trees[t].stats.samples;
    return samples;
}

static const char *sample_words(const struct profile *profile)
{
    const struct profile_metric *caused = profile_samples_caused(profile);
    return !caused ? "samples" : profile_is_alloc(caused) ? "allocations" : "operations";
}

static void put_members(struct json *json, const struct page_columns *page)
{
    const struct page_input *input = page->input;
    const struct profile *profile = input->analysis->profile;
    const uint64_t samples = count_samples(profile);
    char *command = analysis_command(profile->command);
    json_put_unsigned(json, "format", 1);
    json_put_string(json, "command", command);
    json_put_string(json, "tracker", profile->tracker);
    json_put_string(json, "tree", profile->tree_kind);
    json_put_unsigned(json, "recorded_ms", profile->start_realtime_ns / 1000000);
    json_put_unsigned(json, "duration_ns", profile->duration_ns);
    json_put_bool(json, "complete", profile->complete);
    json_put_unsigned(json, "samples", samples);
    json_put_string(json, "sampled", sample_words(profile));
    json_put_unsigned(json, "whole", input->whole);
    json_put_unsigned(json, "left_out", input->left_out);
    put_diff(json, input);
    if (input->changes)
        put_changes(json, input->changes, page->id);
    if (input->sentence)
        json_put_string(json, "sentence", input->sentence);
    json_key(json, "metrics");
    json_array(json);
    for (unsigned i = 0; i < profile->metric_count; i++)
        put_metric(json, profile, i, samples);
    json_end_array(json);
    put_waiting(json, profile);
    put_ratios(json, profile);
    put_timeline(json, input);
    json_put_bool(json, "locks", page_has_locks(input));
    json_put_bool(json, "code", input->code);
    json_key(json, "notes");
    json_array(json);
    for (unsigned i = 0; analysis_note(input->analysis, i); i++)
        json_string(json, analysis_note(input->analysis, i));
    json_end_array(json);
    free(command);
}

void page_put_meta(struct page_columns *page)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = memory_checked(open_memstream(&text, &bytes));
    struct json json;
    json_start(&json, out);
    json_object(&json);
    put_members(&json, page);
    json_end_object(&json);
    json_finish(&json);
    fclose(out);
    const size_t begin = page_section_begin(&page->out, "META");
    bytes_put(&page->out, memory_checked(text), bytes);
    page_section_end(&page->out, begin);
    free(text);
}
