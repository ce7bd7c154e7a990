// SPDX-License-Identifier: MIT

// OTLP profiles, opentelemetry.proto.profiles.v1development as of version 1.10 of its protocol: a
// resource for each process, a profile for each metric, and a dictionary that all share. Members
// of repeated fields have these numbers:
//
//   ProfilesData        1 resource_profiles, 2 dictionary
//   ResourceProfiles    1 resource, 2 scope_profiles
//   Resource            1 attributes, of 1 key, 2 value
//   ScopeProfiles       1 scope, of 1 name; 2 profiles
//   Profile             1 sample_type, 2 samples, 3 time_unix_nano, 4 duration_nano, 5 period_type,
//                       6 period
//   Sample              1 stack_index, 2 attribute_indices, 4 values
//   ValueType           1 type, 2 unit
//   AnyValue            1 string_value, 3 int_value
//   ProfilesDictionary  1 mapping_table, 2 location_table, 3 function_table, 4 link_table,
//                       5 string_table, 6 attribute_table, 7 stack_table
//   Mapping             1 memory_start, 2 memory_limit, 4 filename, 5 attribute_indices
//   Location            1 mapping_index, 2 address, 3 lines
//   Line                1 function_index, 2 line
//   Function            1 name, 2 system_name, 3 filename, 4 start_line
//   KeyValueAndUnit     1 key, 2 value
//   Stack               1 location_indices
//
// The first member of each table stands for nothing, as in struct locations.

#include "analyze/names/names.h"
#include "base/memory.h"
#include "export/export.h"
#include "export/locations.h"
#include "export/protobuf.h"
#include <errno.h>

struct otlp {
    const struct export_input *input;
    struct locations locations;
    struct bytes file, message, inner, value;
    struct bytes resource;           // of the process that is written
    struct bytes *samples;           // by metric
    struct bytes stacks, attributes; // members of these tables
    uint32_t stack_count, attribute_count;
};

static void put_value(struct otlp *otlp, struct bytes *out, unsigned field, const char *text,
                      uint64_t number)
{
    if (text)
        protobuf_text(&otlp->value, 1, text);
    else
        protobuf_number(&otlp->value, 3, number);
    protobuf_message(out, field, &otlp->value);
}

// An attribute of the resource.
static void describe_resource(struct otlp *otlp, const char *key, const char *text, uint64_t number)
{
    protobuf_text(&otlp->inner, 1, key);
    put_value(otlp, &otlp->inner, 2, text, number);
    protobuf_message(&otlp->message, 1, &otlp->inner);
}

// A member of the table of attributes; its number.
static uint32_t attribute(struct otlp *otlp, const char *key, const char *text, uint64_t number)
{
    protobuf_number(&otlp->inner, 1, locations_string(&otlp->locations, key));
    put_value(otlp, &otlp->inner, 2, text, number);
    protobuf_message(&otlp->attributes, 6, &otlp->inner);
    return otlp->attribute_count++;
}

static void put_sample(struct otlp *otlp, const struct calltree *tree, size_t line,
                       const struct bytes *attributes)
{
    const struct export_input *input = otlp->input;
    size_t depth;
    const uint32_t *stack = locations_stack(&otlp->locations, &tree->lines[line], &depth);
    for (size_t i = 0; i < depth; i++)
        bytes_put_varint(&otlp->inner, stack[i]);
    protobuf_message(&otlp->message, 1, &otlp->inner);
    protobuf_message(&otlp->stacks, 7, &otlp->message);
    for (unsigned i = 0; i < input->metric_count; i++) {
        const uint64_t value = tree->line_values[line * tree->metrics + input->metrics[i]];
        if (!value)
            continue;
        protobuf_number(&otlp->message, 1, otlp->stack_count);
        protobuf_bytes(&otlp->message, 2, attributes->data, attributes->size);
        bytes_put_varint(&otlp->inner, value);
        protobuf_message(&otlp->message, 4, &otlp->inner);
        protobuf_message(&otlp->samples[i], 2, &otlp->message);
    }
    otlp->stack_count++;
}

