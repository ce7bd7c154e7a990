// SPDX-License-Identifier: MIT

// `cairn compare`

#include "analyze/compare/compare_show.h"
#include "analyze/views/hot.h"
#include "base/memory.h"
#include "base/new_file.h"
#include "base/text/nearest.h"
#include "cmd/line/command.h"
#include "cmd/line/terminal.h"
#include "cmd/replace_file.h"
#include "cmd/selection.h"
#include "export/bars.h"
#include "profile/queries/kind.h"
#include <errno.h>
#include <getopt.h>
#include <math.h>

#define USUAL_PHI 1e-4
#define USUAL_EDGES 40
#define MOST_EDGES 1000

enum {
    OPTION_METRIC = 256,
    OPTION_THRESHOLD,
    OPTION_PHI,
    OPTION_EDGES,
    OPTION_SCALE,
    OPTION_SVG,
    OPTION_JSON,
    OPTION_MONITORED,
};

struct compare_arguments {
    const char *path[2];
    const char *metric, *svg;
    struct compare_options compare;
    char *thresholds[COMPARE_THRESHOLDS];
    struct analysis_options analysis;
    bool scale_given, monitored, json;
};

static int parse_real(const char *option, const char *text, double most, double *value)
{
    char *end;
    errno = 0;
    *value = strtod(text, &end);
    if (end == text || *end || errno || !(*value > 0 && *value <= most))
        return misuse(&command_compare, "compare: --%s '%s' is not a number above 0%s", option,
                      text, most == 1 ? ", at most 1" : "");
    return 0;
}

// "0.1,0.01": these replace the usual ones.
static int parse_thresholds(const char *text, struct compare_arguments *arguments)
{
    for (unsigned i = 0; i < arguments->compare.threshold_count; i++)
        free(arguments->thresholds[i]);
    arguments->compare.threshold_count = 0;
    char *copy = memory_text(text);
    int status = 0;
    for (char *rest = copy, *word; status == 0 && (word = strsep(&rest, ","));) {
        unsigned number = arguments->compare.threshold_count;
        if (number == COMPARE_THRESHOLDS) {
            status = misuse(&command_compare, "compare: at most %d thresholds", COMPARE_THRESHOLDS);
            break;
        }
        status = parse_real("threshold", word, 1, &arguments->compare.thresholds[number]);
        if (status == 0) {
            arguments->thresholds[number] = memory_text(word);
            arguments->compare.threshold_count++;
        }
    }
    free(copy);
    return status;
}

static int parse_edges(const char *text, unsigned *edges)
{
    char *end;
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    if (end == text || *end || errno || *text == '-' || value == 0 || value > MOST_EDGES)
        return misuse(&command_compare, "compare: --edges '%s' is not a number from 1 to %d", text,
                      MOST_EDGES);
    *edges = (unsigned)value;
    return 0;
}

static int parse_scale(const char *text, struct compare_arguments *arguments)
{
    arguments->scale_given = true;
    arguments->compare.scale = 0;
    if (strcmp(text, "total") == 0)
        return 0;
    static const char *const names[] = {"total", NULL};
    if (nearest_word(text, names))
        return misuse(&command_compare,
                      "compare: --scale takes total or a number above 0, not '%s': did you mean "
                      "'total'?",
                      text);
    return parse_real("scale", text, INFINITY, &arguments->compare.scale);
}

static int set_option(int option, const char *text, void *to)
{
    struct compare_arguments *arguments = to;
    switch (option) {
    case OPTION_METRIC:
        arguments->metric = text;
        return 0;
    case OPTION_THRESHOLD:
        return parse_thresholds(text, arguments);
    case OPTION_PHI:
        return parse_real("phi", text, 1, &arguments->compare.phi);
    case OPTION_EDGES:
        return parse_edges(text, &arguments->compare.edges);
    case OPTION_SCALE:
        return parse_scale(text, arguments);
    case OPTION_SVG:
        arguments->svg = text;
        return 0;
    case OPTION_MONITORED:
        arguments->monitored = true;
        return 0;
    case OPTION_JSON:
        arguments->json = true;
        return 0;
    default:
        return selection_option(&(struct selection){&command_compare, &arguments->analysis, NULL},
                                option, text);
    }
}

