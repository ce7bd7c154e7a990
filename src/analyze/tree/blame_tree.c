// SPDX-License-Identifier: MIT
#include "analyze/tree/blame_tree.h"
#include "analyze/tree/functions.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

// The frames of both sides come from the tree of all that was recorded.
struct blaming {
    const struct profile *profile;
    const struct calltree *all;
    struct build_image *images;
    struct calltree *into;
    uint32_t held_by; // a function
    uint64_t *values; // a row of them
    unsigned lock, contended;
};

static unsigned metric_named(const struct profile *profile, const char *name)
{
    unsigned i = 0;
    while (i < profile->metric_count &&
           !(profile_is_lock(&profile->metrics[i]) && strcmp(profile->metrics[i].name, name) == 0))
        i++;
    return i;
}

// The node of the tree of all that a node of the profile is in; CALL_NONE: it was not chosen.
static uint32_t node_of(const struct blaming *blaming, uint32_t tree, uint32_t node)
{
    if (tree >= blaming->profile->tree_count || node >= blaming->profile->trees[tree].count ||
        !blaming->images[tree].nodes)
        return CALL_NONE;
    return blaming->images[tree].nodes[node];
}

// The path to a node, below another one. The last node of the copy.
static uint32_t copy_path(struct blaming *blaming, uint32_t node, uint32_t below)
{
    const struct call_node *from = &blaming->all->nodes[node];
    if (from->parent == CALL_NONE)
        return below;
    const struct call_edge edge = {.function = from->function,
                                   .kind = (enum call_kind)from->kind,
                                   .call_file = from->call_file,
                                   .call_line = from->call_line};
    return calltree_child(blaming->into, copy_path(blaming, from->parent, below), edge);
}

static void add_pair(struct blaming *blaming, const struct profile_blame *blame)
{
    const uint32_t waiter = node_of(blaming, blame->waiter.tree, blame->waiter.node),
                   holder = node_of(blaming, blame->holder.tree, blame->holder.node);
    if (waiter == CALL_NONE || holder == CALL_NONE)
        return;
    const uint32_t held =
        calltree_child(blaming->into, copy_path(blaming, waiter, 0),
                       (struct call_edge){.function = blaming->held_by, .kind = CALL_FUNCTION});
    blaming->values[blaming->lock] = blame->ns;
    blaming->values[blaming->contended] = blame->waits;
    calltree_add(blaming->into, copy_path(blaming, holder, held), 0, 0, blaming->values);
}

struct calltree *blame_tree(struct functions *functions, const struct profile *profile,
                            const struct build_options *options)
{
    const unsigned metrics = profile->metric_count;
    struct build_image *images = memory_array(profile->tree_count, sizeof *images);
    struct calltree *all = build_calltree_images(functions, profile, options, images);
    struct blaming blaming = {
        .profile = profile,
        .all = all,
        .images = images,
        .into = calltree_new(functions, metrics,
                             functions_get(functions, all->nodes[0].function)->name),
        .held_by = functions_intern(functions, HELD_BY, MODULE_NONE),
        .values = memory_array(metrics + 1, sizeof *blaming.values),
        .lock = metric_named(profile, "lock"),
        .contended = metric_named(profile, "contended"),
    };
    memset(blaming.values, 0, (metrics + 1) * sizeof *blaming.values);
    for (unsigned i = 0; i < profile->blame_count; i++)
        add_pair(&blaming, &profile->blames[i]);
    calltree_sum(blaming.into);
    build_images_free(images, profile->tree_count);
    calltree_free(all);
    free(blaming.values);
    return blaming.into;
}