static bool put_thread(struct otlp *otlp, uint32_t index)
{
    const struct export_input *input = otlp->input;
    const struct profile *profile = input->analysis->profile;
    const struct profile_tree *thread = &profile->trees[index];
    struct calltree *tree = export_thread(input, EXPORT_PLACES, index);
    if (!tree)
        return false;
    struct bytes attributes = {0};
    const char *name =
        build_thread_name(input->analysis->functions, profile, thread, THREADS_APART);
    bytes_put_varint(&attributes, attribute(otlp, "thread.name", name, 0));
    bytes_put_varint(&attributes, attribute(otlp, "thread.id", NULL, thread->tid));
    if (thread->phase[0])
        bytes_put_varint(&attributes, attribute(otlp, "cairn.phase", thread->phase, 0));
    locations_of_tree(&otlp->locations, tree);
    for (size_t i = 0; i < tree->line_count; i++)
        if (locations_has_cost(tree, i, input->metrics, input->metric_count))
            put_sample(otlp, tree, i, &attributes);
    bytes_free(&attributes);
    calltree_free(tree);
    return true;
}

static void put_type(struct otlp *otlp, unsigned field, const struct profile_metric *metric)
{
    protobuf_number(&otlp->inner, 1, locations_string(&otlp->locations, metric->name));
    protobuf_number(&otlp->inner, 2, locations_string(&otlp->locations, export_unit(metric->unit)));
    protobuf_message(&otlp->message, field, &otlp->inner);
}

static void put_profile(struct otlp *otlp, unsigned number, struct bytes *scope)
{
    const struct profile *profile = otlp->input->analysis->profile;
    const struct profile_metric *metric = &profile->metrics[otlp->input->metrics[number]];
    struct bytes *samples = &otlp->samples[number];
    put_type(otlp, 1, metric);
    bytes_put(&otlp->message, samples->data, samples->size);
    samples->size = 0;
    protobuf_fixed64(&otlp->message, 3, profile->start_realtime_ns);
    protobuf_number(&otlp->message, 4, profile->duration_ns);
    if (metric->period) {
        put_type(otlp, 5, metric);
        protobuf_number(&otlp->message, 6, metric->period);
    }
    protobuf_message(scope, 2, &otlp->message);
}

static void put_process(struct otlp *otlp, uint32_t process)
{
    const struct export_input *input = otlp->input;
    const struct profile *profile = input->analysis->profile;
    bool any = false;
    for (uint32_t t = 0; t < profile->tree_count; t++)
        if (profile->trees[t].process == process)
            any |= put_thread(otlp, t);
    if (!any)
        return;
    const struct names *names = functions_names(input->analysis->functions);
    describe_resource(otlp, "process.pid", NULL, profile->processes[process].pid);
    describe_resource(otlp, "process.executable.name", names_program(names, process), 0);
    char *command = analysis_command(profile->processes[process].command);
    describe_resource(otlp, "process.command_line", command, 0);
    free(command);
    protobuf_message(&otlp->resource, 1, &otlp->message);
    struct bytes scope = {0};
    protobuf_text(&otlp->inner, 1, "cairn");
    protobuf_message(&scope, 1, &otlp->inner);
    for (unsigned i = 0; i < input->metric_count; i++)
        put_profile(otlp, i, &scope);
    protobuf_message(&otlp->resource, 2, &scope);
    bytes_free(&scope);
    protobuf_message(&otlp->file, 1, &otlp->resource);
}

static void put_mapping(struct otlp *otlp, struct bytes *dictionary, uint32_t number)
{
    struct locations *locations = &otlp->locations;
    const struct location_mapping *mapping = &locations->mappings[number];
    if (number) {
        const struct location_id id = locations_build_id(locations, mapping->module);
        protobuf_number(&otlp->message, 1, mapping->start);
        protobuf_number(&otlp->message, 2, mapping->limit);
        protobuf_number(&otlp->message, 4,
                        locations_string(locations, locations_file(locations, mapping->module)));
        if (id.text[0]) {
            const uint32_t build_id =
                attribute(otlp, "process.executable.build_id.gnu", id.text, 0);
            bytes_put_varint(&otlp->inner, build_id);
            protobuf_message(&otlp->message, 5, &otlp->inner);
        }
    }
    protobuf_message(dictionary, 1, &otlp->message);
}

