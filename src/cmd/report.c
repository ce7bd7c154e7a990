// SPDX-License-Identifier: MIT

// `cairn report`

#include "analyze/report.h"
#include "base/memory.h"
#include "cmd/cmd.h"
#include "cmd/options.h"
#include "cmd/terminal.h"
#include <errno.h>
#include <getopt.h>

enum {
    OPTION_VIEW = 256,
    OPTION_BY,
    OPTION_METRIC,
    OPTION_MIN,
    OPTION_PHI,
    OPTION_DEPTH,
    OPTION_FOCUS,
    OPTION_IGNORE,
    OPTION_THROUGH,
    OPTION_WITHOUT,
    OPTION_SITES,
    OPTION_NO_SITES,
    OPTION_LINES,
    OPTION_SORT,
    OPTION_PER_PROCESS,
    OPTION_PER_THREAD,
    OPTION_PROCESS,
    OPTION_THREAD,
    OPTION_PHASE,
    OPTION_NO_INLINES,
    OPTION_KERNEL,
    OPTION_FOLD_RECURSION,
    OPTION_NO_FOLD,
    OPTION_NO_DEBUGINFOD,
    OPTION_WIDE,
    OPTION_JSON,
};

static const struct option_row rows[] = {
    {OPTION_VIEW, "view", "tree|callers|flat"},
    {OPTION_BY, "by", "function|line|module|thread|process"},
    {OPTION_METRIC, "metric", "NAME[,NAME...]"},
    {OPTION_MIN, "min", "PCT"},
    {OPTION_PHI, "phi", "P"},
    {OPTION_DEPTH, "depth", "N"},
    {OPTION_FOCUS, "focus", "RE"},
    {OPTION_IGNORE, "ignore", "RE"},
    {OPTION_THROUGH, "through", "RE"},
    {OPTION_WITHOUT, "without", "RE"},
    {OPTION_SITES, "sites", NULL},
    {OPTION_NO_SITES, "no-sites", NULL},
    {OPTION_LINES, "lines", NULL},
    {OPTION_SORT, "sort", "total|self"},
    {OPTION_PER_PROCESS, "per-process", NULL},
    {OPTION_PER_THREAD, "per-thread", "[=start|tid]"},
    {OPTION_PROCESS, "process", "PID"},
    {OPTION_THREAD, "thread", "NAME|TID"},
    {OPTION_PHASE, "phase", "RE"},
    {OPTION_NO_INLINES, "no-inlines", NULL},
    {OPTION_KERNEL, "kernel", "yes|no"},
    {OPTION_FOLD_RECURSION, "fold-recursion", "[=yes|no|auto]"},
    {OPTION_NO_FOLD, "no-fold", NULL},
    {OPTION_NO_DEBUGINFOD, "no-debuginfod", NULL},
    {OPTION_WIDE, "wide", NULL},
    {OPTION_JSON, "json", NULL},
    {0, NULL, NULL},
};

struct arguments {
    struct report_options report;
    struct analysis_options analysis;
    struct pattern_list ignore;
    enum { SITES_USUAL, SITES_YES, SITES_NO } sites;
    bool by_given;
    const char *path;
};

// The position of a word in a list that ends with NULL; complains and returns -1 if it is not
// there.
static int choose(const char *option, const char *word, const char *const *words)
{
    for (int i = 0; words[i]; i++)
        if (strcmp(word, words[i]) == 0)
            return i;
    char list[128] = "";
    for (int i = 0; words[i]; i++) {
        strncat(list, i ? ", " : "", sizeof list - strlen(list) - 1);
        strncat(list, words[i], sizeof list - strlen(list) - 1);
    }
    misuse(&command_report, "report: --%s '%s' is not one of: %s", option, word, list);
    return -1;
}

static int parse_percent(const char *text, double *percent)
{
    char *end;
    errno = 0;
    *percent = strtod(text, &end);
    if (*end == '%')
        end++;
    if (end == text || *end || errno || !(*percent >= 0 && *percent <= 100))
        return misuse(&command_report, "report: --min '%s' is not a percentage from 0 to 100",
                      text);
    return 0;
}

