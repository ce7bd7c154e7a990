// SPDX-License-Identifier: MIT

// `cairn diff`

#include "analyze/diff/diff_show.h"
#include "analyze/diff/diff_view.h"
#include "base/memory.h"
#include "base/new_file.h"
#include "cmd/diff/sides.h"
#include "cmd/line/terminal.h"
#include "cmd/replace_file.h"
#include "cmd/selection.h"
#include "export/page/page.h"
#include <getopt.h>

enum {
    OPTION_BY = 256,
    OPTION_METRIC,
    OPTION_CONFIDENCE,
    OPTION_SPREAD,
    OPTION_NORMALIZE,
    OPTION_HTML,
    OPTION_JSON,
};

static const struct option_row rows[] = {
    OPTION_TITLE("Options"),
    {OPTION_BY, "by", "context|function",
     "context (default): call paths that changed. function: functions, whoever called them."},
    {OPTION_METRIC, "metric", "NAME", "Which metric (default: the first that all have)."},
    {OPTION_NORMALIZE, "normalize", NULL,
     "Compare shares of the total, for runs that did different amounts of work."},
    {OPTION_CONFIDENCE, "confidence", "PCT",
     "Rows below this confidence are noise, and grey (default 99)."},
    {OPTION_SPREAD, "spread", "PCT",
     "With one run a side: how far the cost of the same code varies from run to run (default 5)."},
    SELECTION_ROW_NO_INLINES,
    SELECTION_ROW_NO_DEBUGINFOD,
    {OPTION_HTML, "html", "OUT",
     "Write a page for browsers, as 'cairn view' does: red costs more, blue less."},
    {OPTION_JSON, "json", NULL, "Everything, for programs."},
    OPTION_TABLE_END,
};

struct diff_arguments {
    const char *lists[DIFF_SIDES]; // names of profiles, with commas
    struct analysis_options analysis;
    struct diff_options diff;
    struct diff_judgement judgement;
    const char *html; // NULL: no page
    bool json;
};

static int set_option(int option, const char *text, void *to)
{
    struct diff_arguments *arguments = to;
    static const char *const by[] = {"context", "function", NULL}; // enum diff_by
    int chosen;
    switch (option) {
    case OPTION_BY:
        chosen = option_choice(&command_diff, "--by", text, by);
        arguments->judgement.by = (enum diff_by)chosen;
        return chosen < 0 ? STATUS_MISUSE : 0;
    case OPTION_METRIC:
        arguments->diff.metric = text;
        return 0;
    case OPTION_CONFIDENCE:
        return sides_confidence(&command_diff, text, &arguments->judgement.confidence);
    case OPTION_SPREAD:
        return sides_spread(&command_diff, text, &arguments->judgement.spread);
    case OPTION_NORMALIZE:
        arguments->diff.normalize = true;
        return 0;
    case OPTION_HTML:
        arguments->html = text;
        return 0;
    case OPTION_JSON:
        arguments->json = true;
        return 0;
    default:
        return selection_option(&(struct selection){&command_diff, &arguments->analysis, NULL},
                                option, text);
    }
}

static int parse(int argc, char **argv, struct diff_arguments *arguments)
{
    const int status = options_parse(&command_diff, argc, argv, set_option, arguments);
    if (status != PROCEED)
        return status;
    if (argc - optind != 2)
        return misuse(&command_diff,
                      "diff: name two profiles, the old one and the new one; several "
                      "runs of either are OLD,OLD2 NEW,NEW2");
    arguments->lists[DIFF_OLD] = argv[optind];
    arguments->lists[DIFF_NEW] = argv[optind + 1];
    return PROCEED;
}

static int write_page(FILE *out, const void *content)
{
    return page_write(out, content);
}

