// SPDX-License-Identifier: MIT

#include "analyze/compare_show.h"
#include "base/json.h"
#include "base/memory.h"

#define FUNCTIONS_TOLD 100

static void put_real(struct json *json, const char *key, double value)
{
    json_key(json, key);
    json_real(json, value);
}

static void put_number(struct json *json, const char *key, uint64_t value)
{
    json_key(json, key);
    json_unsigned(json, value);
}

static void put_text(struct json *json, const char *key, const char *text)
{
    json_key(json, key);
    json_string(json, text);
}

static void put_measures(struct json *json, const struct comparison *comparison)
{
    const struct compare_result *result = comparison->result;
    put_real(json, "overlap", result->overlap);
    put_real(json, "weighted_overlap", result->weighted_overlap);
    json_key(json, "hot_edge_coverage");
    json_object(json);
    for (unsigned t = 0; t < comparison->options->threshold_count; t++)
        put_real(json, comparison->thresholds[t], result->coverage[t]);
    json_end_object(json);
    json_key(json, "uncovered");
    json_object(json);
    put_real(json, "max_pct", result->uncovered_max);
    put_real(json, "avg_pct", result->uncovered_avg);
    put_number(json, "contexts", result->uncovered);
    json_end_object(json);
    put_number(json, "false_positives", result->false_positives);
    put_number(json, "false_negatives", result->false_negatives);
    json_key(json, "counter_error");
    json_object(json);
    put_real(json, "max_pct", result->error_max);
    put_real(json, "avg_pct", result->error_avg);
    put_number(json, "contexts", result->counters);
    json_end_object(json);
    json_key(json, "correlation");
    json_object(json);
    put_real(json, "pearson", result->pearson);
    put_real(json, "spearman", result->spearman);
    put_number(json, "edges", result->top_count);
    json_end_object(json);
    put_real(json, "distortion", result->distortion);
}

static void put_side(struct json *json, const struct comparison *comparison, enum compare_side side)
{
    const struct compare_result *result = comparison->result;
    const struct profile *profile = comparison->analysis[side]->profile;
    json_key(json, side == EXACT ? "exact" : "approx");
    json_object(json);
    put_text(json, "file", comparison->path[side]);
    put_text(json, "tracker", profile->tracker);
    put_text(json, "metric", profile->metrics[comparison->alignment->metric[side]].name);
    put_number(json, "total", result->total[side]);
    put_number(json, "contexts", result->contexts[side]);
    put_number(json, "hot_contexts", result->hot[side]);
    put_number(json, "outside", result->outside[side]);
    put_number(json, "left_out", comparison->alignment->left_out[side]);
    json_end_object(json);
}

static void put_edges(struct json *json, const struct comparison *comparison)
{
    const struct compare_result *result = comparison->result;
    const struct alignment *alignment = comparison->alignment;
    json_key(json, "hottest_edges");
    json_spread_array(json);
    for (unsigned i = 0; i < result->top_count; i++) {
        const struct compare_context *context = &alignment->tree->contexts[result->top[i]];
        char *path = compare_path(comparison, result->top[i], ";");
        json_object(json);
        put_text(json, "caller", compare_caller(comparison, result->top[i]));
        put_text(json, "function", compare_name(comparison, result->top[i]));
        put_text(json, "call", alignment->sites[context->site].where);
        put_text(json, "path", path);
        put_number(json, "exact", context->weight[EXACT]);
        json_key(json, "approx"); // null: the context is not there
        if (context->has[APPROX])
            json_unsigned(json, context->weight[APPROX]);
        else
            json_null(json);
        json_end_object(json);
        free(path);
    }
    json_end_array(json);
}

static void put_functions(struct json *json, const struct comparison *comparison)
{
    const struct compare_result *result = comparison->result;
    const struct compare_tree *tree = comparison->alignment->tree;
    json_key(json, "functions");
    json_spread_array(json);
    for (size_t i = 0; i < result->function_count && i < FUNCTIONS_TOLD; i++) {
        const struct compare_share *share = &result->functions[i];
        const struct compare_function *function = &tree->functions[share->function];
        json_object(json);
        put_text(json, "function", function->name);
        put_text(json, "module", comparison->alignment->modules[function->module]);
        put_real(json, "exact_pct", share->percent[EXACT]);
        put_real(json, "approx_pct", share->percent[APPROX]);
        json_end_object(json);
    }
    json_end_array(json);
}

void compare_print_json(FILE *out, const struct comparison *comparison)
{
    struct json writer, *json = &writer;
    json_start(json, out);
    json_object(json);
    put_measures(json, comparison);
    put_real(json, "phi", comparison->options->phi);
    put_real(json, "scale", comparison->result->scale);
    put_number(json, "common_contexts", comparison->result->common);
    put_side(json, comparison, EXACT);
    put_side(json, comparison, APPROX);
    put_edges(json, comparison);
    put_functions(json, comparison);
    json_end_object(json);
    json_finish(json);
}