static int parse_share(const char *text, double *share)
{
    char *end;
    errno = 0;
    *share = strtod(text, &end);
    if (end == text || *end || errno || !(*share > 0 && *share < 1))
        return misuse(&command_report,
                      "report: --phi '%s' is not a share of the total above 0 and below 1, as 1e-3",
                      text);
    return 0;
}

static int parse_number(const char *option, const char *text, uint32_t *number)
{
    char *end;
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    if (end == text || *end || errno || *text == '-' || value == 0 || value > INT32_MAX)
        return misuse(&command_report, "report: --%s '%s' is not a positive number", option, text);
    *number = (uint32_t)value;
    return 0;
}

static int parse_pattern(const char *option, const char *text, struct pattern **pattern)
{
    char *error = NULL;
    struct pattern *made = pattern_new(text, &error);
    if (made) {
        pattern_free(*pattern);
        *pattern = made;
        return 0;
    }
    int status = misuse(&command_report, "report: --%s: %s", option, error);
    free(error);
    return status;
}

static int parse_list(const char *option, const char *text, struct pattern_list *list)
{
    if (list->count == REFINE_LIMIT)
        return misuse(&command_report, "report: --%s at most %d times; use 'one|other'", option,
                      REFINE_LIMIT);
    int status = parse_pattern(option, text, &list->patterns[list->count]);
    list->count += status == 0;
    return status;
}

static int parse_thread(const char *text, struct build_options *build)
{
    if (text[strspn(text, "0123456789")] == '\0')
        return parse_number("thread", text, &build->tid);
    return parse_pattern("thread", strcmp(text, "main") == 0 ? "^main thread$" : text,
                         &build->thread);
}

static int parse_choice(int option, const char *text, struct arguments *arguments)
{
    static const char *const views[] = {"tree", "callers", "flat", NULL};
    static const char *const by[] = {"function", "line", "module", "thread", "process", NULL};
    static const char *const sorts[] = {"total", "self", NULL};
    static const char *const threads[] = {"start", "tid", NULL};
    static const char *const kernel[] = {"yes", "no", NULL};
    static const char *const folds[] = {"auto", "yes", "no", NULL}; // enum fold_recursion
    struct report_options *report = &arguments->report;
    int chosen = 0;
    switch (option) {
    case OPTION_VIEW:
        chosen = choose("view", text, views);
        report->view = (enum report_view)chosen;
        break;
    case OPTION_BY:
        chosen = choose("by", text, by);
        report->by = (enum flat_by)chosen;
        arguments->by_given = true;
        break;
    case OPTION_SORT:
        chosen = choose("sort", text, sorts);
        report->sort = chosen == 0 ? ORDER_TOTAL : ORDER_SELF;
        report->sort_given = true;
        break;
    case OPTION_KERNEL:
        chosen = choose("kernel", text, kernel);
        report->build.without_kernel = chosen == 1;
        break;
    case OPTION_FOLD_RECURSION:
        chosen = text ? choose("fold-recursion", text, folds) : FOLD_YES;
        report->fold_recursion = (enum fold_recursion)chosen;
        break;
    case OPTION_PER_THREAD:
        chosen = text ? choose("per-thread", text, threads) : 0;
        report->build.threads = chosen == 0 ? THREADS_BY_START : THREADS_APART;
        break;
    }
    return chosen < 0 ? STATUS_MISUSE : 0;
}