static int write_html(const char *path, const struct diff_shown *shown,
                      const struct diff_judgement *judgement)
{
    struct diff_view view = diff_view(shown->diff, judgement);
    const struct diff_rows *changes = shown->rows;
    const struct text_style style = {.unicode = true};
    char *sentence = diff_sentence(shown, &style);
    const struct page_input input = {
        .analysis = &view.analysis,
        .tree = view.tree,
        .whole = calltree_total(view.tree, 0, VIEW_NEW),
        .old = view.sides[DIFF_OLD],
        .new = view.sides[DIFF_NEW],
        .changes = changes->by == DIFF_BY_CONTEXT ? changes : NULL,
        .sentence = sentence,
    };
    const int error = replace_file(path, write_page, &input);
    free(sentence);
    diff_view_free(&view);
    if (error == 0)
        return 0;
    complain("diff: cannot write %s: %s", path, new_file_error(error));
    return STATUS_FAILED;
}

static int print(const struct diff_arguments *arguments, const struct sides *sides)
{
    struct diff diff;
    char *error = NULL;
    if (diff_open(&diff, sides->inputs, sides->count, &arguments->diff, &error) < 0) {
        complain("diff: %s", error);
        free(error);
        return STATUS_MISUSE;
    }
    struct diff_rows changes = diff_rows(&diff, &arguments->judgement);
    const struct diff_shown shown = {
        .diff = &diff, .rows = &changes, .confidence = arguments->judgement.confidence};
    // First: leaving the pager early ends the command.
    const int written =
        arguments->html ? write_html(arguments->html, &shown, &arguments->judgement) : 0;
    terminal_use_pager();
    if (arguments->json) {
        diff_print_json(stdout, &shown);
    } else {
        struct text_style style = terminal_style();
        diff_print(stdout, &style, &shown);
    }
    int status = finish_output("diff") ? STATUS_FAILED : written;
    diff_rows_free(&changes);
    diff_close(&diff);
    return status;
}

static int run_diff(int argc, char **argv)
{
    struct diff_arguments arguments = {
        .analysis = {.inlines = true, .debuginfod = true},
        .judgement = {.confidence = SIDES_CONFIDENCE, .spread = SIDES_SPREAD},
    };
    int status = parse(argc, argv, &arguments);
    if (status != PROCEED)
        return status;
    struct sides sides = {0};
    status = sides_add(&sides, arguments.lists[DIFF_OLD], DIFF_OLD, &arguments.analysis);
    if (status == 0)
        status = sides_add(&sides, arguments.lists[DIFF_NEW], DIFF_NEW, &arguments.analysis);
    if (status == 0)
        status = print(&arguments, &sides);
    sides_free(&sides);
    return status;
}

static const char help[] =
    "Shows what changed between two versions of a program: which call paths cost\n"
    "more or less, and why.\n"
    "\n"
    "    cairn diff old.out new.out                  paths that changed\n"
    "    cairn diff old.out new.out --by function    functions, whoever called them\n"
    "    cairn diff a.out,b.out c.out,d.out          two runs of each version\n"
    "    cairn diff old.out new.out --html diff.html   flame graph, red and blue\n"
    "    cairn merge -o old.out time.out calls.out   so that diff says why:\n"
    "    cairn diff old.out new.out                  more calls, or costlier ones\n";

static const char notes[] =
    "\n"
    "Contexts are the same by the names of the functions on the path, so that builds\n"
    "may differ. A row is the deepest context that explains a change; what is too\n"
    "small alone counts for its caller. Where calls were counted in both ('cairn\n"
    "record --track calls', 'cairn merge'), 'by calls' is the part of a change that\n"
    "is caused by more or fewer calls, and 'per call' the part caused by costlier or\n"
    "cheaper ones. Callees that are called more often because their caller is called\n"
    "more often belong to its row.\n"
    "Rows below 'may be noise:' may be chance. Counts (calls, allocations) are exact:\n"
    "any change is one. The exit status is 0 whatever changed; 'cairn gate' fails on\n"
    "a change.\n";

const struct command command_diff = {
    .name = "diff",
    .summary = "show what changed between two versions, and why",
    .usage = "OLD[,OLD...] NEW[,NEW...] [OPTION...]",
    .help = help,
    .notes = notes,
    .options = rows,
    .prints = true,
    .run = run_diff,
};
