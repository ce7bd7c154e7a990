// SPDX-License-Identifier: MIT

// The file format of speedscope: a profile for each metric, and for each thread or process if these
// are kept apart. A profile is a list of events, where a function is entered and where it is left,
// on an axis of the metric instead of time.

#include "base/memory.h"
#include "base/text/json.h"
#include "export/export.h"
#include <errno.h>

struct speedscope {
    struct json json;
    const struct export_input *input;
    uint32_t *frames; // by function: its number + 1
};

// Of functions without a known source file, the module is shown in its place.
static void put_frame(struct speedscope *speedscope, uint32_t number)
{
    struct json *json = &speedscope->json;
    const struct functions *functions = speedscope->input->tree->functions;
    const struct function *function = functions_get(functions, number);
    const char *file = functions_file(functions, function->file);
    const char *module = functions_module_name(functions, function->module);
    json_object(json);
    json_put_string(json, "name", function->name);
    if (file || module)
        json_put_string(json, "file", file ? file : module);
    if (file && function->line)
        json_put_unsigned(json, "line", function->line);
    json_end_object(json);
}

static void put_frames(struct speedscope *speedscope)
{
    const struct calltree *tree = speedscope->input->tree;
    struct json *json = &speedscope->json;
    uint32_t count = 0;
    json_key(json, "shared");
    json_object(json);
    json_key(json, "frames");
    json_spread_array(json);
    for (uint32_t i = 1; i < tree->count; i++) {
        const uint32_t function = tree->nodes[i].function;
        if (!call_is_code(&tree->nodes[i]) || speedscope->frames[function])
            continue;
        put_frame(speedscope, function);
        speedscope->frames[function] = ++count;
    }
    json_end_array(json);
    json_end_object(json);
}

static const char *unit_of(const char *unit)
{
    if (strcmp(unit, "ns") == 0)
        return "nanoseconds";
    return strcmp(unit, "bytes") == 0 ? "bytes" : "none";
}

static void put_event(struct speedscope *speedscope, const char *type, uint32_t node, uint64_t at)
{
    struct json *json = &speedscope->json;
    json_object(json);
    json_put_string(json, "type", type);
    json_put_unsigned(json, "frame",
                      speedscope->frames[speedscope->input->tree->nodes[node].function] - 1);
    json_put_unsigned(json, "at", at);
    json_end_object(json);
}

// Everything below a node, but not below groups of it.
static void put_events(struct speedscope *speedscope, uint32_t base, unsigned metric)
{
    const struct calltree *tree = speedscope->input->tree;
    uint64_t at = 0;
    struct calltree_walk walk;
    calltree_walk_start(&walk, tree);
    walk.node = base;
    for (enum walk_event event; (event = calltree_walk_next(&walk)) != WALK_END;) {
        if (walk.node == base) {
            if (event == WALK_LEAVE)
                break;
            continue;
        }
        const bool shown =
            call_is_code(&tree->nodes[walk.node]) && calltree_total(tree, walk.node, metric);
        if (event == WALK_ENTER && !shown)
            calltree_walk_skip(&walk);
        if (!shown)
            continue;
        put_event(speedscope, event == WALK_ENTER ? "O" : "C", walk.node, at);
        if (event == WALK_ENTER)
            at += calltree_self(tree, walk.node, metric);
    }
    calltree_walk_end(&walk);
}

// The cost below a node that is not below groups of it.
static uint64_t cost_below(const struct calltree *tree, uint32_t base, unsigned metric)
{
    uint64_t cost = 0;
    for (uint32_t i = tree->first[base]; i < tree->first[base + 1]; i++)
        if (call_is_code(&tree->nodes[tree->children[i]]))
            cost += calltree_total(tree, tree->children[i], metric);
    return cost;
}

// "cpu", or "sort [123], worker: cpu".
static void put_name(struct speedscope *speedscope, uint32_t base, const char *metric)
{
    const struct calltree *tree = speedscope->input->tree;
    const uint32_t parent = tree->nodes[base].parent;
    const char *name = calltree_function(tree, base)->name;
    const char *outer =
        base && parent ? calltree_function(tree, parent)->name : NULL; // of a thread: its process
    char *text = NULL;
    if (asprintf(&text, "%s%s%s%s%s", outer ? outer : "", outer ? ", " : "", base ? name : "",
                 base ? ": " : "", metric) < 0)
        memory_checked(NULL);
    json_put_string(&speedscope->json, "name", text);
    free(text);
}

static void put_profile(struct speedscope *speedscope, uint32_t base, unsigned metric)
{
    struct json *json = &speedscope->json;
    const struct profile_metric *known = &speedscope->input->analysis->profile->metrics[metric];
    json_object(json);
    json_put_string(json, "type", "evented");
    put_name(speedscope, base, known->name);
    json_put_string(json, "unit", unit_of(known->unit));
    json_put_unsigned(json, "startValue", 0);
    json_put_unsigned(json, "endValue", cost_below(speedscope->input->tree, base, metric));
    json_key(json, "events");
    json_array(json);
    put_events(speedscope, base, metric);
    json_end_array(json);
    json_end_object(json);
}

static void put_profiles(struct speedscope *speedscope)
{
    const struct export_input *input = speedscope->input;
    const struct calltree *tree = input->tree;
    json_key(&speedscope->json, "profiles");
    json_spread_array(&speedscope->json);
    for (uint32_t node = 0; node < tree->count; node++) {
        if (call_is_code(&tree->nodes[node]))
            continue;
        for (unsigned i = 0; i < input->metric_count; i++)
            if (cost_below(tree, node, input->metrics[i]))
                put_profile(speedscope, node, input->metrics[i]);
    }
    json_end_array(&speedscope->json);
}

static int write_speedscope(FILE *out, const struct export_input *input)
{
    struct speedscope speedscope = {
        .input = input,
        .frames = memory_array(functions_count(input->tree->functions), sizeof(uint32_t)),
    };
    struct json *json = &speedscope.json;
    char *command = analysis_command(input->analysis->profile->command);
    json_start(json, out);
    json_object(json);
    json_put_string(json, "$schema", "https://www.speedscope.app/file-format-schema.json");
    json_put_string(json, "name", command);
    json_put_string(json, "exporter", "cairn");
    json_put_unsigned(json, "activeProfileIndex", 0);
    put_frames(&speedscope);
    put_profiles(&speedscope);
    json_end_object(json);
    json_finish(json);
    free(command);
    free(speedscope.frames);
    return ferror(out) ? -EIO : 0;
}

const struct export_format export_speedscope = {
    .name = "speedscope",
    .summary = "speedscope.app: a profile for each metric",
    .several_metrics = true,
    .write = write_speedscope,
};
