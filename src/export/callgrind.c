// SPDX-License-Identifier: MIT

// The format of valgrind's callgrind: functions with the cost of each line, and of each call.

#include "base/memory.h"
#include "base/text/text.h"
#include "export/cost_lines.h"
#include <errno.h>

struct callgrind {
    FILE *out;
    const struct export_input *input;
    struct cost_lines lines;
    // Names are written once, and called by their numbers then.
    bool *function_named, *file_named, *module_named;
};

// "fn=(3) main", and "fn=(3)" from then on.
static void put_name(const struct callgrind *callgrind, const char *key, uint32_t number,
                     const char *name, bool *named)
{
    fprintf(callgrind->out, "%s=(%u)", key, number + 1);
    if (!*named)
        fprintf(callgrind->out, " %s", name && *name ? text_safe(name) : "???");
    *named = true;
    fputc('\n', callgrind->out);
}

static void put_file(const struct callgrind *callgrind, const char *key, uint32_t file)
{
    put_name(callgrind, key, file, functions_file(callgrind->input->tree->functions, file),
             &callgrind->file_named[file]);
}

// A function is told by its object and its file, too.
static void put_function(const struct callgrind *callgrind, uint32_t number, const char *ob,
                         const char *fl, const char *fn)
{
    const struct functions *functions = callgrind->input->tree->functions;
    const struct profile *profile = callgrind->input->analysis->profile;
    const struct function *function = functions_get(functions, number);
    const uint32_t module = function->module < profile->module_count ? function->module : 0;
    const char *path = module >= MODULE_FIRST_FILE ? profile->modules[module].path
                                                   : functions_module_name(functions, module);
    put_name(callgrind, ob, module, path, &callgrind->module_named[module]);
    put_file(callgrind, fl, callgrind->lines.files[number]);
    put_name(callgrind, fn, number, function->name, &callgrind->function_named[number]);
}

static void put_values(const struct callgrind *callgrind, const uint64_t *values)
{
    for (unsigned i = 0; i < callgrind->input->metric_count; i++)
        fprintf(callgrind->out, " %llu", (unsigned long long)values[i]);
    fputc('\n', callgrind->out);
}

static void put_lines(const struct callgrind *callgrind)
{
    uint32_t function = FUNCTION_NONE, file = 0;
    for (size_t i = 0; i < callgrind->lines.count; i++) {
        const struct cost_line *line = &callgrind->lines.list[i];
        const uint32_t known = callgrind->lines.files[line->function];
        if (line->function == callgrind->input->tree->nodes[0].function)
            continue; // nothing calls the functions that threads begin in
        if (line->function != function) {
            fputc('\n', callgrind->out);
            put_function(callgrind, line->function, "ob", "fl", "fn");
            function = line->function;
            file = known;
        }
        if (line->file != file) {
            put_file(callgrind, line->file == known ? "fe" : "fi", line->file);
            file = line->file;
        }
        if (line->callee) {
            put_function(callgrind, line->callee, "cob", "cfi", "cfn");
            // A count of 0 makes callgrind_annotate take the cost for the caller's own.
            fprintf(callgrind->out, "calls=%llu %u\n",
                    (unsigned long long)(line->calls ? line->calls : 1),
                    functions_get(callgrind->input->tree->functions, line->callee)->line);
        }
        fprintf(callgrind->out, "%u", line->line);
        put_values(callgrind, callgrind->lines.values + line->values);
    }
}

// A blank ends the name of an event.
static void put_event(FILE *out, const char *name)
{
    for (name = text_safe(name); *name; name++)
        fputc(*name == ' ' || *name == ':' || *name == '=' ? '_' : *name, out);
}

static void put_head(const struct callgrind *callgrind, const uint64_t *total)
{
    FILE *out = callgrind->out;
    const struct export_input *input = callgrind->input;
    const struct profile *profile = input->analysis->profile;
    char *command = analysis_command(profile->command);
    fputs("# callgrind format\nversion: 1\ncreator: cairn\n", out);
    if (profile->process_count)
        fprintf(out, "pid: %u\n", profile->processes[0].pid);
    fprintf(out, "cmd: %s\npart: 1\n\npositions: line\n", text_safe(command));
    free(command);
    for (unsigned i = 0; i < input->metric_count; i++) {
        const struct profile_metric *metric = &profile->metrics[input->metrics[i]];
        fputs("event: ", out);
        put_event(out, metric->name);
        fprintf(out, " : %s", text_safe(metric->name));
        fprintf(out, " [%s]\n", text_safe(metric->unit));
    }
    fputs("events:", out);
    for (unsigned i = 0; i < input->metric_count; i++) {
        fputc(' ', out);
        put_event(out, profile->metrics[input->metrics[i]].name);
    }
    fputs("\nsummary:", out);
    put_values(callgrind, total);
}

static int write_callgrind(FILE *out, const struct export_input *input)
{
    struct callgrind callgrind = {.out = out, .input = input};
    const struct functions *functions = input->tree->functions;
    cost_lines_open(&callgrind.lines, input);
    callgrind.function_named = memory_array(functions_count(functions), sizeof(bool));
    callgrind.file_named = memory_array(functions_file_count(functions), sizeof(bool));
    callgrind.module_named =
        memory_array(input->analysis->profile->module_count + (size_t)1, sizeof(bool));
    uint64_t *total = memory_array(input->metric_count, sizeof *total);
    for (unsigned i = 0; i < input->metric_count; i++)
        total[i] = calltree_total(input->tree, 0, input->metrics[i]);
    put_head(&callgrind, total);
    put_lines(&callgrind);
    fputs("\ntotals:", out);
    put_values(&callgrind, total);
    free(total);
    free(callgrind.function_named);
    free(callgrind.file_named);
    free(callgrind.module_named);
    cost_lines_close(&callgrind.lines);
    return ferror(out) ? -EIO : 0;
}

const struct export_format export_callgrind = {
    .name = "callgrind",
    .summary = "callgrind_annotate, kcachegrind: functions, their lines and their calls",
    .detail = EXPORT_LINES,
    .several_metrics = true,
    .write = write_callgrind,
};
