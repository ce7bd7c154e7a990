// SPDX-License-Identifier: MIT

#include "analyze/report.h"
#include "analyze/callers.h"
#include "analyze/report_frame.h"
#include "analyze/show.h"
#include "base/memory.h"

#define USUAL_LEAST 0.5 // per cent

static int no_match(char **error, const char *what, const struct pattern *pattern)
{
    if (asprintf(error,
                 "%s '%s': 'cairn report --view flat --min 0' lists all functions that were met",
                 what, pattern_text(pattern)) < 0)
        memory_checked(NULL);
    return -1;
}

static void no_path(char **error, const struct report_options *options)
{
    const struct pattern_list *through = &options->through, *without = &options->without;
    if (through->count > 0)
        no_match(
            error,
            through->count > 1 || without->count > 0
                ? "no recorded path is as asked for, the last condition being that it goes through"
                : "no recorded path goes through",
            through->patterns[through->count - 1]);
    else
        no_match(error, "every recorded path goes through", without->patterns[0]);
}

static struct build_options tree_options(const struct report_options *options)
{
    struct build_options build = options->build;
    if (options->view == VIEW_FLAT) {
        // A line's total is what its calls cost: they must be told apart.
        build.lines = build.sites = options->by == FLAT_LINE;
        build.per_process = options->by == FLAT_PROCESS;
        if (options->by == FLAT_THREAD && build.threads == THREADS_MERGED)
            build.threads = THREADS_BY_START;
        else if (options->by != FLAT_THREAD)
            build.threads = THREADS_MERGED;
    }
    return build;
}

// Leaves the contexts that are hot, and their callers. -1 and *error if more was not recorded.
static int prune(struct report *report, char **error)
{
    struct profile *profile = report->analysis->profile;
    const double wanted = report->options->phi, recorded = report->kind.hot ? report->kind.phi : 0;
    if (wanted > 0 && wanted < recorded * (1 - 1e-9)) {
        if (asprintf(error,
                     "--phi %g asks for more than was recorded: contexts of less than %g of the "
                     "total were not all kept; --phi takes %g and more",
                     wanted, recorded, recorded) < 0)
            memory_checked(NULL);
        return -1;
    }
    report->phi = wanted > 0 ? wanted : recorded;
    // Of a full tree that ran out of memory, what came later may be nothing but an error.
    const bool sure_only = report->kind.has_errors && !report->kind.hot;
    report->tree_wholes = memory_array(profile->tree_count, sizeof *report->tree_wholes);
    for (unsigned i = 0; i < profile->tree_count; i++)
        report->tree_wholes[i] = hot_whole_tree(profile, &profile->trees[i], report->metric);
    // Counts of Sticky Sampling may be too small: who has phi of the total may seem to have less.
    const bool sticky = report->kind.hot && strcmp(report->kind.miner, "sticky") == 0;
    const double slack = sticky ? report->kind.epsilon : 0;
    if (report->phi > 0 || sure_only)
        report->hot =
            hot_prune(profile, report->metric,
                      &(struct hot_choice){.phi = report->phi - slack, .sure_only = sure_only});
    return 0;
}

// What the chosen threads and processes were charged, and how much of it the tree has.
static void sum_whole(struct report *report, const struct calltree *tree)
{
    const struct profile *profile = report->analysis->profile;
    const uint64_t shown = calltree_total(tree, 0, report->metric);
    for (unsigned i = 0; i < profile->tree_count; i++) {
        const struct profile_tree *from = &profile->trees[i];
        if (!build_selects(report->analysis->functions, profile, from, &report->options->build))
            continue;
        report->whole += report->tree_wholes[i];
        if (report->metric != 0)
            continue;
        // Miners that drop counters make less of the sum.
        const int64_t made_up = from->hot.made_up;
        report->purged += from->stats.purged + (made_up < 0 ? 0 - (uint64_t)made_up : 0);
    }
    report->outside = report->whole > shown ? report->whole - shown : 0;
    report->made_up = shown > report->whole ? shown - report->whole : 0;
}

