// SPDX-License-Identifier: MIT

// `cairn report`

#include "analyze/report/report.h"
#include "analyze/lanes/lanes.h"
#include "analyze/tree/suppressions.h"
#include "base/memory.h"
#include "cmd/line/options.h"
#include "cmd/line/terminal.h"
#include "cmd/selection.h"
#include <errno.h>

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
    OPTION_SUPPRESSIONS,
    OPTION_SITES,
    OPTION_NO_SITES,
    OPTION_LINES,
    OPTION_SORT,
    OPTION_SPREAD,
    OPTION_PHASE,
    OPTION_FOLD_RECURSION,
    OPTION_NO_FOLD,
    OPTION_WIDE,
    OPTION_JSON,
};

static const struct option_row rows[] = {
    OPTION_TITLE("What is shown"),
    {'i', "input", "FILE", "The profile; the same as FILE without an option."},
    {OPTION_VIEW, "view", "tree|callers|flat|processes|blame|timeline|files",
     "tree (default): functions under their callers. callers: under each function, its callers. "
     "flat: a list. processes: processes under their parents. blame: who waited for locks, and who "
     "held "
     "them. timeline: threads by time, in a "
     "profile that has a timeline. files: what was read and written, with -e io."},
    {OPTION_BY, "by", "function|line|module|thread|process|program|file", "A list of these."},
    {OPTION_METRIC, "metric", "NAME[,NAME...]",
     "One metric, or several side by side, sorted by the first. 'all' shows all; 'waiting' is wall "
     "less cpu, if both were recorded."},
    {OPTION_SORT, "sort", "total|self",
     "Order by the cost with all callees, or by a function's own."},
    {OPTION_SPREAD, "spread", NULL,
     "Of a merged profile: the least, mean and most of each row's total in one of the profiles, "
     "and the imbalance."},
    {OPTION_LINES, "lines", NULL, "Below each function of a tree, the lines of its own cost."},
    {OPTION_SITES, "sites", NULL, "Keep calls from different lines apart (default in JSON)."},
    {OPTION_NO_SITES, "no-sites", NULL, "Merge calls from different lines (default)."},
    {SELECTION_PER_PROCESS, "per-process", "[=pid|program]",
     "One tree for each process, or for each program."},
    {SELECTION_PER_THREAD, "per-thread", "[=name|start|tid]",
     "One tree for each thread name (pools together, as 'worker-*'; threads without a name by "
     "their start routine), for each start routine, or for each thread."},
    {SELECTION_ACROSS_THREADS, "across-threads", NULL,
     "Each thread below the call that created it, whose cost includes the thread's."},
    SELECTION_ROW_NO_INLINES,
    SELECTION_ROW_KERNEL,
    SELECTION_ROW_NATIVE,
    {OPTION_FOLD_RECURSION, "fold-recursion", "[=yes|no|auto]",
     "Show a function that calls itself, directly or not, once on a path. auto (default): where "
     "recursion fills the rows."},
    OPTION_TITLE("What is selected"),
    {OPTION_FOCUS, "focus", "RE",
     "Only matching functions and what they call; with --view callers, only their callers."},
    {OPTION_THROUGH, "through", "RE", "Only paths with a match. Repeat it: all must match."},
    {OPTION_WITHOUT, "without", "RE", "Only paths without a match. May be repeated."},
    {OPTION_SUPPRESSIONS, "suppressions", "FILE|startup",
     "Leave out known leaks: paths that match a line leak:NAME of FILE, as LeakSanitizer has it; "
     "or what the loader and constructors of libraries do. May be repeated."},
    {OPTION_IGNORE, "ignore", "RE",
     "Hide matching functions; their cost counts for their callers. May be repeated."},
    {OPTION_MIN, "min", "PCT",
     "Only rows with at least this share of the focus (default 0.5, more if the rows exceed two "
     "screens; in JSON 0)."},
    {OPTION_DEPTH, "depth", "N", "Only N calls deep; start-up code does not count."},
    {OPTION_PHI, "phi", "P",
     "Only contexts with at least this share of the total, and their callers."},
    SELECTION_ROW_PROCESS,
    SELECTION_ROW_THREAD,
    {OPTION_PHASE, "phase", "RE", "Only matching phases, which programs can name."},
    SELECTION_ROW_FROM,
    SELECTION_ROW_TO,
    OPTION_TITLE("How it is printed"),
    {OPTION_WIDE, "wide", NULL, "Names in full length, and start-up code."},
    {OPTION_NO_FOLD, "no-fold", NULL, "One function per row, even where calls do not branch."},
    SELECTION_ROW_NO_DEBUGINFOD,
    {OPTION_JSON, "json", NULL, "Everything, for programs."},
    OPTION_TABLE_END,
};

