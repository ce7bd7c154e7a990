// SPDX-License-Identifier: MIT

// `cairn info`

#include "analyze/summary.h"
#include "cmd/cmd.h"
#include "cmd/options.h"
#include "cmd/terminal.h"
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
    {OPTION_JSON, "json", NULL},
    {OPTION_NO_DEBUGINFOD, "no-debuginfod", NULL},
    {0, NULL, NULL},
};

static int run_info(int argc, char **argv)
{
    bool json = false, debuginfod = true;
    struct option_scan scan = option_scan(&command_info, argc, argv);
    for (int option; (option = option_next(&scan)) != OPTION_END;) {
        if (option == OPTION_EXIT)
            return scan.status;
        if (option == OPTION_JSON)
            json = true;
        else
            debuginfod = false;
    }
    if (argc - optind > 1)
        return misuse(&command_info, "info: one profile at a time, not '%s' as well",
                      argv[optind + 1]);
    return print_info(optind < argc ? argv[optind] : DEFAULT_PROFILE, json, debuginfod);
}

static const char help[] = "usage: cairn info [FILE] [--json] [--no-debuginfod]\n"
                           "\n"
                           "Tells how a recording went (cairn.out if not said): how many samples, "
                           "how many call paths are\n"
                           "complete, what the sampling itself cost, how large the tree is, and "
                           "which modules have symbols.\n"
                           "\n"
                           "    cairn info                              for people\n"
                           "    cairn info --json                       for programs\n"
                           "    cairn info --json | jq .walks           the share of complete call "
                           "paths, and why others are not\n"
                           "\n"
                           "A call path is complete when the walk came to the root of the thread, "
                           "or to the marker under which\n"
                           "the rest is known. 'lost' are signals that came while no sample could "
                           "be taken; their time is\n"
                           "counted with the next sample.\n";

const struct command command_info = {
    .name = "info",
    .summary = "tell how a recording went: samples, completeness, cost, symbols",
    .help = help,
    .options = rows,
    .prints = true,
    .run = run_info,
};