// What all nodes have, with all below them, that stand for something else than a function.
static uint64_t total_of(const struct calltree *tree, const char *name, unsigned metric)
{
    const uint32_t function = functions_intern(tree->functions, name, MODULE_NONE);
    uint64_t total = 0;
    for (uint32_t i = 0; i < tree->count; i++)
        if (tree->nodes[i].function == function)
            total += calltree_total(tree, i, metric);
    return total;
}

static struct calltree *exchanged(struct calltree *old, struct calltree *new)
{
    calltree_free(old);
    return new;
}

// The recorded tree, cut down to the paths that were asked for.
static struct calltree *refined_tree(struct report *report, char **error)
{
    const struct report_options *options = report->options;
    struct build_options build = tree_options(options);
    analysis_resolve(report->analysis, &build);
    if (report_check_selection(report, error) < 0)
        return NULL;
    struct calltree *tree =
        build_calltree(report->analysis->functions, report->analysis->profile, &build);
    sum_whole(report, tree);
    report->detached = total_of(tree, DETACHED, report->metric);
    bool refine = options->through.count > 0 || options->without.count > 0;
    if (refine)
        tree = exchanged(tree, refine_paths(tree, &options->through, &options->without));
    if (report->whole > 0 && tree->count == 1 && refine) {
        calltree_free(tree);
        no_path(error, options);
        return NULL;
    }
    if (options->focus && options->view != VIEW_CALLERS)
        tree = exchanged(tree, refine_focus(tree, options->focus));
    // After the choice of paths: these are judged by all that is on them.
    if (options->fold_recursion && options->view != VIEW_FLAT)
        tree = exchanged(tree, refine_recursion(tree));
    report->without_path = total_of(tree, NO_PATH, report->metric);
    report->part = calltree_total(tree, 0, report->metric);
    return tree;
}

// The marker of walks counts them, in the place of a cost. A merged profile has several trackers:
// "walk+calls".
static bool counts_returns(const struct profile *profile)
{
    if (!profile->tracker || !strstr(profile->tracker, "walk"))
        return false;
    for (unsigned i = 0; i < profile->metric_count; i++)
        if (profile_is_cost(&profile->metrics[i]))
            return true;
    return false;
}

static struct show_options show_options(const struct report *report)
{
    const struct profile *profile = report->analysis->profile;
    unsigned calls = 0;
    while (calls < profile->metric_count && strcmp(profile->metrics[calls].name, PROFILE_CALLS))
        calls++;
    const struct report_options *options = report->options;
    double percent = options->least >= 0                              ? options->least
                     : options->json && options->view != VIEW_CALLERS ? 0
                                                                      : USUAL_LEAST;
    const unsigned error = profile_error_of(profile, report->metric);
    return (struct show_options){
        .profile = profile,
        .unicode = report->style->unicode,
        .has_error = error < profile->metric_count,
        .error = error,
        .metric = report->metric,
        .unit = profile->metrics[report->metric].unit,
        .whole = report->whole,
        .least = (uint64_t)(percent / 100 * (double)report->whole + 0.999),
        .least_percent = percent,
        .depth = options->depth,
        .order = report->order,
        .fold = options->fold,
        .wide = options->wide,
        .narrow = report->style->width != 0,
        .upward = options->view == VIEW_CALLERS,
        .returns = counts_returns(profile),
        .has_calls = calls < profile->metric_count,
        .calls = calls,
        .runs = report->runs,
        .counts_calls = profile_counts_calls(&profile->metrics[report->metric]),
    };
}