struct report_arguments {
    struct report_options report;
    struct analysis_options analysis;
    struct pattern_list ignore;
    enum { SITES_USUAL, SITES_YES, SITES_NO } sites;
    bool by_given;
    bool timeline;
    const char *path;
};

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

static int parse_list(const char *option, const char *text, struct pattern_list *list)
{
    if (list->count == REFINE_LIMIT)
        return misuse(&command_report, "report: --%s at most %d times; use 'one|other'", option,
                      REFINE_LIMIT);
    int status = selection_pattern(&command_report, option, text, &list->patterns[list->count]);
    list->count += status == 0;
    return status;
}

static int parse_choice(int option, const char *text, struct report_arguments *arguments)
{
    static const char *const views[] = {"tree",  "callers",  "flat",  "processes",
                                        "blame", "timeline", "files", NULL};
    static const char *const by[] = {"function", "line",    "module", "thread",
                                     "process",  "program", "file",   NULL};
    static const char *const sorts[] = {"total", "self", NULL};
    static const char *const folds[] = {"auto", "yes", "no", NULL}; // enum fold_recursion
    struct report_options *report = &arguments->report;
    int chosen = 0;
    switch (option) {
    case OPTION_VIEW:
        chosen = option_choice(&command_report, "--view", text, views);
        arguments->timeline = chosen == (int)VIEW_BLAME + 1;
        report->view = arguments->timeline ? VIEW_TREE : (enum report_view)chosen;
        if (chosen <= (int)VIEW_BLAME + 1)
            break;
        report->view = VIEW_FLAT;
        report->by = FLAT_FILE;
        arguments->by_given = true;
        break;
    case OPTION_BY:
        chosen = option_choice(&command_report, "--by", text, by);
        report->by = (enum flat_by)chosen;
        arguments->by_given = true;
        break;
    case OPTION_SORT:
        chosen = option_choice(&command_report, "--sort", text, sorts);
        report->sort = chosen == 0 ? ORDER_TOTAL : ORDER_SELF;
        report->sort_given = true;
        break;
    case OPTION_FOLD_RECURSION:
        chosen =
            text ? option_choice(&command_report, "--fold-recursion", text, folds) : (int)FOLD_YES;
        report->fold_recursion = (enum fold_recursion)chosen;
        break;
    }
    return chosen < 0 ? STATUS_MISUSE : 0;
}

static int parse_suppressions(const char *path, struct pattern_list *list)
{
    char *error = NULL;
    if (list->count == REFINE_LIMIT)
        return misuse(&command_report, "report: --suppressions: at most %d patterns", REFINE_LIMIT);
    struct pattern *pattern = suppressions_read(path, &error);
    if (pattern) {
        list->patterns[list->count++] = pattern;
        return 0;
    }
    const int status = misuse(&command_report, "report: --suppressions: %s", error);
    free(error);
    return status;
}

