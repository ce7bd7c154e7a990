// SPDX-License-Identifier: MIT

// `cairn annotate`

#include "analyze/annotate/annotate.h"
#include "cmd/line/terminal.h"
#include "cmd/selection.h"
#include <getopt.h>
#include <stdlib.h>

enum {
    OPTION_ASM = 256,
    OPTION_METRIC,
    OPTION_SOURCE,
    OPTION_JSON,
};

static const struct option_row rows[] = {
    OPTION_TITLE("Options"),
    {OPTION_ASM, "asm", NULL, "Instructions rather than source lines."},
    {OPTION_METRIC, "metric", "NAME", "Which metric (default: the first)."},
    {OPTION_SOURCE, "source", "FOLDER",
     "The folder with sources that are not where they were compiled."},
    SELECTION_ROW_NO_DEBUGINFOD,
    {OPTION_JSON, "json", NULL, "All lines and instructions, for programs."},
    OPTION_TABLE_END,
};

struct annotate_arguments {
    const char *path;
    struct annotate_options annotate;
    struct analysis_options analysis;
    bool json;
};

static int set_option(int option, const char *text, void *to)
{
    struct annotate_arguments *arguments = to;
    switch (option) {
    case OPTION_ASM:
        arguments->annotate.code = true;
        return 0;
    case OPTION_METRIC:
        arguments->annotate.metric = text;
        return 0;
    case OPTION_SOURCE:
        arguments->annotate.folder = text;
        return 0;
    case OPTION_JSON:
        arguments->json = true;
        return 0;
    default:
        return selection_option(&(struct selection){&command_annotate, &arguments->analysis, NULL},
                                option, text);
    }
}

static int parse(int argc, char **argv, struct annotate_arguments *arguments)
{
    const int status = options_parse(&command_annotate, argc, argv, set_option, arguments);
    if (status != PROCEED)
        return status;
    if (optind == argc)
        return misuse(&command_annotate, "annotate: name the function");
    arguments->annotate.function = argv[optind++];
    return take_profile(&command_annotate, argc, argv, &arguments->path);
}

static int print(const struct annotate_arguments *arguments, struct analysis *analysis)
{
    struct annotated annotated;
    char *error = NULL;
    if (annotate(&annotated, analysis, &arguments->annotate, &error) < 0) {
        complain("annotate: %s", error);
        free(error);
        return STATUS_MISUSE;
    }
    terminal_use_pager();
    if (arguments->json) {
        annotate_print_json(stdout, analysis, &annotated, &arguments->annotate);
    } else {
        struct text_style style = terminal_style();
        annotate_print(stdout, &style, analysis, &annotated, &arguments->annotate);
    }
    annotated_free(&annotated);
    return finish_output("annotate");
}

static int run_annotate(int argc, char **argv)
{
    struct annotate_arguments arguments = {.analysis = {.inlines = true, .debuginfod = true}};
    int status = parse(argc, argv, &arguments);
    if (status != PROCEED)
        return status;
    char *error = NULL;
    struct analysis analysis;
    if (analysis_open(&analysis, arguments.path, &arguments.analysis, &error) < 0)
        return misuse_of_file(error);
    status = print(&arguments, &analysis);
    analysis_close(&analysis);
    return status;
}

static const char help[] =
    "Shows the source of a function with the cost of each line, summed up over all\n"
    "paths that lead to it.\n"
    "\n"
    "    cairn annotate parse                the lines of parse, in cairn.out\n"
    "    cairn annotate parse --asm          its instructions\n"
    "    cairn annotate 'shop::sort<int>' new.out --metric alloc\n";

static const char notes[] =
    "\n"
    "FUNCTION is a name, with parameters or without, or a regular expression. If\n"
    "several match, the costliest one is shown. 'own' is the cost of a line itself,\n"
    "'total' includes the calls that it makes; both are shares of the whole program.\n"
    "Sources are looked for where they were compiled, in the folders above the\n"
    "program, and below --source. A line whose source is not found has its number.\n";

const struct command command_annotate = {
    .name = "annotate",
    .summary = "show the lines of a function with their cost",
    .usage = "FUNCTION [FILE] [OPTION...]",
    .help = help,
    .notes = notes,
    .options = rows,
    .prints = true,
    .run = run_annotate,
};
