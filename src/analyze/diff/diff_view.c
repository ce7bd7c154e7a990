// SPDX-License-Identifier: MIT

#include "analyze/diff/diff_view.h"
#include "base/memory.h"
#include "profile/queries/totals.h"

static char *list_paths(const struct diff *diff, enum diff_side side)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = memory_checked(open_memstream(&text, &bytes));
    for (unsigned r = 0, met = 0; r < diff->run_count; r++)
        if (diff->runs[r].side == side)
            fprintf(out, "%s%s", met++ ? "," : "", diff->runs[r].path);
    fclose(out);
    return memory_checked(text);
}

// The chosen metric comes first.
static unsigned metric_at(const struct diff *diff, unsigned place)
{
    return place == 0 ? diff->metric : place <= diff->metric ? place - 1 : place;
}

static void describe_metrics(const struct diff *diff, struct profile *profile)
{
    static const char *const parts[VIEW_PARTS] = {"new", "old", "both", "named"};
    profile->metrics = memory_array(diff->compared * VIEW_PARTS, sizeof *profile->metrics);
    for (unsigned i = 0; i < diff->compared * VIEW_PARTS; i++) {
        const unsigned from = metric_at(diff, i / VIEW_PARTS);
        const struct diff_metric *metric = &diff->metrics[from];
        struct profile_metric *made = &profile->metrics[profile->metric_count++];
        // The viewer would divide any cost by the new calls.
        const char *unit = i % VIEW_PARTS == VIEW_NAMED               ? PROFILE_EDGE
                           : strcmp(metric->unit, PROFILE_CALLS) == 0 ? "times"
                                                                      : metric->unit;
        *made = (struct profile_metric){.unit = memory_text(unit), .source = memory_text("diff")};
        made->period = (uint64_t)(diff->runs[0].sample[from] + 0.5);
        if (asprintf(&made->name, "%s (%s)", metric->name, parts[i % VIEW_PARTS]) < 0)
            memory_checked(NULL);
    }
}

static struct profile *describe(const struct diff *diff, char *const sides[DIFF_SIDES])
{
    struct profile *profile = memory_array(1, sizeof *profile);
    const struct profile *newest = diff->runs[diff->run_count - 1].analysis->profile;
    char *words[] = {sides[DIFF_OLD], "→", sides[DIFF_NEW]};
    profile->command = memory_array(sizeof words / sizeof *words + 1, sizeof *profile->command);
    for (unsigned i = 0; i < sizeof words / sizeof *words; i++)
        profile->command[i] = memory_text(words[i]);
    profile->tracker = memory_text(newest->tracker ? newest->tracker : "");
    profile->tree_kind = memory_text("diff");
    profile->start_realtime_ns = newest->start_realtime_ns;
    profile->duration_ns = newest->duration_ns;
    profile->complete = true;
    describe_metrics(diff, profile);
    profile->module_count = diff->modules->module_count;
    profile->modules = memory_array(profile->module_count, sizeof *profile->modules);
    for (unsigned i = 0; i < profile->module_count; i++) {
        profile->modules[i] = diff->modules->modules[i];
        profile->modules[i].path =
            memory_text(profile->modules[i].path ? profile->modules[i].path : "");
    }
    profile->tree_count = 1;
    profile->trees = memory_array(1, sizeof *profile->trees);
    for (unsigned r = 0; r < diff->run_count; r++) {
        struct profile_totals totals;
        profile_sum(diff->runs[r].analysis->profile, &totals);
        profile->trees[0].stats.samples += totals.samples;
    }
    return profile;
}

// By metric of the diff, and node.
static bool **find_named(const struct diff *diff, const struct diff_judgement *judgement)
{
    bool **named = memory_array(diff->compared, sizeof *named);
    struct diff_judgement by_context = *judgement;
    struct diff chosen = *diff;
    by_context.by = DIFF_BY_CONTEXT;
    for (chosen.metric = 0; chosen.metric < diff->compared; chosen.metric++) {
        struct diff_rows rows = diff_rows(&chosen, &by_context);
        named[chosen.metric] = rows.named;
        rows.named = NULL;
        diff_rows_free(&rows);
    }
    return named;
}

static struct calltree *copy_tree(const struct diff *diff, bool *const *named)
{
    const struct calltree *from = diff->tree;
    struct calltree *tree = calltree_new(diff->functions, diff->compared * VIEW_PARTS, "");
    tree->nodes[0].function = from->nodes[0].function;
    uint64_t *values = memory_array(tree->metrics, sizeof *values);
    for (uint32_t i = 0; i < from->count; i++) {
        const struct call_node *node = &from->nodes[i];
        if (i > 0)
            calltree_append(tree, node->parent,
                            (struct call_edge){.function = node->function, .kind = node->kind});
        for (unsigned m = 0; m < diff->compared; m++) {
            const unsigned metric = metric_at(diff, m);
            uint64_t *parts = values + (size_t)m * VIEW_PARTS;
            parts[VIEW_OLD] = (uint64_t)(diff_self(diff, i, DIFF_OLD, metric) + 0.5);
            parts[VIEW_NEW] = (uint64_t)(diff_self(diff, i, DIFF_NEW, metric) + 0.5);
            parts[VIEW_BOTH] = parts[VIEW_OLD] + parts[VIEW_NEW];
            parts[VIEW_NAMED] = named[metric][i];
        }
        calltree_add(tree, i, 0, 0, values);
    }
    free(values);
    calltree_sum(tree);
    calltree_order(tree, VIEW_NEW, ORDER_TOTAL);
    return tree;
}

struct diff_view diff_view(const struct diff *diff, const struct diff_judgement *judgement)
{
    struct diff_view view = {.sides = {list_paths(diff, DIFF_OLD), list_paths(diff, DIFF_NEW)}};
    view.analysis =
        (struct analysis){.profile = describe(diff, view.sides), .functions = diff->functions};
    bool **named = find_named(diff, judgement);
    view.tree = copy_tree(diff, named);
    for (unsigned m = 0; m < diff->compared; m++)
        free(named[m]);
    free(named);
    return view;
}

void diff_view_free(struct diff_view *view)
{
    profile_free(view->analysis.profile);
    calltree_free(view->tree);
    for (enum diff_side side = DIFF_OLD; side < DIFF_SIDES; side++)
        free(view->sides[side]);
    *view = (struct diff_view){0};
}