static int set_option(int option, const char *text, void *to)
{
    struct report_arguments *arguments = to;
    struct report_options *report = &arguments->report;
    switch (option) {
    case 'i':
        arguments->path = text;
        return 0;
    case OPTION_METRIC:
        report->metric = text;
        return 0;
    case OPTION_MIN:
        return parse_percent(text, &report->least);
    case OPTION_PHI:
        return parse_share(text, &report->phi);
    case OPTION_DEPTH:
        return selection_number(&command_report, "depth", text, &report->depth);
    case OPTION_FOCUS:
        return selection_pattern(&command_report, "focus", text, &report->focus);
    case OPTION_IGNORE:
        return parse_list("ignore", text, &arguments->ignore);
    case OPTION_THROUGH:
        return parse_list("through", text, &report->through);
    case OPTION_WITHOUT:
        return parse_list("without", text, &report->without);
    case OPTION_SUPPRESSIONS:
        return parse_suppressions(text, &report->without);
    case OPTION_SITES:
        arguments->sites = SITES_YES;
        return 0;
    case OPTION_NO_SITES:
        arguments->sites = SITES_NO;
        return 0;
    case OPTION_SPREAD:
        report->spread = true;
        return 0;
    case OPTION_LINES:
        report->build.lines = true;
        return 0;
    case OPTION_PHASE:
        return selection_pattern(&command_report, "phase", text, &report->build.phase);
    case OPTION_NO_FOLD:
        report->fold = false;
        return 0;
    case OPTION_WIDE:
        report->wide = true;
        return 0;
    case OPTION_JSON:
        report->json = true;
        return 0;
    case OPTION_VIEW:
    case OPTION_BY:
    case OPTION_SORT:
    case OPTION_FOLD_RECURSION:
        return parse_choice(option, text, arguments);
    default:
        return selection_option(
            &(struct selection){&command_report, &arguments->analysis, &report->build}, option,
            text);
    }
}

// Lanes have threads, and no paths.
static int check_timeline(const struct report_arguments *arguments)
{
    const struct report_options *report = &arguments->report;
    const bool paths = report->focus || report->through.count || report->without.count ||
                       arguments->ignore.count || report->build.across_threads;
    return !arguments->timeline || !paths
               ? 0
               : misuse(&command_report, "report: --view timeline shows whole threads: choose them "
                                         "with --process, --thread, --phase, --from and --to");
}

static int parse(int argc, char **argv, struct report_arguments *arguments)
{
    int status = options_parse(&command_report, argc, argv, set_option, arguments);
    if (status == PROCEED)
        status = take_profile(&command_report, argc, argv, &arguments->path);
    if (status != PROCEED)
        return status;
    if (arguments->by_given && arguments->report.view != VIEW_FLAT)
        arguments->report.view = VIEW_FLAT; // --by says what kind of list
    if (arguments->timeline && arguments->report.spread)
        return misuse(&command_report, "report: --spread: merged profiles have no timeline");
    if (arguments->by_given && arguments->report.by == FLAT_THREAD &&
        arguments->report.build.across_threads)
        return misuse(&command_report,
                      "report: --by thread shows threads apart: leave out --across-threads");
    status = selection_check(&command_report, &arguments->report.build);
    if (status == 0)
        status = check_timeline(arguments);
    if (status)
        return status;
    arguments->report.build.ignore = arguments->ignore.patterns;
    arguments->report.build.ignore_count = arguments->ignore.count;
    // In JSON every node has its call line; for people that is one row too many.
    arguments->report.build.sites = arguments->sites == SITES_YES ||
                                    (arguments->sites == SITES_USUAL && arguments->report.json);
    return PROCEED;
}

enum { JSON_PARTS = 100 };

static bool has_timeline(const struct profile *profile, unsigned metric)
{
    for (unsigned i = 0; i < profile->timeline.metric_count; i++)
        if (profile->timeline.metrics[i] == metric)
            return true;
    return false;
}

// 0, or -1 and one line in *error.
static int show_lanes(const struct report_arguments *arguments, struct analysis *analysis,
                      struct lanes_options *options, char **error)
{
    const struct report_options *report = &arguments->report;
    const int metric = analysis_metric(analysis, report->metric, error);
    if (metric < 0)
        return -1;
    if (!has_timeline(analysis->profile, (unsigned)metric)) {
        *error = memory_text("there is no timeline of that metric");
        return -1;
    }
    options->metric = (unsigned)metric;
    build_resolve_starts(analysis->functions, analysis->profile);
    if (build_check(analysis->functions, analysis->profile, &report->build, error) < 0)
        return -1;
    struct lanes lanes = lanes_make(analysis, options);
    const struct text_style style = terminal_style();
    if (report->json)
        lanes_print_json(stdout, analysis, &lanes);
    else
        lanes_print(stdout, &style, analysis, &lanes);
    lanes_free(&lanes);
    return 0;
}