static const struct option_row rows[] = {
    OPTION_TITLE("Options"),
    {OPTION_JSON, "json", NULL, "Everything, for programs."},
    {OPTION_SVG, "svg", "FILE",
     "Draw the hottest edges: a light bar for the exact weight, a dark one for the other."},
    {OPTION_METRIC, "metric", "NAME[,NAME]",
     "Which metric (default: the first that both have). With two names, EXACT's and APPROX's."},
    {OPTION_THRESHOLD, "threshold", "T[,T]...",
     "Hot edges have T times the weight of the hottest (default 0.1,0.05,0.01,0.001)."},
    {OPTION_PHI, "phi", "P",
     "Hot contexts have P times all weight (default: that of a hot tree, or 1e-4)."},
    {OPTION_EDGES, "edges", "N",
     "How many of the hottest edges are correlated and drawn (default 40)."},
    {OPTION_SCALE, "scale", "total|F",
     "Multiply the weights of APPROX so that their sum is that of EXACT (default, except for trees "
     "by lossy or sticky miners), or by F."},
    {OPTION_MONITORED, "monitored", NULL,
     "Compare all contexts that a hot tree has counters for, not only those that are shown of it."},
    SELECTION_ROW_NO_DEBUGINFOD,
    OPTION_TABLE_END,
};

static int parse(int argc, char **argv, struct compare_arguments *arguments)
{
    const int status = options_parse(&command_compare, argc, argv, set_option, arguments);
    if (status != PROCEED)
        return status;
    if (argc - optind != 2)
        return misuse(&command_compare,
                      "compare: name two profiles, the exact one and the approximation");
    arguments->path[EXACT] = argv[optind];
    arguments->path[APPROX] = argv[optind + 1];
    return PROCEED;
}

// An existing file stays until all is written. A pipe or a device is written to as it is.
static int write_bars(FILE *out, const void *comparison)
{
    return bars_write(out, comparison);
}

static int write_svg(const struct compare_arguments *arguments, const struct comparison *comparison)
{
    const int error = replace_file(arguments->svg, write_bars, comparison);
    if (error == 0)
        return 0;
    complain("compare: cannot write %s: %s", arguments->svg, new_file_error(error));
    return STATUS_FAILED;
}

static int print_comparison(const struct compare_arguments *arguments,
                            const struct comparison *comparison)
{
    // First: leaving the pager early ends the command.
    int status = arguments->svg ? write_svg(arguments, comparison) : 0;
    terminal_use_pager();
    if (arguments->json) {
        compare_print_json(stdout, comparison);
    } else {
        struct text_style style = terminal_style();
        compare_print(stdout, &style, comparison);
    }
    return finish_output("compare") ? STATUS_FAILED : status;
}

// Lossy Counting and Sticky Sampling lose weight for good, and what they have is no sample of it.
// Space Saving loses none.
static double usual_scale(const struct profile *approx)
{
    const struct profile_kind kind = profile_kind(approx);
    return kind.hot && kind.miner != LIVE_MINER_SPACE_SAVING ? 1 : 0;
}

// The share that the hot tree among them was recorded with.
static double usual_phi(struct analysis analyses[2])
{
    for (unsigned side = 2; side-- > 0;) {
        const struct profile_kind kind = profile_kind(analyses[side].profile);
        if (kind.hot && kind.phi > 0)
            return kind.phi;
    }
    return USUAL_PHI;
}

// Of a hot tree, what a report shows of it.
static size_t prune(const struct alignment *alignment, const struct profile *approx)
{
    if (!profile_kind(approx).hot)
        return 0;
    const double phi = hot_shown(approx, 0).phi;
    return compare_prune(alignment->tree, APPROX,
                         hot_least(approx, alignment->metric[APPROX], phi));
}