static void put_location(struct otlp *otlp, struct bytes *dictionary, uint32_t number)
{
    const struct location *location = &otlp->locations.list[number];
    protobuf_number(&otlp->message, 1, location->mapping);
    protobuf_number(&otlp->message, 2, location->address);
    for (uint32_t i = 0; i < location->line_count; i++) {
        const struct location_line *line = &otlp->locations.lines[(size_t)location->first_line + i];
        protobuf_number(&otlp->inner, 1, line->function);
        protobuf_number(&otlp->inner, 2, line->line);
        protobuf_message(&otlp->message, 3, &otlp->inner);
    }
    protobuf_message(dictionary, 2, &otlp->message);
}

static void put_function(struct otlp *otlp, struct bytes *dictionary, uint32_t number)
{
    const struct location_function *function = &otlp->locations.functions[number];
    protobuf_number(&otlp->message, 1, function->name);
    protobuf_number(&otlp->message, 2, function->name);
    protobuf_number(&otlp->message, 3, function->file);
    protobuf_number(&otlp->message, 4, function->line);
    protobuf_message(dictionary, 3, &otlp->message);
}

static void put_dictionary(struct otlp *otlp)
{
    struct locations *locations = &otlp->locations;
    struct bytes dictionary = {0};
    for (uint32_t i = 0; i < locations->mapping_count; i++)
        put_mapping(otlp, &dictionary, i);
    for (uint32_t i = 0; i < locations->count; i++)
        put_location(otlp, &dictionary, i);
    for (uint32_t i = 0; i < locations->function_count; i++)
        put_function(otlp, &dictionary, i);
    protobuf_bytes(&dictionary, 4, NULL, 0);
    for (size_t i = 0; i < locations->string_count; i++)
        protobuf_bytes(&dictionary, 5, locations->strings[i], strlen(locations->strings[i]));
    bytes_put(&dictionary, otlp->attributes.data, otlp->attributes.size);
    bytes_put(&dictionary, otlp->stacks.data, otlp->stacks.size);
    dictionary.failed |= otlp->attributes.failed || otlp->stacks.failed;
    protobuf_message(&otlp->file, 2, &dictionary);
    bytes_free(&dictionary);
}

static void close_otlp(struct otlp *otlp)
{
    for (unsigned i = 0; i < otlp->input->metric_count; i++)
        bytes_free(&otlp->samples[i]);
    free(otlp->samples);
    bytes_free(&otlp->file);
    bytes_free(&otlp->message);
    bytes_free(&otlp->inner);
    bytes_free(&otlp->value);
    bytes_free(&otlp->resource);
    bytes_free(&otlp->stacks);
    bytes_free(&otlp->attributes);
    locations_close(&otlp->locations);
}

static int write_otlp(FILE *out, const struct export_input *input)
{
    struct otlp otlp = {.input = input, .stack_count = 1, .attribute_count = 1};
    otlp.samples = memory_array(input->metric_count, sizeof *otlp.samples);
    locations_open(&otlp.locations, input->analysis);
    protobuf_bytes(&otlp.stacks, 7, NULL, 0);
    protobuf_bytes(&otlp.attributes, 6, NULL, 0);
    for (uint32_t i = 0; i < input->analysis->profile->process_count; i++)
        put_process(&otlp, i);
    put_dictionary(&otlp);
    if (otlp.file.failed)
        memory_checked(NULL);
    fwrite(otlp.file.data, 1, otlp.file.size, out);
    close_otlp(&otlp);
    return ferror(out) ? -EIO : 0;
}

const struct export_format export_otlp = {
    .name = "otlp",
    .summary = "OpenTelemetry: profiles.v1development, as of protocol 1.10",
    .threads_apart = true,
    .several_metrics = true,
    .binary = true,
    .write = write_otlp,
};