// The whole recording is read: a charge at the end of a wait is laid over all of it.
static int print_timeline(const struct report_arguments *arguments)
{
    char *error = NULL;
    struct analysis analysis;
    struct analysis_options whole = arguments->analysis;
    const struct text_style style = terminal_style();
    struct lanes_options options = {
        .build = &arguments->report.build,
        .parts = arguments->report.json ? JSON_PARTS : lanes_columns(&style),
        .depth = arguments->report.depth,
    };
    whole.from.given = whole.to.given = false;
    if (analysis_open(&analysis, arguments->path, &whole, &error) < 0)
        return misuse_of_file(error);
    terminal_use_pager();
    int status = 0;
    if (analysis_range(analysis.profile, arguments->path, &arguments->analysis, &options.range,
                       &error) < 0 ||
        show_lanes(arguments, &analysis, &options, &error) < 0) {
        complain("report: %s", error);
        free(error);
        status = STATUS_MISUSE;
    }
    const int output = finish_output("report");
    analysis_close(&analysis);
    return status ? status : output;
}

static int print_report(const struct report_arguments *arguments)
{
    char *error = NULL;
    struct analysis analysis;
    if (analysis_open(&analysis, arguments->path, &arguments->analysis, &error) < 0)
        return misuse_of_file(error);
    selection_warn(&command_report, analysis.profile, &arguments->report.build);
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
    struct report_arguments arguments = {
        .report = {.least = -1, .fold = true},
        .analysis = {.inlines = true, .debuginfod = true},
    };
    int status = parse(argc, argv, &arguments);
    if (status == PROCEED)
        status = arguments.timeline ? print_timeline(&arguments) : print_report(&arguments);
    for (unsigned i = 0; i < REFINE_LIMIT; i++) {
        pattern_free(arguments.ignore.patterns[i]);
        pattern_free(arguments.report.through.patterns[i]);
        pattern_free(arguments.report.without.patterns[i]);
    }
    pattern_free(arguments.report.focus);
    pattern_free(arguments.report.build.phase);
    selection_free(&arguments.report.build);
    return status;
}

static const char help[] =
    "Shows where the cost went, in a profile that 'cairn record' wrote (default\n"
    "cairn.out).\n"
    "\n"
    "    cairn report                            the call tree, costly paths first\n"
    "    cairn report --view callers             costly functions, and their callers\n"
    "    cairn report --view callers --focus '^malloc$'   who called malloc\n"
    "    cairn report --by function              a list; also line, module, thread\n"
    "    cairn report --view processes           processes, each under its parent\n"
    "    cairn report --spread                   how even ranks are (cairn merge)\n"
    "    cairn report --across-threads           threads below their creators\n"
    "    cairn report --metric wall,cpu,waiting  several metrics side by side\n"
    "    cairn report --focus parse              from 'parse' down, whoever called it\n"
    "    cairn report --view callers --focus '^sys_'      system calls, by caller\n"
    "    cairn report --view timeline            threads by time, with a timeline\n"
    "    cairn report --from 1.5s --to 2s        half a second of it, with a timeline\n"
    "    cairn report --through read --through parse      paths with both on them\n"
    "    cairn report --ignore '^std::'          count these as part of their callers\n"
    "    cairn report --metric live --suppressions startup   leaks, but for the start\n"
    "    cairn report --json | jq '.nodes[0]'    everything, for programs\n";

static const char notes[] =
    "\n"
    "RE is an extended regular expression that matches anywhere in a name, or simply\n"
    "a part of the name.\n"
    "\n"
    "'total' is the cost of a function with all it calls, 'self' that of the function\n"
    "alone. 'returns' counts how often a function was seen to return between samples:\n"
    "for the same time, more returns mean shorter calls. Where calls were counted\n"
    "('cairn record --track calls', 'cairn merge'), 'calls' is the number of calls on\n"
    "that path, and 'per call' the cost of one with all it calls. Trees that drop\n"
    "cold paths ('cairn record --tree hot') have bounds: with 12.3 % ±0.1, the true\n"
    "share is between 12.2 and 12.3 %. On a terminal, names lose parameters, template\n"
    "arguments and namespaces where they do not fit, and start-up code is left out;\n"
    "--wide shows all.\n";

const struct command command_report = {
    .name = "report",
    .summary = "show where the cost went: call tree, callers, or a list",
    .usage = "[FILE] [OPTION...]",
    .help = help,
    .notes = notes,
    .options = rows,
    .prints = true,
    .run = run_report,
};
