// SPDX-License-Identifier: MIT

// pprof's profile.proto, compressed by gzip: a sample for each line of each context of each thread.
// Its fields have these numbers:
//
//   Profile    1 sample_type, 2 sample, 3 mapping, 4 location, 5 function, 6 string_table,
//              9 time_nanos, 10 duration_nanos, 11 period_type, 12 period, 13 comment,
//              14 default_sample_type
//   ValueType  1 type, 2 unit
//   Sample     1 location_id, 2 value, 3 label
//   Label      1 key, 2 str, 3 num
//   Mapping    1 id, 2 memory_start, 3 memory_limit, 5 filename, 6 build_id, 7 has_functions,
//              8 has_filenames, 9 has_line_numbers, 10 has_inline_frames
//   Location   1 id, 2 mapping_id, 3 address, 4 line
//   Line       1 function_id, 2 line
//   Function   1 id, 2 name, 3 system_name, 4 filename, 5 start_line

#include "base/memory.h"
#include "export/export.h"
#include "export/gzip.h"
#include "export/locations.h"
#include "export/protobuf.h"

struct pprof {
    FILE *out;
    const struct export_input *input;
    struct locations locations;
    struct bytes file, message, inner;
};

// Go's profiles of mutexes and blocks have names of their own, which its tools look for.
static const char *type_name(const struct profile_metric *metric)
{
    if (profile_is_lock(metric) && strcmp(metric->name, "contended") == 0)
        return "contentions";
    return profile_is_lock(metric) && strcmp(metric->name, "lock") == 0 ? "delay" : metric->name;
}

static void put_type(struct pprof *pprof, unsigned field, const struct profile_metric *metric)
{
    protobuf_number(&pprof->message, 1, locations_string(&pprof->locations, type_name(metric)));
    protobuf_number(&pprof->message, 2,
                    locations_string(&pprof->locations, export_unit(metric->unit)));
    protobuf_message(&pprof->file, field, &pprof->message);
}

static void put_label(struct pprof *pprof, struct bytes *labels, const char *key, const char *text,
                      uint64_t number)
{
    if (!number && (!text || !*text))
        return;
    protobuf_number(&pprof->inner, 1, locations_string(&pprof->locations, key));
    protobuf_number(&pprof->inner, 2, text ? locations_string(&pprof->locations, text) : 0);
    protobuf_number(&pprof->inner, 3, number);
    protobuf_message(labels, 3, &pprof->inner);
}

// The samples of a tree have this in common.
static void put_labels(struct pprof *pprof, struct bytes *labels, uint32_t index)
{
    const struct profile *profile = pprof->input->analysis->profile;
    struct functions *functions = pprof->input->analysis->functions;
    const struct profile_tree *tree = &profile->trees[index];
    if (tree->process < profile->process_count) {
        char *command = analysis_command(profile->processes[tree->process].command);
        put_label(pprof, labels, "process", command, 0);
        free(command);
        put_label(pprof, labels, "pid", NULL, profile->processes[tree->process].pid);
    }
    put_label(pprof, labels, "thread", build_thread_name(functions, profile, tree, THREADS_APART),
              0);
    put_label(pprof, labels, "tid", NULL, tree->tid);
    put_label(pprof, labels, "phase", tree->phase, 0);
}

static void put_sample(struct pprof *pprof, const struct calltree *tree, size_t line,
                       const struct bytes *labels)
{
    const struct export_input *input = pprof->input;
    size_t depth;
    const uint32_t *stack = locations_stack(&pprof->locations, &tree->lines[line], &depth);
    for (size_t i = 0; i < depth; i++)
        bytes_put_varint(&pprof->inner, stack[i]);
    protobuf_message(&pprof->message, 1, &pprof->inner);
    for (unsigned i = 0; i < input->metric_count; i++)
        bytes_put_varint(&pprof->inner,
                         tree->line_values[line * tree->metrics + input->metrics[i]]);
    protobuf_message(&pprof->message, 2, &pprof->inner);
    bytes_put(&pprof->message, labels->data, labels->size);
    protobuf_message(&pprof->file, 2, &pprof->message);
}

static int put_samples(struct pprof *pprof)
{
    const struct export_input *input = pprof->input;
    struct bytes labels = {0};
    int error = 0;
    for (uint32_t t = 0; t < input->analysis->profile->tree_count && !error; t++) {
        struct calltree *tree = export_thread(input, EXPORT_PLACES, t);
        if (!tree)
            continue;
        labels.size = 0;
        put_labels(pprof, &labels, t);
        locations_of_tree(&pprof->locations, tree);
        for (size_t i = 0; i < tree->line_count && !error; i++) {
            if (locations_has_cost(tree, i, input->metrics, input->metric_count))
                put_sample(pprof, tree, i, &labels);
            error = gzip_write_large(pprof->out, &pprof->file);
        }
        calltree_free(tree);
    }
    bytes_free(&labels);
    return error;
}

