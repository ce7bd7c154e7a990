// SPDX-License-Identifier: MIT

// `cairn export`

#include "export/export.h"
#include "analyze/tree/build.h"
#include "base/memory.h"
#include "base/new_file.h"
#include "base/text/json.h"
#include "cmd/replace_file.h"
#include "cmd/selection.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

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
    return 0;
}

enum {
    OPTION_METRIC = 256,
    OPTION_FOLD_RECURSION,
    OPTION_JSON,
};

static const struct option_row rows[] = {
    OPTION_TITLE("Options"),
    {'f', "format", "FORMAT", "Which format; see above."},
    {'o', "output", "OUT", "Write to OUT; '-' is stdout (default)."},
    {'i', "input", "FILE", "The profile; the same as FILE without an option."},
    {OPTION_METRIC, "metric", "NAME", "Write this metric alone; see above."},
    SELECTION_ROW_PROCESS,
    SELECTION_ROW_THREAD,
    SELECTION_ROW_FROM,
    SELECTION_ROW_TO,
    {SELECTION_PER_PROCESS, "per-process", "[=pid|program]",
     "Begin paths with the process, or with its program."},
    {SELECTION_PER_THREAD, "per-thread", "[=name|start|tid]",
     "Begin paths with the thread's name, its start routine, or name and number."},
    {SELECTION_ACROSS_THREADS, "across-threads", NULL,
     "Begin paths of a thread with the path that created it."},
    {OPTION_FOLD_RECURSION, "fold-recursion", NULL,
     "Keep a function that calls itself, directly or not, once on a path."},
    SELECTION_ROW_NO_INLINES,
    SELECTION_ROW_KERNEL,
    SELECTION_ROW_NATIVE,
    SELECTION_ROW_NO_DEBUGINFOD,
    {OPTION_JSON, "json", NULL, "With -o OUT: print what was written as JSON, on stdout."},
    OPTION_TABLE_END,
};

static int set_option(int option, const char *text, void *to)
{
    struct export_arguments *arguments = to;
    switch (option) {
    case 'f':
        return choose_format(text, &arguments->format);
    case 'i':
        arguments->path = text;
        return 0;
    case 'o':
        arguments->output = strcmp(text, "-") == 0 ? NULL : text;
        return 0;
    case OPTION_METRIC:
        arguments->metric = text;
        return 0;
    case OPTION_FOLD_RECURSION:
        arguments->fold_recursion = true;
        return 0;
    case OPTION_JSON:
        arguments->json = true;
        return 0;
    default:
        return selection_option(
            &(struct selection){&command_export, &arguments->analysis, &arguments->build}, option,
            text);
    }
}

// Something of the profile is left out, or said otherwise.
static bool chooses_part(const struct export_arguments *arguments)
{
    const struct build_options *build = &arguments->build;
    return arguments->metric || arguments->fold_recursion || !arguments->analysis.inlines ||
           arguments->analysis.from.given || arguments->analysis.to.given || build_is_part(build) ||
           build->processes || build->threads || build->across_threads || build->without_kernel ||
           build->native;
}

static int parse(int argc, char **argv, struct export_arguments *arguments)
{
    int status = options_parse(&command_export, argc, argv, set_option, arguments);
    if (status != PROCEED)
        return status;
    if (!arguments->format)
        return misuse(&command_export, "export: name the format, as -f folded");
    if (arguments->format->binary && !arguments->output && isatty(STDOUT_FILENO))
        return misuse(&command_export,
                      "export: %s is binary, and not for a terminal: name a file with -o",
                      arguments->format->name);
    if (arguments->json && !arguments->output)
        return misuse(&command_export, "export: --json describes the file that was written: name "
                                       "it with -o OUT");
    if (arguments->format->keeps_all && chooses_part(arguments))
        return misuse(&command_export, "export: %s keeps all of a profile: name -f and -o alone",
                      arguments->format->name);
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
    if (replace_file_is_same(path, arguments->path))
        return misuse(&command_export, "export: %s is the profile itself: choose another -o", path);
    const int error = replace_file(
        path, write_job, &(struct export_job){.format = arguments->format, .input = input});
    if (error == 0)
        return 0;
    complain("export: cannot write %s: %s", path, new_file_error(error));
    return STATUS_FAILED;
}

static uint64_t count_contexts(const struct calltree *tree, unsigned metric)
{
    uint64_t contexts = 0;
    for (size_t i = 0; i < tree->count; i++)
        contexts += tree->self[i * tree->metrics + metric] != 0;
    return contexts;
}

