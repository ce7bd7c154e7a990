// SPDX-License-Identifier: MIT

#include "analyze/views/flat.h"
#include "base/text/json.h"
#include "cmd/top/frame.h"

enum { MOST_ROWS = 100 };

static double rate(uint64_t now, uint64_t before, uint64_t ns)
{
    return ns && now > before ? (double)(now - before) * 1e9 / (double)ns : 0;
}

static void put_functions(struct json *json, const struct top_model *model)
{
    struct functions *functions = model->analysis.functions;
    calltree_order(model->tree, TOP_ALL, ORDER_TOTAL);
    struct flat *flat = flat_new(model->tree, FLAT_FUNCTION);
    flat_order(flat, functions, TOP_ALL, ORDER_SELF);
    json_key(json, "functions");
    json_spread_array(json);
    for (size_t i = 0; i < flat->count && i < MOST_ROWS; i++) {
        const size_t at = flat->order[i];
        const struct function *function = functions_get(functions, flat->rows[at].function);
        json_object(json);
        json_put_string(json, "function", function->name);
        json_put_string(json, "module", functions_module_name(functions, function->module));
        json_put_unsigned(json, "self", flat->self[at * TOP_VALUES + TOP_ALL]);
        json_put_unsigned(json, "total", flat->total[at * TOP_VALUES + TOP_ALL]);
        json_put_unsigned(json, "self_now", flat->self[at * TOP_VALUES + TOP_NOW]);
        json_put_unsigned(json, "total_now", flat->total[at * TOP_VALUES + TOP_NOW]);
        json_end_object(json);
    }
    json_end_array(json);
    flat_free(flat);
}

void top_print_json(FILE *out, const struct top_model *model)
{
    static const char *const states[] = {
        [TOP_RUNS] = "running", [TOP_ENDED] = "ended", [TOP_CUT] = "cut off"};
    const struct profile *profile = model->analysis.profile;
    const struct profile_metric *metric = &profile->metrics[model->metric];
    const struct top_sums *now = &model->sums, *before = &model->sums_before;
    const uint64_t passed = now->duration_ns - before->duration_ns;
    struct json writer, *json = &writer;
    json_start(json, out);
    json_object(json);
    json_put_words(json, "command", profile->command);
    json_put_string(json, "state", states[model->state]);
    json_put_string(json, "metric", metric->name);
    json_put_string(json, "unit", metric->unit);
    json_put_unsigned(json, "duration_ns", now->duration_ns);
    json_put_unsigned(json, "now_ns", passed);
    json_put_unsigned(json, "samples", now->samples);
    json_put_real(json, "samples_per_s", rate(now->samples, before->samples, passed));
    json_put_unsigned(json, "cost_ns", now->cost_ns);
    json_put_real(json, "cpus", rate(now->cost_ns, before->cost_ns, passed) / 1e9);
    json_put_unsigned(json, "handler_ns", now->handler_ns);
    json_put_unsigned(json, "agent_bytes", model->totals.agent_bytes);
    json_put_unsigned(json, "file_bytes", profile->file_bytes);
    json_put_unsigned(json, "whole", model->tree->total[TOP_ALL]);
    json_put_unsigned(json, "whole_now", model->tree->total[TOP_NOW]);
    put_functions(json, model);
    json_end_object(json);
    json_finish(json);
}
