// SPDX-License-Identifier: MIT

// `cairn export`

#include "export/export.h"
#include "analyze/build.h"
#include "analyze/refine.h"
#include "base/new_file.h"
#include "base/text/json.h"
#include "cmd/options.h"
#include "cmd/replace.h"
#include "cmd/selection.h"
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <sys/stat.h>

struct export_arguments {
    const struct export_format *format;
    const char *path, *output, *metric;
    struct analysis_options analysis;
    struct build_options build;
    bool fold_recursion, json;
};

static int choose_format(const char *name, const struct export_format **format)
{
    const char *names[32] = {NULL};
    for (size_t i = 0; i < 31 && export_formats[i]; i++)
        names[i] = export_formats[i]->name;
    const int chosen = option_choice(&command_export, "-f", name, names);
    if (chosen < 0)
        return STATUS_MISUSE;
    *format = export_formats[chosen];
    return PROCEED;
}

enum {
    OPTION_METRIC = 256,
    OPTION_PROCESS,
    OPTION_THREAD,
    OPTION_PER_PROCESS,
    OPTION_PER_THREAD,
    OPTION_ACROSS_THREADS,
    OPTION_FOLD_RECURSION,
    OPTION_NO_INLINES,
    OPTION_KERNEL,
    OPTION_NO_DEBUGINFOD,
    OPTION_JSON,
};

static const struct option_row rows[] = {
    OPTION_TITLE("Options"),
    {'f', "format", "FORMAT", "Which format; see above."},
    {'o', "output", "OUT", "Write to OUT; '-' is stdout (default)."},
    {'i', "input", "FILE", "The profile; the same as FILE without an option."},
    {OPTION_METRIC, "metric", "NAME", "Which metric, if there are several."},
    {OPTION_PROCESS, "process", "RE|PID",
     "Only these processes. RE is for the program and its arguments."},
    {OPTION_THREAD, "thread", "RE|TID",
     "Only these threads. RE is for names and start routines; 'main' is the main thread."},
    {OPTION_PER_PROCESS, "per-process", "[=pid|program]",
     "Begin paths with the process, or with its program."},
    {OPTION_PER_THREAD, "per-thread", "[=name|start|tid]",
     "Begin paths with the thread's name, its start routine, or name and number."},
    {OPTION_ACROSS_THREADS, "across-threads", NULL,
     "Begin paths of a thread with the path that created it."},
    {OPTION_FOLD_RECURSION, "fold-recursion", NULL,
     "Keep a function that calls itself, directly or not, once on a path."},
    {OPTION_NO_INLINES, "no-inlines", NULL,
     "Count inlined functions as part of the function they were inlined into."},
    {OPTION_KERNEL, "kernel", "yes|no",
     "Show what the kernel does (default), or count it as part of the function that it serves."},
    {OPTION_NO_DEBUGINFOD, "no-debuginfod", NULL,
     "Do not ask the servers in DEBUGINFOD_URLS for debug files."},
    {OPTION_JSON, "json", NULL, "With -o OUT: print what was written as JSON, on stdout."},
    OPTION_TABLE_END,
};

static int parse(int argc, char **argv, struct export_arguments *arguments)
{
    struct option_scan scan = option_scan(&command_export, argc, argv);
    int status = 0;
    for (int option; (option = option_next(&scan)) != OPTION_END;) {
        switch (option) {
        case 'f':
            if (choose_format(scan.argument, &arguments->format) != PROCEED)
                return STATUS_MISUSE;
            break;
        case 'i':
            arguments->path = scan.argument;
            break;
        case 'o':
            arguments->output = strcmp(scan.argument, "-") == 0 ? NULL : scan.argument;
            break;
        case OPTION_METRIC:
            arguments->metric = scan.argument;
            break;
        case OPTION_FOLD_RECURSION:
            arguments->fold_recursion = true;
            break;
        case OPTION_JSON:
            arguments->json = true;
            break;
        case OPTION_PROCESS:
            status = selection_process(&command_export, scan.argument, &arguments->build);
            break;
        case OPTION_THREAD:
            status = selection_thread(&command_export, scan.argument, &arguments->build);
            break;
        case OPTION_PER_PROCESS:
            status = selection_per_process(&command_export, scan.argument, &arguments->build);
            break;
        case OPTION_PER_THREAD:
            status = selection_per_thread(&command_export, scan.argument, &arguments->build);
            break;
        case OPTION_KERNEL:
            status = selection_kernel(&command_export, scan.argument, &arguments->build);
            break;
        case OPTION_ACROSS_THREADS:
            arguments->build.across_threads = true;
            break;
        case OPTION_NO_INLINES:
            arguments->analysis.inlines = false;
            break;
        case OPTION_NO_DEBUGINFOD:
            arguments->analysis.debuginfod = false;
            break;
        default:
            return scan.status;
        }
        if (status)
            return status;
    }
    if (!arguments->format)
        return misuse(&command_export, "export: name the format, as -f folded");
    if (arguments->json && !arguments->output)
        return misuse(&command_export, "export: --json describes the file that was written: name "
                                       "it with -o OUT");
    status = selection_check(&command_export, &arguments->build);
    return status ? status : take_profile(&command_export, argc, argv, &arguments->path);
}