static void print_json(const struct export_arguments *arguments, const struct export_input *input)
{
    const struct profile_metric *metric = &input->analysis->profile->metrics[input->metric];
    struct calltree *tree = export_tree(input, EXPORT_FUNCTIONS);
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
    json_put_unsigned(&json, "contexts", count_contexts(tree, input->metric));
    json_put_unsigned(&json, "total", tree->total[input->metric]);
    json_end_object(&json);
    json_finish(&json);
    calltree_free(tree);
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

// All that were recorded, unless one is chosen; errors that bound others are none of them.
static unsigned list_metrics(const struct export_arguments *arguments,
                             const struct profile *profile, unsigned chosen, unsigned *metrics)
{
    unsigned count = 0;
    for (unsigned i = 0; i < profile->metric_count; i++)
        if (arguments->metric || !arguments->format->several_metrics
                ? i == chosen
                : !profile_is_error(&profile->metrics[i]))
            metrics[count++] = i;
    return count;
}

static int export_metric(const struct export_arguments *arguments, struct analysis *analysis,
                         unsigned metric)
{
    unsigned *metrics = memory_array(analysis->profile->metric_count, sizeof *metrics);
    struct export_input input = {
        .analysis = analysis,
        .metric = metric,
        .metrics = metrics,
        .metric_count = list_metrics(arguments, analysis->profile, metric, metrics),
        .build = &arguments->build,
        .fold_recursion = arguments->fold_recursion,
    };
    struct calltree *tree =
        arguments->format->threads_apart ? NULL : export_tree(&input, arguments->format->detail);
    input.tree = tree;
    const int status = write_out(arguments, &input);
    calltree_free(tree);
    free(metrics);
    return status;
}

static bool has_times(const struct profile *profile, unsigned metric)
{
    const struct profile_timeline *timeline = &profile->timeline;
    for (unsigned i = 0; timeline->recorded && i < timeline->metric_count; i++)
        if (timeline->metrics[i] == metric)
            return true;
    return false;
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
    if (metric >= 0 && arguments->format->needs_timeline &&
        !has_times(analysis.profile, (unsigned)metric))
        complain("export: %s has no times of %s: record with 'cairn record --timeline'",
                 arguments->path, analysis.profile->metrics[metric].name);
    else if (metric < 0 ||
             build_check(analysis.functions, analysis.profile, &arguments->build, &error) < 0) {
        complain("export: %s", error);
        free(error);
    } else {
        status = export_metric(arguments, &analysis, (unsigned)metric);
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
    "    cairn export -f pprof -o app.pb.gz && go tool pprof -http=: app.pb.gz\n"
    "    cairn export -f callgrind -o callgrind.out.app   for kcachegrind\n"
    "    cairn export -f speedscope -o app.json             for speedscope.app\n"
    "    cairn export -f dot | dot -Tsvg > graph.svg\n"
    "\n"
    "Formats:\n"
    "  folded      'outer;...;inner COUNT', one line per call path. A path begins\n"
    "              with the outermost function of its thread, as _start or clone3.\n"
    "              COUNT is in units of the metric (ns for cpu and wall). ';' in\n"
    "              names becomes ':'.\n"
    "  pprof       profile.proto, compressed. Samples have labels: process, pid,\n"
    "              thread, tid, phase.\n"
    "  callgrind   Functions with the cost of their lines and of their calls, added\n"
    "              up over all paths. Calls that were not counted are 1.\n"
    "  speedscope  JSON with a profile for each metric; with --per-thread or\n"
    "              --per-process, for each of these, too.\n"
    "  firefox     JSON for profiler.firefox.com. Without a timeline, samples follow\n"
    "              each other in the order of the call tree.\n"
    "  chrome      Trace events for ui.perfetto.dev, of profiles with a timeline.\n"
    "  otlp        OpenTelemetry's profiles.v1development, as of version 1.10: a\n"
    "              resource for each process, a profile for each metric.\n"
    "  dot         A call graph for graphviz. Functions below 0.5 % and calls below\n"
    "              0.1 % are left out.\n"
    "  csv         A row for each node of the call tree, with costs of its own (self)\n"
    "              and with all below it (total).\n"
    "  cairn       The profile itself, with the names of its functions: to be read on\n"
    "              other machines, and when the program has been built anew.\n"
    "\n"
    "folded, firefox, chrome and dot have one metric, the first unless --metric names\n"
    "another. The others have all metrics, or the one that --metric names.\n";

const struct command command_export = {
    .name = "export",
    .summary = "write a profile for other tools, as flame graphs",
    .usage = "-f FORMAT [-o OUT] [FILE] [OPTION...]",
    .help = help,
    .options = rows,
    .run = run_export,
};
