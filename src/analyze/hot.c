// SPDX-License-Identifier: MIT
#include "analyze/hot.h"
#include "base/memory.h"
#include "profile/kind.h"
#include <math.h>

#define NONE UINT32_MAX

// All trees of a profile as one: a context is there once.
struct context {
    uint32_t parent;
    place_t site, function;
    uint64_t weight;
    bool kept;
};

struct contexts {
    const struct profile *profile;
    unsigned metric;
    bool in_frames; // where the metric lies: in frames, or in statements
    struct context *list;
    size_t count, capacity;
    uint32_t *slots; // context; NONE: free
    size_t slot_count;
    uint32_t **of; // per tree and node: its context
};

static bool is_root(const struct profile_tree *tree, uint32_t node)
{
    return tree->nodes[node].parent >= node;
}

static uint64_t hash_edge(uint32_t parent, place_t site, place_t function)
{
    uint64_t hash = site * UINT64_C(0x9e3779b97f4a7c15);
    hash = (hash ^ hash >> 32 ^ function) * UINT64_C(0xbf58476d1ce4e5b9);
    hash = (hash ^ hash >> 29 ^ parent) * UINT64_C(0x94d049bb133111eb);
    return hash ^ hash >> 31;
}

static uint32_t *find_slot(const struct contexts *contexts, uint32_t parent, place_t site,
                           place_t function)
{
    for (uint64_t at = hash_edge(parent, site, function);; at++) {
        uint32_t *slot = &contexts->slots[at & (contexts->slot_count - 1)];
        if (*slot == NONE)
            return slot;
        const struct context *known = &contexts->list[*slot];
        if (known->parent == parent && known->site == site && known->function == function)
            return slot;
    }
}

static uint32_t context_below(struct contexts *contexts, uint32_t parent, place_t site,
                              place_t function)
{
    uint32_t *slot = find_slot(contexts, parent, site, function);
    if (*slot == NONE) {
        contexts->list = memory_grown(contexts->list, &contexts->capacity, contexts->count + 1,
                                      sizeof *contexts->list);
        contexts->list[contexts->count] =
            (struct context){.parent = parent, .site = site, .function = function};
        *slot = (uint32_t)contexts->count++;
    }
    return *slot;
}

static uint64_t value_of(const struct contexts *contexts, const struct profile_tree *tree,
                         uint32_t node)
{
    const bool frame = is_root(tree, node) || tree->nodes[node].function != 0;
    return frame == contexts->in_frames
               ? tree->values[(size_t)node * contexts->profile->metric_count + contexts->metric]
               : 0;
}

static void gather(struct contexts *contexts)
{
    const struct profile *profile = contexts->profile;
    size_t nodes = 1;
    for (unsigned t = 0; t < profile->tree_count; t++)
        nodes += profile->trees[t].count;
    contexts->slot_count = 64;
    while (contexts->slot_count < nodes * 2)
        contexts->slot_count *= 2;
    contexts->slots = memory_array(contexts->slot_count, sizeof *contexts->slots);
    memset(contexts->slots, 0xff, contexts->slot_count * sizeof *contexts->slots);
    contexts->of = memory_array(profile->tree_count, sizeof *contexts->of);
    const uint32_t root = context_below(contexts, NONE, 0, 0);
    for (unsigned t = 0; t < profile->tree_count; t++) {
        const struct profile_tree *tree = &profile->trees[t];
        uint32_t *of = contexts->of[t] = memory_array(tree->count, sizeof *of);
        for (uint32_t i = 0; i < tree->count; i++) {
            const struct profile_node *node = &tree->nodes[i];
            of[i] = is_root(tree, i) ? root
                    : node->function == 0
                        ? of[node->parent]
                        : context_below(contexts, of[node->parent], node->site, node->function);
            contexts->list[of[i]].weight += value_of(contexts, tree, i);
        }
    }
}

static uint64_t choose(struct contexts *contexts, double least)
{
    uint64_t hot = 0;
    for (size_t i = contexts->count; i-- > 0;) { // parents stand before their children
        struct context *context = &contexts->list[i];
        const bool is_hot = i > 0 && (double)context->weight >= least;
        hot += is_hot;
        context->kept |= is_hot || i == 0;
        if (context->kept && i > 0)
            contexts->list[context->parent].kept = true;
    }
    return hot;
}

