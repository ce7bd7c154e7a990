// SPDX-License-Identifier: MIT

// `cairn info`

#include "analyze/summary/summary.h"
#include "cmd/line/command.h"
#include "cmd/line/options.h"
#include "cmd/line/terminal.h"
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

static int print_info(const char *path, bool json, bool debuginfod)
{
    char *error = NULL;
    struct analysis analysis;
    struct analysis_options options = {.inlines = true, .debuginfod = debuginfod};
    if (analysis_open(&analysis, path, &options, &error) < 0)
        return misuse_of_file(error);
    struct profile_totals totals;
    profile_sum(analysis.profile, &totals);
    terminal_use_pager();
    if (json) {
        summary_print_json(stdout, &analysis, &totals);
    } else {
        struct text_style style = terminal_style();
        summary_print(stdout, &style, &analysis, &totals);
    }
    analysis_close(&analysis);
    return finish_output("info");
}

enum { OPTION_JSON = 256, OPTION_NO_DEBUGINFOD };

static const struct option_row rows[] = {
    OPTION_TITLE("Options"),
    {'i', "input", "FILE", "The profile; the same as FILE without an option."},
    {OPTION_JSON, "json", NULL, "The same as JSON."},
    {OPTION_NO_DEBUGINFOD, "no-debuginfod", NULL,
     "Do not ask the servers in DEBUGINFOD_URLS for debug files."},
    OPTION_TABLE_END,
};

static int run_info(int argc, char **argv)
{
    const char *path = NULL;
    bool json = false, debuginfod = true;
    struct option_scan scan = option_scan(&command_info, argc, argv);
    for (int option; (option = option_next(&scan)) != OPTION_END;) {
        if (option == OPTION_EXIT)
            return scan.status;
        if (option == 'i')
            path = scan.argument;
        else if (option == OPTION_JSON)
            json = true;
        else
            debuginfod = false;
    }
    int status = take_profile(&command_info, argc, argv, &path);
    return status == PROCEED ? print_info(path, json, debuginfod) : status;
}

static const char help[] =
    "Shows how a recording went (default cairn.out): how many samples, how many call\n"
    "paths are complete, what the sampling itself cost, how large the tree is, and\n"
    "which modules have symbols.\n"
    "\n"
    "    cairn info                       for people\n"
    "    cairn info --json                for programs\n"
    "    cairn info --json | jq .walks    how many paths are complete\n";

static const char notes[] =
    "\n"
    "A call path is complete when the walk reached the root of the thread, or the\n"
    "marker, above which the rest is known. A sample is 'lost' if it could not be\n"
    "taken at that moment; its time counts with the next sample.\n";

const struct command command_info = {
    .name = "info",
    .summary = "show how a recording went: samples, completeness, cost, symbols",
    .usage = "[FILE] [OPTION...]",
    .help = help,
    .notes = notes,
    .options = rows,
    .prints = true,
    .run = run_info,
};
