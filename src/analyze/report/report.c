// SPDX-License-Identifier: MIT

#include "analyze/report/report.h"
#include "analyze/report/report_frame.h"
#include "analyze/report/row_plan.h"
#include "analyze/report/show.h"
#include "analyze/tree/blame_tree.h"
#include "analyze/tree/process_tree.h"
#include "analyze/views/callers.h"
#include "base/memory.h"
#include "profile/queries/sampling_error.h"

#define USUAL_LEAST 0.5 // per cent

static int no_match(char **error, const char *what, const struct pattern *pattern)
{
    if (asprintf(error, "%s '%s': 'cairn report --view flat --min 0' lists all functions", what,
                 pattern_text(pattern)) < 0)
        memory_checked(NULL);
    return -1;
}

static void no_path(char **error, const struct report_options *options)
{
    const struct pattern_list *through = &options->through, *without = &options->without;
    if (through->count > 0)
        no_match(error,
                 through->count > 1 || without->count > 0
                     ? "no recorded path meets all conditions; the last one is that it goes through"
                     : "no recorded path goes through",
                 through->patterns[through->count - 1]);
    else
        no_match(error, "every recorded path goes through", without->patterns[0]);
}

static struct build_options tree_options(const struct report_options *options)
{
    struct build_options build = options->build;
    if (options->view == VIEW_FLAT) {
        // A line's total is the cost of its calls: so calls from different lines stay apart.
        build.lines = build.sites = options->by == FLAT_LINE;
        build.processes = options->by == FLAT_PROCESS   ? PROCESSES_APART
                          : options->by == FLAT_PROGRAM ? PROCESSES_BY_PROGRAM
                                                        : PROCESSES_MERGED;
        if (options->by == FLAT_THREAD && build.threads == THREADS_MERGED)
            build.threads = THREADS_BY_NAME;
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
    report->tree_wholes = memory_array(profile->tree_count, sizeof *report->tree_wholes);
    for (unsigned i = 0; i < profile->tree_count; i++)
        report->tree_wholes[i] = hot_whole_tree(profile, &profile->trees[i], report->metric);
    const struct hot_choice shown = hot_shown(profile, wanted);
    report->hot = hot_prune(profile, report->metric, &shown);
    return 0;
}

// The cost of the chosen threads and processes, and the part of it in the tree.
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

// Wall time that was waited: of the chosen threads, as everything else.
static void sum_waiting(struct report *report, const struct calltree *tree)
{
    const struct report_metrics *metrics = &report->metrics;
    if (metrics->chosen[0].index != tree->metrics)
        return;
    const uint64_t cpu = calltree_total(tree, 0, metrics->cpu);
    report->whole = report->whole > cpu ? report->whole - cpu : 0;
}

// The total cost of all nodes with that name that stand for something else than a function.
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

// The metric of a tree's nodes that rows are sorted by.
static unsigned sorted_metric(const struct report *report)
{
    return report->metrics.chosen[0].index;
}

// The cost of all matches together: each path counts once.
static uint64_t focus_total(const struct calltree *tree, struct pattern *focus, unsigned metric)
{
    uint64_t total = 0;
    bool *inside = memory_array(tree->count, sizeof *inside);
    for (uint32_t i = 1; i < tree->count; i++) {
        const struct call_node *node = &tree->nodes[i];
        inside[i] = inside[node->parent] ||
                    (call_is_code(node) && pattern_matches(focus, tree->functions, node->function));
        if (inside[i] && !inside[node->parent])
            total += calltree_total(tree, i, metric);
    }
    free(inside);
    return total;
}

// The part of a tree that is shown.
static struct calltree *cut_down(const struct report *report, struct calltree *tree)
{
    const struct report_options *options = report->options;
    if (options->focus && options->view != VIEW_CALLERS)
        tree = exchanged(tree, refine_focus(tree, options->focus));
    return report->folded ? exchanged(tree, refine_recursion(tree)) : tree;
}

static struct calltree *choose_paths(const struct report *report, struct calltree *tree)
{
    const struct report_options *options = report->options;
    const bool refine = options->through.count > 0 || options->without.count > 0;
    return refine ? exchanged(tree, refine_paths(tree, &options->through, &options->without))
                  : tree;
}

// The recorded tree, cut down to the paths that were asked for.
static struct calltree *refined_tree(struct report *report, char **error)
{
    const struct report_options *options = report->options;
    struct build_options build = tree_options(options);
    if (options->view == VIEW_PROCESSES)
        build_resolve_starts(report->analysis->functions, report->analysis->profile);
    else
        analysis_resolve(report->analysis, &build);
    struct functions *functions = report->analysis->functions;
    const struct profile *profile = report->analysis->profile;
    if (build_check(functions, profile, &build, error) < 0)
        return NULL;
    struct calltree *tree =
        options->view == VIEW_PROCESSES ? process_tree(functions, profile, &build)
        : options->view == VIEW_BLAME   ? blame_tree(functions, profile, &build)
                                        : build_calltree(functions, profile, &build);
    sum_whole(report, tree);
    sum_waiting(report, tree);
    report->detached = total_of(tree, DETACHED, report->metric);
    bool refine = options->through.count > 0 || options->without.count > 0;
    tree = choose_paths(report, tree);
    if (report->whole > 0 && tree->count == 1 && refine) {
        calltree_free(tree);
        no_path(error, options);
        return NULL;
    }
    // After the choice of paths: these are judged by all that is on them.
    report->folded = options->fold_recursion == FOLD_YES && options->view != VIEW_FLAT;
    tree = cut_down(report, tree);
    report_add_waiting(&report->metrics, tree);
    for (unsigned i = 0; i < REPORT_EXPLAINED; i++)
        report->explained[i] = total_of(tree, report_explained[i].name, report->metric);
    report->part = calltree_total(tree, 0, sorted_metric(report));
    report->focus = options->view == VIEW_CALLERS && options->focus
                        ? focus_total(tree, options->focus, sorted_metric(report))
                        : report->part;
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
    const struct report_metrics *metrics = &report->metrics;
    const bool recorded = metrics->chosen[0].index == report->metric;
    struct show_options show = {
        .profile = profile,
        .unicode = report->style->unicode,
        .has_error = error < profile->metric_count && recorded,
        .error = error,
        .estimated = recorded && profile_is_estimated(profile, report->metric),
        .metric_count = metrics->count,
        .metric = sorted_metric(report),
        .unit = metrics->chosen[0].unit,
        .whole = report->whole,
        .least_whole = report->focus,
        .least_percent = percent,
        .may_raise = options->least < 0 && !options->json,
        .depth = options->depth,
        .order = report->order,
        .head = options->view == VIEW_PROCESSES ? "process" : "function",
        .fold = options->fold,
        .wide = options->wide,
        .brief = report->style->width != 0 && options->fold && !options->wide,
        .upward = options->view == VIEW_CALLERS,
        .to_roots = options->view == VIEW_CALLERS && options->focus,
        .returns = counts_returns(profile),
        .has_calls = calls < profile->metric_count,
        .calls = calls,
        .runs = report->runs,
        .ratios = report->ratios,
        .ratio_count = report->ratio_count,
        .counts_calls = profile_counts_calls(&profile->metrics[report->metric]),
    };
    memcpy(show.metrics, metrics->chosen, sizeof show.metrics);
    show.least = show_least(&show, percent);
    return show;
}

static enum call_order usual_order(const struct report_options *options)
{
    if (options->sort_given)
        return options->sort;
    bool whole_rows = options->view == VIEW_FLAT && flat_is_by_owner(options->by);
    if (options->view == VIEW_TREE || options->view == VIEW_PROCESSES ||
        options->view == VIEW_BLAME || whole_rows)
        return ORDER_TOTAL;
    // Callers of a function are sorted by its total cost; a list of hot spots is not.
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

static struct calltree *turned_around(const struct calltree *tree, struct report *report,
                                      const struct show_options *show)
{
    const struct report_options *options = report->options;
    // --depth counts the functions themselves as the first level.
    struct callers_options callers = {.metric = show->metric,
                                      .order = report->order,
                                      .least = show->least,
                                      .depth = options->depth ? options->depth - 1 : CALLERS_DEPTH,
                                      .cut = &report->cut,
                                      .focus = options->focus};
    struct calltree *callers_of = callers_tree(tree, &callers);
    if (report->metrics.waiting) {
        report_renew_waiting(&report->metrics, callers_of);
        calltree_order(callers_of, show->metric, report->order);
    }
    return callers_of;
}

// The tree whose rows are shown, of the profile with columns for ranks: node by node the same.
static struct calltree *tree_again(const struct report *report, const struct profile *profile,
                                   const struct show_options *show)
{
    const struct build_options build = tree_options(report->options);
    struct report again = *report;
    again.metrics.waiting = false; // which is the last value of a node
    struct calltree *tree = build_calltree(report->analysis->functions, profile, &build);
    tree = cut_down(&again, choose_paths(&again, tree));
    calltree_order(tree, show->metric, report->order);
    return report->options->view == VIEW_CALLERS
               ? exchanged(tree, turned_around(tree, &again, show))
               : tree;
}

// Finds the spread of all rows: those of a list, or else of a tree.
static void find_spread(struct report *report, struct show_options *show)
{
    if (!report->spread)
        return;
    for (const struct profile *view; (view = spread_next(report->spread));) {
        struct calltree *tree = tree_again(report, view, show);
        if (report->options->view == VIEW_FLAT) {
            struct flat *flat = flat_new(tree, report->options->by);
            spread_take(report->spread, flat->total, flat->count, flat->metrics);
            flat_free(flat);
        } else {
            spread_take(report->spread, tree->total, tree->count, tree->metrics);
        }
        calltree_free(tree);
    }
    show->spread = report->spread;
}

// The rows of a tree, or of the callers in it. *tree is exchanged for what they are rows of.
static struct row_plan *plan_rows(struct report *report, struct calltree **tree,
                                  const struct show_options *show)
{
    const bool upward = report->options->view == VIEW_CALLERS;
    struct calltree *from = *tree;
    *tree = upward ? turned_around(from, report, show) : from;
    struct row_plan *plan = row_plan_new(*tree, show);
    // If the user says how much to show, that is shown as it is.
    const bool may_fold = report->options->fold_recursion == FOLD_AUTO && show->may_raise &&
                          show->fold && show->depth == 0;
    if (may_fold && row_plan_is_recursive(plan)) {
        row_plan_free(plan);
        if (upward)
            calltree_free(*tree);
        from = exchanged(from, refine_recursion(from));
        report_renew_waiting(&report->metrics, from);
        calltree_order(from, show->metric, report->order);
        report->folded = true;
        report->cut = 0;
        *tree = upward ? turned_around(from, report, show) : from;
        plan = row_plan_new(*tree, show);
    }
    if (upward)
        calltree_free(from);
    return plan;
}

static bool has_returns(const struct calltree *tree)
{
    for (size_t i = 0; i < tree->returns_capacity; i++)
        if (tree->returns[i] > 0)
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

static int print_tree(struct report *report, struct calltree **tree, struct show_options *show,
                      char **error)
{
    const struct report_options *options = report->options;
    struct row_plan *plan = NULL;
    if (!options->json && report->whole > 0)
        plan = plan_rows(report, tree, show);
    else if (options->view == VIEW_CALLERS)
        *tree = exchanged(*tree, turned_around(*tree, report, show));
    show->has_returns = show->returns && has_returns(*tree);
    show->has_error = show->has_error && has_cost(*tree, show->error);
    if (report->whole > 0 && options->focus && (*tree)->count == 1) {
        row_plan_free(plan);
        return no_match(error, "no function on the recorded paths matches", options->focus);
    }
    find_spread(report, show);
    if (options->json) {
        print_json(report, show, *tree, NULL);
        return 0;
    }
    report_text_head(report);
    if (plan) {
        show_tree(report->out, report->style, *tree, plan, show);
        report_text_foot(report, show, &plan->hidden);
    }
    row_plan_free(plan);
    return 0;
}

static int print_flat(struct report *report, const struct calltree *tree,
                      const struct show_options *tree_show, char **error)
{
    const struct report_options *options = report->options;
    const struct functions *functions = report->analysis->functions;
    if (report->whole > 0 && options->focus && tree->count == 1)
        return no_match(error, "no function on the recorded paths matches", options->focus);
    struct flat *flat = flat_new(tree, options->by);
    if (options->by == FLAT_FILE && flat->count == 0) {
        flat_free(flat);
        *error =
            memory_text("no file was recorded: 'cairn record -e io' names them, in full trees");
        return -1;
    }
    report_renew_flat(&report->metrics, flat, tree);
    struct name_sums owners = {0};
    struct show_options show = *tree_show;
    if (options->by == FLAT_THREAD && options->build.threads == THREADS_MERGED)
        owners = name_sums_threads(report->analysis->functions, report->analysis->profile,
                                   &options->build, report->tree_wholes);
    else if (options->by == FLAT_PROGRAM)
        owners = name_sums_programs(report->analysis->functions, report->analysis->profile,
                                    &options->build, report->tree_wholes);
    show.owners = &owners;
    flat_order(flat, functions, show.metric, report->order);
    show.has_returns = show.returns && has_returns(tree);
    show.has_error = show.has_error && has_cost(tree, show.error);
    find_spread(report, &show);
    if (options->json) {
        print_json(report, &show, tree, flat);
    } else {
        report_text_head(report);
        if (report->whole > 0) {
            const struct show_hidden hidden =
                show_flat(report->out, report->style, flat, functions, &show);
            report_text_foot(report, &show, &hidden);
        }
    }
    name_sums_free(&owners);
    flat_free(flat);
    return 0;
}

// The view of waiters and holders has metrics of its own.
static const char *metrics_of_view(const struct report_options *options)
{
    return options->view == VIEW_BLAME && !options->metric ? "lock,contended" : options->metric;
}

static int check_blame(const struct report_options *options, const struct profile *profile,
                       char **error)
{
    if (options->view != VIEW_BLAME || profile->blame_count > 0)
        return 0;
    *error =
        memory_text("this profile has no waits for locks: 'cairn record -e lock' records them");
    return -1;
}

// The spread is that of a recorded cost, in trees that keep each context.
static int begin_spread(struct report *report, char **error)
{
    const struct report_options *options = report->options;
    const struct profile *profile = report->analysis->profile;
    if (!options->spread)
        return 0;
    const char *why =
        options->view == VIEW_PROCESSES || options->view == VIEW_BLAME
            ? "--spread: it is shown in trees and lists of functions, not of processes or locks"
        : report->kind.hot || options->phi > 0 ? "--spread: hot trees and --phi leave contexts "
                                                 "out, so the spread of the rest is not known"
        : report->metrics.chosen[0].index != report->metric
            ? "--spread: not of waiting; choose --metric wall or cpu"
            : NULL;
    if (!why) {
        report->spread = spread_new(profile, report->metric);
        if (report->spread->count >= 2)
            return 0;
        why = "--spread: this is no profile of several with that metric: 'cairn merge -o all.out "
              "rank-*.out' makes one";
    }
    *error = memory_text(why);
    return -1;
}

int report_print(FILE *out, const struct text_style *style, struct analysis *analysis,
                 const struct report_options *options, char **error)
{
    struct report report = {.out = out, .style = style, .analysis = analysis, .options = options};
    if (check_blame(options, analysis->profile, error) < 0 ||
        report_choose_metrics(&report.metrics, analysis, metrics_of_view(options), error) < 0)
        return -1;
    if (options->json) { // which has all metrics
        report_want_waiting(&report.metrics, analysis->profile);
        report.ratio_count = report_ratios(analysis->profile, report.ratios);
    }
    report.metric = report.metrics.recorded;
    report.order = usual_order(options);
    report.runs = memory_array(analysis->profile->metric_count + 1, sizeof *report.runs);
    for (unsigned i = 0; i < analysis->profile->metric_count; i++)
        report.runs[i] = (double)profile_runs(&analysis->profile->metrics[i]);
    report.runs[analysis->profile->metric_count] = report.runs[report.metrics.wall];
    report.kind = profile_kind(analysis->profile);
    struct calltree *tree = begin_spread(&report, error) < 0 || prune(&report, error) < 0
                                ? NULL
                                : refined_tree(&report, error);
    int status = -1;
    if (tree) {
        struct show_options show = show_options(&report);
        calltree_order(tree, show.metric, report.order);
        status = options->view == VIEW_FLAT ? print_flat(&report, tree, &show, error)
                                            : print_tree(&report, &tree, &show, error);
    }
    calltree_free(tree);
    spread_free(report.spread);
    free(report.tree_wholes);
    free(report.runs);
    return status;
}