// An existing file stays until all is written. A pipe or a device is written to as it is.
struct export_job {
    const struct export_format *format;
    const struct export_input *input;
};

static int write_job(FILE *out, const void *content)
{
    const struct export_job *job = content;
    return job->format->write(out, job->input);
}

static int write_file(const struct export_arguments *arguments, const struct export_input *input)
{
    const char *path = arguments->output;
    struct stat status, profile;
    if (stat(path, &status) == 0 && stat(arguments->path, &profile) == 0 &&
        status.st_dev == profile.st_dev && status.st_ino == profile.st_ino)
        return misuse(&command_export, "export: %s is the profile itself: choose another -o", path);
    const int error = replace_file(
        path, write_job, &(struct export_job){.format = arguments->format, .input = input});
    if (error == 0)
        return 0;
    complain("export: cannot write %s: %s", path, new_file_error(error));
    return STATUS_FAILED;
}

static uint64_t count_contexts(const struct export_input *input)
{
    uint64_t contexts = 0;
    for (size_t i = 0; i < input->tree->count; i++)
        contexts += input->tree->self[i * input->tree->metrics + input->metric] != 0;
    return contexts;
}

static void print_json(const struct export_arguments *arguments, const struct export_input *input)
{
    const struct profile_metric *metric = &input->analysis->profile->metrics[input->metric];
    struct stat status = {0};
    struct json json;
    stat(arguments->output, &status);
    json_start(&json, stdout);
    json_object(&json);
    json_put_string(&json, "format", arguments->format->name);
    json_put_string(&json, "output", arguments->output);
    json_put_unsigned(&json, "bytes", (uint64_t)status.st_size);
    json_put_string(&json, "metric", metric->name);
    json_put_string(&json, "unit", metric->unit);
    json_put_unsigned(&json, "contexts", count_contexts(input));
    json_put_unsigned(&json, "total", input->tree->total[input->metric]);
    json_end_object(&json);
    json_finish(&json);
}

static int write_out(const struct export_arguments *arguments, const struct export_input *input)
{
    if (arguments->output) {
        const int status = write_file(arguments, input);
        if (status || !arguments->json)
            return status;
        print_json(arguments, input);
        return finish_output("export");
    }
    arguments->format->write(stdout, input);
    return finish_output("export");
}

static int export_tree(const struct export_arguments *arguments, struct analysis *analysis,
                       unsigned metric)
{
    struct calltree *tree =
        build_calltree(analysis->functions, analysis->profile, &arguments->build);
    if (arguments->fold_recursion) {
        struct calltree *folded = refine_recursion(tree);
        calltree_free(tree);
        tree = folded;
    }
    calltree_order(tree, metric, ORDER_TOTAL);
    const int status = write_out(
        arguments, &(struct export_input){.analysis = analysis, .tree = tree, .metric = metric});
    calltree_free(tree);
    return status;
}

static int export_profile(const struct export_arguments *arguments)
{
    char *error = NULL;
    struct analysis analysis;
    if (analysis_open(&analysis, arguments->path, &arguments->analysis, &error) < 0)
        return misuse_of_file(error);
    selection_warn(&command_export, analysis.profile, &arguments->build);
    int metric = analysis_metric(&analysis, arguments->metric, &error);
    if (metric >= 0)
        analysis_resolve(&analysis, &arguments->build);
    int status = STATUS_MISUSE;
    if (metric < 0 ||
        build_check(analysis.functions, analysis.profile, &arguments->build, &error) < 0) {
        complain("export: %s", error);
        free(error);
    } else {
        status = export_tree(arguments, &analysis, (unsigned)metric);
    }
    analysis_close(&analysis);
    return status;
}

static int run_export(int argc, char **argv)
{
    struct export_arguments arguments = {.analysis = {.inlines = true, .debuginfod = true}};
    int status = parse(argc, argv, &arguments);
    if (status == PROCEED)
        status = export_profile(&arguments);
    selection_free(&arguments.build);
    return status;
}

static const char help[] =
    "Writes a profile (default cairn.out) for other tools, to stdout or to OUT.\n"
    "\n"
    "    cairn export -f folded | flamegraph.pl > flames.svg\n"
    "    cairn export -f folded -o app.folded     for speedscope.app, inferno\n"
    "\n"
    "Formats:\n"
    "  folded    'outer;...;inner COUNT', one line per call path. A path begins\n"
    "            with the outermost function of its thread, as _start or clone3.\n"
    "            COUNT is in units of the metric (ns for cpu and wall). ';' in names\n"
    "            becomes ':'.\n";

const struct command command_export = {
    .name = "export",
    .summary = "write a profile for other tools, as flame graphs",
    .usage = "-f FORMAT [-o OUT] [FILE] [OPTION...]",
    .help = help,
    .options = rows,
    .run = run_export,
};
