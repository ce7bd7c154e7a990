// SPDX-License-Identifier: MIT

// `cairn export`

#include "export/export.h"
#include "analyze/build.h"
#include "analyze/refine.h"
#include "base/new_file.h"
#include "cmd/cmd.h"
#include "cmd/options.h"
#include "cmd/replace.h"
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <sys/stat.h>

struct arguments {
    const struct export_format *format;
    const char *path, *output, *metric;
    struct analysis_options analysis;
    struct build_options build;
    bool fold_recursion;
};

static int unknown_format(const char *name)
{
    char list[256] = "";
    for (size_t i = 0; export_formats[i]; i++) {
        strncat(list, i ? ", " : "", sizeof list - strlen(list) - 1);
        strncat(list, export_formats[i]->name, sizeof list - strlen(list) - 1);
    }
    if (!name)
        return misuse(&command_export, "export: which format? -f with one of: %s", list);
    return misuse(&command_export, "export: there is no format '%s', but: %s", name, list);
}

enum { OPTION_METRIC = 256, OPTION_FOLD_RECURSION, OPTION_NO_INLINES, OPTION_NO_DEBUGINFOD };

static const struct option_row rows[] = {
    {'f', "format", "FORMAT"},
    {'o', "output", "OUT"},
    {OPTION_METRIC, "metric", "NAME"},
    {OPTION_FOLD_RECURSION, "fold-recursion", NULL},
    {OPTION_NO_INLINES, "no-inlines", NULL},
    {OPTION_NO_DEBUGINFOD, "no-debuginfod", NULL},
    {0, NULL, NULL},
};

static int parse(int argc, char **argv, struct arguments *arguments)
{
    struct option_scan scan = option_scan(&command_export, argc, argv);
    for (int option; (option = option_next(&scan)) != OPTION_END;) {
        switch (option) {
        case 'f':
            arguments->format = export_find(scan.argument);
            if (!arguments->format)
                return unknown_format(scan.argument);
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
        case OPTION_NO_INLINES:
            arguments->analysis.inlines = false;
            break;
        case OPTION_NO_DEBUGINFOD:
            arguments->analysis.debuginfod = false;
            break;
        default:
            return scan.status;
        }
    }
    if (!arguments->format)
        return unknown_format(NULL);
    if (argc - optind > 1)
        return misuse(&command_export, "export: one profile at a time, not '%s' as well",
                      argv[optind + 1]);
    arguments->path = optind < argc ? argv[optind] : DEFAULT_PROFILE;
    return PROCEED;
}

// What is there stays there until all is written. A pipe or a device is written to as it is.
struct export_job {
    const struct export_format *format;
    const struct export_input *input;
};

static int write_job(FILE *out, const void *content)
{
    const struct export_job *job = content;
    return job->format->write(out, job->input);
}

static int write_file(const struct arguments *arguments, const struct export_input *input)
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

static int write_out(const struct arguments *arguments, const struct export_input *input)
{
    if (arguments->output)
        return write_file(arguments, input);
    arguments->format->write(stdout, input);
    return finish_output("export");
}

static int export_profile(const struct arguments *arguments)
{
    char *error = NULL;
    struct analysis analysis;
    if (analysis_open(&analysis, arguments->path, &arguments->analysis, &error) < 0)
        return misuse_of_file(error);
    int status;
    int metric = analysis_metric(&analysis, arguments->metric, &error);
    if (metric < 0) {
        status = misuse(&command_export, "export: %s", error);
        free(error);
    } else {
        analysis_resolve(&analysis, &arguments->build);
        struct calltree *tree =
            build_calltree(analysis.functions, analysis.profile, &arguments->build);
        if (arguments->fold_recursion) {
            struct calltree *folded = refine_recursion(tree);
            calltree_free(tree);
            tree = folded;
        }
        calltree_order(tree, (unsigned)metric, ORDER_TOTAL);
        status = write_out(arguments, &(struct export_input){.analysis = &analysis,
                                                             .tree = tree,
                                                             .metric = (unsigned)metric});
        calltree_free(tree);
    }
    analysis_close(&analysis);
    return status;
}

static int run_export(int argc, char **argv)
{
    struct arguments arguments = {.analysis = {.inlines = true, .debuginfod = true}};
    int status = parse(argc, argv, &arguments);
    return status == PROCEED ? export_profile(&arguments) : status;
}

static const char help[] =
    "usage: cairn export -f FORMAT [-o OUT] [FILE] [OPTION...]\n"
    "\n"
    "Writes a profile (cairn.out if not said) for other tools, to stdout or to OUT.\n"
    "\n"
    "    cairn export -f folded | flamegraph.pl > flames.svg\n"
    "    cairn export -f folded -o app.folded     for speedscope.app, inferno\n"
    "\n"
    "Formats:\n"
    "    folded    'outer;...;inner COUNT', a line per call path, functions only: a path begins "
    "with the\n"
    "              outermost function of its thread, as _start or clone3. COUNT is in units of "
    "the\n"
    "              metric (ns for cpu and wall). ';' in names becomes ':'.\n"
    "\n"
    "    -f, --format FORMAT\n"
    "    -o, --output OUT      '-' is stdout\n"
    "    --metric NAME         which metric, if there are several\n"
    "    --fold-recursion      a function that calls itself, directly or not, is on a path once\n"
    "    --no-inlines          inlined functions count as part of what they were inlined into\n"
    "    --no-debuginfod       do not ask the servers in DEBUGINFOD_URLS for debug files\n";

const struct command command_export = {
    .name = "export",
    .summary = "write a profile for other tools, as flame graphs",
    .help = help,
    .options = rows,
    .run = run_export,
};