static int parse_option(int option, const char *text, struct arguments *arguments)
{
    struct report_options *report = &arguments->report;
    switch (option) {
    case OPTION_METRIC:
        report->metric = text;
        return 0;
    case OPTION_MIN:
        return parse_percent(text, &report->least);
    case OPTION_PHI:
        return parse_share(text, &report->phi);
    case OPTION_DEPTH:
        return parse_number("depth", text, &report->depth);
    case OPTION_FOCUS:
        return parse_pattern("focus", text, &report->focus);
    case OPTION_IGNORE:
        return parse_list("ignore", text, &arguments->ignore);
    case OPTION_THROUGH:
        return parse_list("through", text, &report->through);
    case OPTION_WITHOUT:
        return parse_list("without", text, &report->without);
    case OPTION_SITES:
        arguments->sites = SITES_YES;
        return 0;
    case OPTION_NO_SITES:
        arguments->sites = SITES_NO;
        return 0;
    case OPTION_LINES:
        report->build.lines = true;
        return 0;
    case OPTION_PER_PROCESS:
        report->build.per_process = true;
        return 0;
    case OPTION_PROCESS:
        return parse_number("process", text, &report->build.process);
    case OPTION_PHASE:
        return parse_pattern("phase", text, &report->build.phase);
    case OPTION_THREAD:
        return parse_thread(text, &report->build);
    case OPTION_NO_INLINES:
        arguments->analysis.inlines = false;
        return 0;
    case OPTION_NO_FOLD:
        report->fold = false;
        return 0;
    case OPTION_NO_DEBUGINFOD:
        arguments->analysis.debuginfod = false;
        return 0;
    case OPTION_WIDE:
        report->wide = true;
        return 0;
    case OPTION_JSON:
        report->json = true;
        return 0;
    default:
        return parse_choice(option, text, arguments);
    }
}

static int parse(int argc, char **argv, struct arguments *arguments)
{
    struct option_scan scan = option_scan(&command_report, argc, argv);
    for (int option; (option = option_next(&scan)) != OPTION_END;) {
        if (option == OPTION_EXIT)
            return scan.status;
        int status = parse_option(option, scan.argument, arguments);
        if (status)
            return status;
    }
    if (argc - optind > 1)
        return misuse(&command_report, "report: one profile at a time, not '%s' as well",
                      argv[optind + 1]);
    arguments->path = optind < argc ? argv[optind] : DEFAULT_PROFILE;
    if (arguments->by_given && arguments->report.view != VIEW_FLAT)
        arguments->report.view = VIEW_FLAT; // --by says what kind of list
    arguments->report.build.ignore = arguments->ignore.patterns;
    arguments->report.build.ignore_count = arguments->ignore.count;
    // In JSON every node has its call line; for people that is one row too many.
    arguments->report.build.sites = arguments->sites == SITES_YES ||
                                    (arguments->sites == SITES_USUAL && arguments->report.json);
    return PROCEED;
}

static int print_report(const struct arguments *arguments)
{
    char *error = NULL;
    struct analysis analysis;
    if (analysis_open(&analysis, arguments->path, &arguments->analysis, &error) < 0)
        return misuse_of_file(error);
    terminal_use_pager();
    struct text_style style = terminal_style();
    if (arguments->report.wide)
        style.width = 0;
    int failed = report_print(stdout, &style, &analysis, &arguments->report, &error);
    int status = finish_output("report");
    if (failed) {
        complain("report: %s", error);
        free(error);
        status = STATUS_MISUSE;
    }
    analysis_close(&analysis);
    return status;
}

static int run_report(int argc, char **argv)
{
    struct arguments arguments = {
        .report = {.least = -1, .fold = true},
        .analysis = {.inlines = true, .debuginfod = true},
    };
    int status = parse(argc, argv, &arguments);
    if (status == PROCEED)
        status = print_report(&arguments);
    for (unsigned i = 0; i < REFINE_LIMIT; i++) {
        pattern_free(arguments.ignore.patterns[i]);
        pattern_free(arguments.report.through.patterns[i]);
        pattern_free(arguments.report.without.patterns[i]);
    }
    pattern_free(arguments.report.focus);
    pattern_free(arguments.report.build.thread);
    pattern_free(arguments.report.build.phase);
    return status;
}