static void put_mapping(struct pprof *pprof, uint32_t number)
{
    struct locations *locations = &pprof->locations;
    struct bytes *out = &pprof->message;
    const struct location_mapping *mapping = &locations->mappings[number];
    const enum symbol_quality quality =
        symbols_quality(pprof->input->analysis->symbols, mapping->module);
    protobuf_number(out, 1, number);
    protobuf_number(out, 2, mapping->start);
    protobuf_number(out, 3, mapping->limit);
    protobuf_number(out, 5,
                    locations_string(locations, locations_file(locations, mapping->module)));
    protobuf_number(
        out, 6, locations_string(locations, locations_build_id(locations, mapping->module).text));
    protobuf_number(out, 7, quality >= SYMBOLS_TABLE);
    for (unsigned has = 8; has <= 10; has++)
        protobuf_number(out, has, quality == SYMBOLS_DWARF);
    protobuf_message(&pprof->file, 3, out);
}

static void put_location(struct pprof *pprof, uint32_t number)
{
    const struct location *location = &pprof->locations.list[number];
    protobuf_number(&pprof->message, 1, number);
    protobuf_number(&pprof->message, 2, location->mapping);
    protobuf_number(&pprof->message, 3, location->address);
    for (uint32_t i = 0; i < location->line_count; i++) {
        const struct location_line *line =
            &pprof->locations.lines[(size_t)location->first_line + i];
        protobuf_number(&pprof->inner, 1, line->function);
        protobuf_number(&pprof->inner, 2, line->line);
        protobuf_message(&pprof->message, 4, &pprof->inner);
    }
    protobuf_message(&pprof->file, 4, &pprof->message);
}

static void put_function(struct pprof *pprof, uint32_t number)
{
    const struct location_function *function = &pprof->locations.functions[number];
    protobuf_number(&pprof->message, 1, number);
    protobuf_number(&pprof->message, 2, function->name);
    protobuf_number(&pprof->message, 3, function->name);
    protobuf_number(&pprof->message, 4, function->file);
    protobuf_number(&pprof->message, 5, function->line);
    protobuf_message(&pprof->file, 5, &pprof->message);
}

static void put_head(struct pprof *pprof)
{
    const struct export_input *input = pprof->input;
    const struct profile *profile = input->analysis->profile;
    for (unsigned i = 0; i < input->metric_count; i++)
        put_type(pprof, 1, &profile->metrics[input->metrics[i]]);
    const struct profile_metric *first = &profile->metrics[input->metric];
    protobuf_number(&pprof->file, 9, profile->start_realtime_ns);
    protobuf_number(&pprof->file, 10, profile->duration_ns);
    if (first->period) {
        put_type(pprof, 11, first);
        protobuf_number(&pprof->file, 12, first->period);
    }
    char *command = analysis_command(profile->command);
    if (*command)
        protobuf_number(&pprof->file, 13, locations_string(&pprof->locations, command));
    free(command);
    protobuf_number(&pprof->file, 14, locations_string(&pprof->locations, type_name(first)));
}

static int put_tables(struct pprof *pprof)
{
    int error = 0;
    struct locations *locations = &pprof->locations;
    for (uint32_t i = 1; i < locations->mapping_count; i++)
        put_mapping(pprof, i);
    for (uint32_t i = 1; i < locations->function_count; i++)
        put_function(pprof, i);
    for (uint32_t i = 1; i < locations->count && !error; i++) {
        put_location(pprof, i);
        error = gzip_write_large(pprof->out, &pprof->file);
    }
    for (size_t i = 0; i < locations->string_count; i++)
        protobuf_bytes(&pprof->file, 6, locations->strings[i], strlen(locations->strings[i]));
    return error ? error : gzip_write(pprof->out, &pprof->file);
}

static int write_pprof(FILE *out, const struct export_input *input)
{
    struct pprof pprof = {.out = out, .input = input};
    locations_open(&pprof.locations, input->analysis);
    put_head(&pprof);
    int error = put_samples(&pprof);
    if (!error)
        error = put_tables(&pprof);
    locations_close(&pprof.locations);
    bytes_free(&pprof.file);
    bytes_free(&pprof.message);
    bytes_free(&pprof.inner);
    return error;
}

const struct export_format export_pprof = {
    .name = "pprof",
    .summary = "go tool pprof, Grafana, Parca, speedscope: profile.proto, by gzip",
    .threads_apart = true,
    .several_metrics = true,
    .binary = true,
    .write = write_pprof,
};
