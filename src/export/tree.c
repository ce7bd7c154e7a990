// SPDX-License-Identifier: MIT

#include "analyze/tree/refine.h"
#include "export/export.h"

static struct build_options options_for(const struct export_input *input, enum export_detail detail)
{
    struct build_options build = *input->build;
    build.sites = build.lines = detail == EXPORT_LINES;
    build.places = detail == EXPORT_PLACES;
    return build;
}

static struct calltree *folded(const struct export_input *input, struct calltree *tree)
{
    if (!input->fold_recursion)
        return tree;
    struct calltree *folded = refine_recursion(tree);
    calltree_free(tree);
    return folded;
}

struct calltree *export_tree(const struct export_input *input, enum export_detail detail)
{
    const struct build_options build = options_for(input, detail);
    struct calltree *tree =
        folded(input, build_calltree(input->analysis->functions, input->analysis->profile, &build));
    calltree_order(tree, input->metric, ORDER_TOTAL);
    return tree;
}

struct calltree *export_thread(const struct export_input *input, enum export_detail detail,
                               uint32_t tree)
{
    const struct profile *profile = input->analysis->profile;
    const struct build_options build = options_for(input, detail);
    if (!build_selects(input->analysis->functions, profile, &profile->trees[tree], &build))
        return NULL;
    return folded(input,
                  build_thread_calltree(input->analysis->functions, profile, &build, tree, NULL));
}

const char *export_unit(const char *unit)
{
    if (strcmp(unit, "ns") == 0)
        return "nanoseconds";
    return strcmp(unit, PROFILE_CALLS) == 0 ? "count" : unit;
}