static const char help[] =
    "usage: cairn report [FILE] [OPTION...]\n"
    "\n"
    "Shows where the cost went in a profile that 'cairn record' made (cairn.out if not said).\n"
    "\n"
    "    cairn report                            the call tree, the costly paths first\n"
    "    cairn report --view callers             the costly functions, and who called them\n"
    "    cairn report --view callers --focus '^malloc$'   who called malloc, at what cost\n"
    "    cairn report --by function              a list; also: line, module, thread, process\n"
    "    cairn report --metric wall,cpu,waiting  several metrics side by side\n"
    "    cairn report --focus parse              the tree from 'parse' down, whoever called it\n"
    "    cairn report --through read --through parse      only paths with both on them\n"
    "    cairn report --ignore '^std::'          such functions count as part of their callers\n"
    "    cairn report --json | jq '.nodes[0]'    everything, for programs\n"
    "\n"
    "What is shown:\n"
    "    --view tree|callers|flat   top-down (default), bottom-up, or a list\n"
    "    --by function|line|module|thread|process   a list by these\n"
    "    --lines                    under each function of a tree, the lines of its own cost\n"
    "    --sites, --no-sites        calls from different lines apart (default in JSON), or merged\n"
    "    --per-process              a tree for each process\n"
    "    --per-thread[=start|tid]   a tree for each start routine, or for each thread\n"
    "    --no-inlines               inlined functions count as part of what they were inlined "
    "into\n"
    "    --kernel yes|no            no: system calls count as part of what made them\n"
    "    --fold-recursion[=yes|no|auto]   a function that calls itself, directly or not, is on a\n"
    "                               path once; auto (default): where recursion fills the rows\n"
    "    --metric NAME[,NAME...]    one metric, or several side by side, sorted by the first; "
    "'all'\n"
    "                               shows all; 'waiting' is wall less cpu, if both were recorded\n"
    "    --sort total|self          the order of rows\n"
    "\n"
    "Which part of it:\n"
    "    --min PCT                  only what costs at least this share of what is in focus\n"
    "                               (default 0.5, more if the rows exceed two screens; in JSON "
    "0)\n"
    "    --depth N                  only N calls deep; start-up code does not count\n"
    "    --focus RE                 only from a match down; with --view callers, only who calls "
    "it\n"
    "    --through RE               only paths with a match; may be repeated: all must match\n"
    "    --without RE               only paths without a match; may be repeated\n"
    "    --ignore RE                without functions that match; their cost goes to their "
    "callers\n"
    "    --process PID              only this process\n"
    "    --thread NAME|TID          only these threads; NAME is a start routine, or 'main'\n"
    "    --phase RE                 only phases that match (programs name them)\n"
    "    --phi P                    only contexts with at least this share of the total, and "
    "their\n"
    "                               callers (of hot trees: as recorded, and no less)\n"
    "RE is an extended regular expression that matches anywhere in a function's name, or simply a\n"
    "part of the name.\n"
    "\n"
    "How:\n"
    "    --wide                     names in full length, and start-up code\n"
    "    --no-fold                  one function a row, also where calls do not branch\n"
    "    --no-debuginfod            do not ask the servers in DEBUGINFOD_URLS for debug files\n"
    "    --json                     everything, for programs\n"
    "\n"
    "total is the cost of a function with all it calls, self that of the function alone. returns "
    "says\n"
    "how often a frame was seen to return between samples: more returns for the same time mean "
    "shorter\n"
    "calls, but they do not count calls. Where calls were counted ('cairn record --track calls', "
    "'cairn\n"
    "merge'), calls says how often a function was called on that path, per call what one call cost "
    "with\n"
    "all it calls; by --metric calls, below is a function's calls with all calls under it. Trees "
    "that\n"
    "forget ('cairn record --tree hot') have bounds: with 12.3 % ±0.1, the true share is between "
    "12.2\n"
    "and 12.3 %. On a terminal, names lose parameters, template arguments and namespaces where "
    "they "
    "do\n"
    "not fit, and start-up code is left out; --wide shows all.\n";

const struct command command_report = {
    .name = "report",
    .summary = "show where the cost went: call tree, callers, or a list",
    .help = help,
    .options = rows,
    .prints = true,
    .run = run_report,
};
