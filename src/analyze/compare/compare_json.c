// SPDX-License-Identifier: MIT

#include "analyze/compare/compare_show.h"
#include "base/memory.h"
#include "base/text/json.h"

#define FUNCTIONS_TOLD 100

static void put_error(struct json *json, const char *key, const struct compare_error *error)
{
    json_key(json, key);
    json_object(json);
    json_put_real(json, "max_pct", error->max);
    json_put_real(json, "avg_pct", error->avg);
    json_put_unsigned(json, "contexts", error->contexts);
    json_end_object(json);
}

static void put_measures(struct json *json, const struct comparison *comparison)
{
    const struct compare_result *result = comparison->result;
    json_put_real(json, "overlap", result->overlap);
    json_put_real(json, "weighted_overlap", result->weighted_overlap);
    json_key(json, "hot_edge_coverage");
    json_object(json);
    for (unsigned t = 0; t < comparison->options->threshold_count; t++)
        json_put_real(json, comparison->thresholds[t], result->coverage[t]);
    json_end_object(json);
    json_key(json, "uncovered");
    json_object(json);
    json_put_real(json, "max_pct", result->uncovered_max);
    json_put_real(json, "avg_pct", result->uncovered_avg);
    json_put_unsigned(json, "contexts", result->uncovered);
    json_end_object(json);
    json_put_unsigned(json, "false_positives", result->false_positives);
    json_put_unsigned(json, "false_negatives", result->false_negatives);
    put_error(json, "counter_error", &result->error);
    put_error(json, "false_positive_error", &result->false_error);
    json_key(json, "correlation");
    json_object(json);
    json_put_real(json, "pearson", result->pearson);
    json_put_real(json, "spearman", result->spearman);
    json_put_unsigned(json, "edges", result->top_count);
    json_end_object(json);
    json_put_real(json, "distortion", result->distortion);
}

static void put_side(struct json *json, const struct comparison *comparison, enum compare_side side)
{
    const struct compare_result *result = comparison->result;
    const struct profile *profile = comparison->analysis[side]->profile;
    json_key(json, side == EXACT ? "exact" : "approx");
    json_object(json);
    json_put_string(json, "file", comparison->path[side]);
    json_put_string(json, "tracker", profile->tracker);
    json_put_string(json, "metric", profile->metrics[comparison->alignment->metric[side]].name);
    json_put_unsigned(json, "total", result->total[side]);
    json_put_unsigned(json, "contexts", result->contexts[side]);
    json_put_unsigned(json, "hot_contexts", result->hot[side]);
    json_put_unsigned(json, "outside", result->outside[side]);
    json_put_unsigned(json, "left_out", comparison->alignment->left_out[side]);
    json_put_unsigned(json, "pruned", side == APPROX ? comparison->pruned : 0);
    char *few = compare_few(comparison, side);
    json_put_bool(json, "few_samples", few != NULL); // what differs may do so by chance
    free(few);
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
        json_put_string(json, "caller", compare_caller(comparison, result->top[i]));
        json_put_string(json, "function", compare_name(comparison, result->top[i]));
        json_put_string(json, "call", alignment->sites[context->site].where);
        json_put_string(json, "path", path);
        json_put_unsigned(json, "exact", context->weight[EXACT]);
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
        json_put_string(json, "function", function->name);
        json_put_string(json, "module", comparison->alignment->modules.names[function->module]);
        json_put_real(json, "exact_pct", share->percent[EXACT]);
        json_put_real(json, "approx_pct", share->percent[APPROX]);
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
    json_put_real(json, "phi", comparison->options->phi);
    json_put_real(json, "scale", comparison->result->scale);
    json_put_unsigned(json, "common_contexts", comparison->result->common);
    put_side(json, comparison, EXACT);
    put_side(json, comparison, APPROX);
    put_edges(json, comparison);
    put_functions(json, comparison);
    json_end_object(json);
    json_finish(json);
}