static enum call_order usual_order(const struct report_options *options)
{
    if (options->sort_given)
        return options->sort;
    bool whole_rows =
        options->view == VIEW_FLAT && (options->by == FLAT_THREAD || options->by == FLAT_PROCESS);
    if (options->view == VIEW_TREE || whole_rows)
        return ORDER_TOTAL;
    // Who calls a function is asked for all that it costs; a list of hot spots is not.
    return options->view == VIEW_CALLERS && options->focus ? ORDER_TOTAL : ORDER_SELF;
}

static void print_json(struct report *report, const struct show_options *show,
                       const struct calltree *tree, const struct flat *flat)
{
    struct json json;
    json_start(&json, report->out);
    json_object(&json);
    report_json_head(report, &json);
    json_key(&json, "nodes");
    if (flat)
        show_flat_json(&json, flat, report->analysis->functions, show);
    else
        show_tree_json(&json, tree, show);
    json_end_object(&json);
    json_finish(&json);
}

static void print_text(struct report *report, const struct show_options *show,
                       const struct calltree *tree, const struct flat *flat)
{
    report_text_head(report);
    if (report->whole == 0)
        return;
    struct show_hidden hidden;
    if (flat)
        show_flat(report->out, report->style, flat, report->analysis->functions, show, &hidden);
    else
        show_tree(report->out, report->style, tree, show, &hidden);
    report_text_foot(report, show, &hidden);
}

static struct calltree *turned_around(const struct calltree *tree, struct report *report,
                                      const struct show_options *show)
{
    const struct report_options *options = report->options;
    // --depth counts the functions themselves as the first level.
    struct callers_options callers = {.metric = report->metric,
                                      .order = report->order,
                                      .least = show->least,
                                      .depth = options->depth ? options->depth - 1 : CALLERS_DEPTH,
                                      .cut = &report->cut,
                                      .focus = options->focus};
    return callers_tree(tree, &callers);
}

static bool has_returns(const struct calltree *tree)
{
    for (size_t i = 0; i < tree->count; i++)
        if (tree->nodes[i].returns > 0)
            return true;
    return false;
}

static bool has_cost(const struct calltree *tree, unsigned metric)
{
    for (uint32_t i = 0; i < tree->count; i++)
        if (calltree_self(tree, i, metric) > 0)
            return true;
    return false;
}

int report_print(FILE *out, const struct text_style *style, struct analysis *analysis,
                 const struct report_options *options, char **error)
{
    struct report report = {.out = out, .style = style, .analysis = analysis, .options = options};
    int metric = analysis_metric(analysis, options->metric, error);
    if (metric < 0)
        return -1;
    report.metric = (unsigned)metric;
    report.order = usual_order(options);
    report.runs = memory_array(analysis->profile->metric_count, sizeof *report.runs);
    for (unsigned i = 0; i < analysis->profile->metric_count; i++)
        report.runs[i] = (double)profile_runs(&analysis->profile->metrics[i]);
    report.kind = profile_kind(analysis->profile);
    struct calltree *tree = prune(&report, error) < 0 ? NULL : refined_tree(&report, error);
    if (!tree) {
        free(report.tree_wholes);
        free(report.runs);
        return -1;
    }
    struct show_options show = show_options(&report);
    calltree_order(tree, report.metric, report.order);
    struct flat *flat = NULL;
    if (options->view == VIEW_CALLERS) {
        tree = exchanged(tree, turned_around(tree, &report, &show));
    } else if (options->view == VIEW_FLAT) {
        flat = flat_new(tree, options->by);
        flat_order(flat, analysis->functions, report.metric, report.order);
    }
    int status = 0;
    show.has_returns = show.returns && has_returns(tree);
    show.has_error = show.has_error && has_cost(tree, show.error);
    bool nothing = report.whole > 0 && options->focus && tree->count == 1;
    if (nothing)
        status = no_match(error, "no function on the recorded paths matches", options->focus);
    else if (options->json)
        print_json(&report, &show, tree, flat);
    else
        print_text(&report, &show, tree, flat);
    flat_free(flat);
    calltree_free(tree);
    free(report.tree_wholes);
    free(report.runs);
    return status;
}