static int compare_opened(struct compare_arguments *arguments, struct analysis analyses[2],
                          char **error)
{
    struct alignment alignment;
    if (compare_align(&alignment, &analyses[EXACT], &analyses[APPROX], arguments->metric, error) <
        0)
        return STATUS_MISUSE;
    if (!arguments->scale_given)
        arguments->compare.scale = usual_scale(analyses[APPROX].profile);
    if (arguments->compare.phi == 0)
        arguments->compare.phi = usual_phi(analyses);
    const size_t pruned = arguments->monitored ? 0 : prune(&alignment, analyses[APPROX].profile);
    struct compare_result result;
    compare_measure(alignment.tree, &arguments->compare, &result);
    int status = STATUS_MISUSE;
    if (result.total[EXACT] > 0) {
        struct comparison comparison = {
            .analysis = {&analyses[EXACT], &analyses[APPROX]},
            .path = {arguments->path[EXACT], arguments->path[APPROX]},
            .alignment = &alignment,
            .options = &arguments->compare,
            .thresholds = arguments->thresholds,
            .result = &result,
            .pruned = pruned,
        };
        status = print_comparison(arguments, &comparison);
    } else if (asprintf(error, "%s has nothing to compare with: no %s was recorded in it",
                        arguments->path[EXACT],
                        analyses[EXACT].profile->metrics[alignment.metric[EXACT]].name) < 0) {
        memory_checked(NULL);
    }
    compare_result_free(&result);
    alignment_free(&alignment);
    return status;
}

static int compare(struct compare_arguments *arguments)
{
    char *error = NULL;
    struct analysis analyses[2] = {0};
    int status = 0;
    for (unsigned side = 0; side < 2 && status == 0; side++)
        if (analysis_open(&analyses[side], arguments->path[side], &arguments->analysis, &error) < 0)
            status = STATUS_MISUSE;
    if (status) {
        complain("%s", error);
    } else {
        status = compare_opened(arguments, analyses, &error);
        if (error)
            complain("compare: %s", error);
    }
    free(error);
    for (unsigned side = 0; side < 2; side++)
        if (analyses[side].profile)
            analysis_close(&analyses[side]);
    return status;
}

static int run_compare(int argc, char **argv)
{
    struct compare_arguments arguments = {
        .compare = {.edges = USUAL_EDGES},
        .analysis = {.inlines = true, .debuginfod = true},
    };
    parse_thresholds("0.1,0.05,0.01,0.001", &arguments);
    int status = parse(argc, argv, &arguments);
    if (status == PROCEED)
        status = compare(&arguments);
    for (unsigned i = 0; i < arguments.compare.threshold_count; i++)
        free(arguments.thresholds[i]);
    return status;
}

static const char help[] =
    "Measures how good an approximation is: how far the contexts of profile APPROX,\n"
    "and their weights, are from those of EXACT, another profile of the same program.\n"
    "\n"
    "    cairn record --track calls -o exact.out ./app\n"
    "    cairn record -e calls:59 -o sampled.out ./app\n"
    "    cairn compare exact.out sampled.out --svg bars.svg\n";

static const char notes[] =
    "\n"
    "An edge is a call in its context; its weight is the count at that edge, not\n"
    "below it. Contexts are the same by call site and function, wherever programs\n"
    "were loaded; in different builds, by names and lines. If one profile followed\n"
    "calls and the other walked stacks, frames that the former cannot know\n"
    "(libraries, start-up code) are left out of the latter. The exit status is 2 if\n"
    "the profiles are of different programs, or have no metric in common.\n";

const struct command command_compare = {
    .name = "compare",
    .summary = "measure how good an approximation is",
    .usage = "EXACT APPROX [OPTION...]",
    .help = help,
    .notes = notes,
    .options = rows,
    .prints = true,
    .run = run_compare,
};