// Closes the ranks of a tree. Returns what was dropped.
static uint64_t drop(const struct contexts *contexts, struct profile_tree *tree, const uint32_t *of)
{
    const unsigned metrics = contexts->profile->metric_count;
    uint32_t *number = memory_array(tree->count, sizeof *number);
    uint32_t kept = 0;
    uint64_t dropped = 0;
    for (uint32_t i = 0; i < tree->count; i++) {
        if (!contexts->list[of[i]].kept) {
            dropped += value_of(contexts, tree, i);
            continue;
        }
        struct profile_node node = tree->nodes[i];
        if (!is_root(tree, i))
            node.parent = number[node.parent];
        number[i] = kept;
        tree->nodes[kept] = node;
        memmove(&tree->values[(size_t)kept * metrics], &tree->values[(size_t)i * metrics],
                metrics * sizeof *tree->values);
        kept++;
    }
    tree->count = kept;
    free(number);
    return dropped;
}

static bool lies_in_frames(const struct profile_metric *metric)
{
    return profile_counts_calls(metric) || profile_is_edge(metric);
}

uint64_t hot_whole(const struct profile *profile, unsigned metric)
{
    const struct contexts contexts = {
        .profile = profile,
        .metric = metric,
        .in_frames = lies_in_frames(&profile->metrics[metric]),
    };
    uint64_t whole = 0;
    for (unsigned t = 0; t < profile->tree_count; t++) {
        const struct profile_tree *tree = &profile->trees[t];
        for (uint32_t i = 0; i < tree->count; i++)
            whole += value_of(&contexts, tree, i);
        whole += metric == 0 ? tree->stats.purged : 0;
    }
    return whole;
}

void hot_prune(struct profile *profile, unsigned metric, double phi, struct hot_cut *cut)
{
    struct contexts contexts = {
        .profile = profile,
        .metric = metric,
        .in_frames = lies_in_frames(&profile->metrics[metric]),
    };
    // As the stream miners have it: floor, and what has nothing is not hot.
    const double least = fmax(1, floor(phi * (double)hot_whole(profile, metric) * (1 + 1e-12)));
    gather(&contexts);
    *cut = (struct hot_cut){.outside = memory_array(profile->tree_count, sizeof *cut->outside)};
    cut->contexts = choose(&contexts, least);
    for (unsigned t = 0; t < profile->tree_count; t++) {
        cut->outside[t] = drop(&contexts, &profile->trees[t], contexts.of[t]);
        free(contexts.of[t]);
    }
    free(contexts.of);
    free(contexts.list);
    free(contexts.slots);
}

// A context is a frame; its statements, of which a full tree may have several, are added up.
static struct hot_use tree_use(const struct contexts *contexts, const struct profile_tree *tree,
                               unsigned error)
{
    const unsigned metrics = contexts->profile->metric_count;
    struct hot_use use = {.whole = contexts->metric == 0 ? tree->stats.purged : 0};
    uint64_t *weights = memory_array(tree->count, 2 * sizeof *weights),
             *errors = weights + tree->count;
    for (uint32_t i = 0; i < tree->count; i++) {
        const struct profile_node *node = &tree->nodes[i];
        const uint32_t frame = is_root(tree, i) || node->function ? i : node->parent;
        weights[frame] += value_of(contexts, tree, i);
        errors[frame] += error < metrics ? tree->values[(size_t)i * metrics + error] : 0;
    }
    for (uint32_t i = 0; i < tree->count; i++) {
        if (weights[i] == 0)
            continue;
        use.contexts++;
        use.whole += weights[i];
        if (use.smallest == 0 || weights[i] < use.smallest)
            use.smallest = weights[i];
        if (errors[i] > use.largest_error)
            use.largest_error = errors[i];
    }
    free(weights);
    return use;
}

struct hot_use hot_use(const struct profile *profile, unsigned metric)
{
    const struct contexts contexts = {
        .profile = profile,
        .metric = metric,
        .in_frames = lies_in_frames(&profile->metrics[metric]),
    };
    const unsigned error = profile_error_of(profile, metric);
    struct hot_use most = {0};
    for (unsigned t = 0; t < profile->tree_count; t++) {
        struct hot_use use = tree_use(&contexts, &profile->trees[t], error);
        if (use.contexts > most.contexts)
            most = use;
    }
    return most;
}

void hot_cut_free(struct hot_cut *cut)
{
    free(cut->outside);
    *cut = (struct hot_cut){0};
}
