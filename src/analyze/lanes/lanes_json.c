// SPDX-License-Identifier: MIT

#include "analyze/lanes/lanes.h"
#include "analyze/names/names.h"
#include "base/text/json.h"

static void put_numbers(struct json *json, const char *key, const uint64_t *numbers, unsigned count)
{
    json_key(json, key);
    json_array(json);
    for (unsigned i = 0; i < count; i++)
        json_unsigned(json, numbers[i]);
    json_end_array(json);
}

static void put_lane(struct json *json, struct analysis *analysis, const struct lanes *lanes,
                     const struct lane *lane)
{
    json_object(json);
    json_put_string(json, "process",
                    names_process(functions_names(analysis->functions), lane->process));
    json_put_unsigned(json, "pid", analysis->profile->processes[lane->process].pid);
    json_put_string(json, "thread", lane->name);
    json_put_unsigned(json, "tid", lane->tid);
    json_put_unsigned(json, "first_ns", lane->first_ns);
    json_put_unsigned(json, "last_ns", lane->last_ns);
    json_put_unsigned(json, "total", lane->total);
    put_numbers(json, "costs", lane->costs, lanes->parts);
    json_key(json, "functions");
    json_array(json);
    for (unsigned i = 0; i < lanes->parts; i++)
        if (lane->functions[i])
            json_string(json, functions_get(analysis->functions, lane->functions[i])->name);
        else
            json_null(json);
    json_end_array(json);
    json_end_object(json);
}

void lanes_print_json(FILE *out, struct analysis *analysis, const struct lanes *lanes)
{
    const struct profile_metric *metric = &analysis->profile->metrics[lanes->metric];
    struct json writer, *json = &writer;
    json_start(json, out);
    json_object(json);
    json_put_string(json, "view", "timeline");
    json_put_string(json, "metric", metric->name);
    json_put_string(json, "unit", metric->unit);
    json_put_unsigned(json, "from_ns", lanes->range.from_ns);
    json_put_unsigned(json, "to_ns", lanes->range.to_ns);
    json_put_unsigned(json, "part_ns", lanes->part_ns);
    json_key(json, "functions");
    json_array(json);
    for (size_t i = 0; i < lanes->function_count; i++) {
        const struct lane_function *of = &lanes->functions[i];
        json_object(json);
        json_put_string(json, "function", functions_get(analysis->functions, of->function)->name);
        json_put_unsigned(json, "total", of->cost);
        json_end_object(json);
    }
    json_end_array(json);
    json_key(json, "lanes");
    json_array(json);
    for (size_t i = 0; i < lanes->count; i++)
        put_lane(json, analysis, lanes, &lanes->lanes[i]);
    json_end_array(json);
    json_end_object(json);
    json_finish(json);
}
