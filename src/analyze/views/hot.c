// SPDX-License-Identifier: MIT
#include "analyze/views/hot.h"
#include "base/memory.h"
#include "profile/queries/kind.h"
#include <math.h>

#define NONE UINT32_MAX

// All trees of a profile as one: a context is there once.
struct hot_context {
    uint32_t parent;
    place_t site, function;
    uint64_t weight, error;
    bool kept;
};

struct contexts {
    const struct profile *profile;
    unsigned metric;
    unsigned error; // the metric that bounds it; as many as there are: none
    bool in_frames; // where the metric lies: in frames, or in statements
    struct hot_context *list;
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
        const struct hot_context *known = &contexts->list[*slot];
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
            (struct hot_context){.parent = parent, .site = site, .function = function};
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

static uint64_t error_of(const struct contexts *contexts, const struct profile_tree *tree,
                         uint32_t node)
{
    const unsigned metrics = contexts->profile->metric_count;
    return contexts->error < metrics ? tree->values[(size_t)node * metrics + contexts->error] : 0;
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
            contexts->list[of[i]].error += error_of(contexts, tree, i);
        }
    }
}

static struct hot_cut choose(struct contexts *contexts, double least,
                             const struct hot_choice *choice)
{
    struct hot_cut cut = {0};
    for (size_t i = contexts->count; i-- > 1;) { // parents stand before their children
        struct hot_context *context = &contexts->list[i];
        const bool is_hot = (double)context->weight >= least;
        const bool is_sure = !choice->sure_only || context->error <= context->weight / 2;
        cut.contexts += is_hot && is_sure;
        cut.unsure += is_hot && !is_sure;
        if (is_sure && context->weight > cut.hottest)
            cut.hottest = context->weight;
        context->kept |= is_hot && is_sure;
        if (context->kept)
            contexts->list[context->parent].kept = true;
    }
    contexts->list[0].kept = true;
    return cut;
}

// Closes the ranks of a tree.
static void drop(const struct contexts *contexts, struct profile_tree *tree, const uint32_t *of)
{
    const unsigned metrics = contexts->profile->metric_count;
    uint32_t *number = memory_array(tree->count, sizeof *number);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < tree->count; i++) {
        if (!contexts->list[of[i]].kept)
            continue;
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
}

static bool lies_in_frames(const struct profile_metric *metric)
{
    return profile_counts_calls(metric) || profile_is_edge(metric);
}

static struct contexts contexts_by(const struct profile *profile, unsigned metric)
{
    return (struct contexts){
        .profile = profile,
        .metric = metric,
        .error = profile_error_of(profile, metric),
        .in_frames = lies_in_frames(&profile->metrics[metric]),
    };
}

// The metric that a tree's own sums are about: the one that has errors, or the first.
static unsigned mined_metric(const struct profile *profile)
{
    for (unsigned i = 0; i < profile->metric_count; i++)
        if (profile_error_of(profile, i) < profile->metric_count)
            return i;
    return 0;
}

uint64_t hot_whole_tree(const struct profile *profile, const struct profile_tree *tree,
                        unsigned metric)
{
    const struct contexts contexts = contexts_by(profile, metric);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < tree->count; i++)
        sum += value_of(&contexts, tree, i);
    if (metric != mined_metric(profile))
        return sum;
    const uint64_t whole = sum + tree->stats.purged - (uint64_t)tree->hot.made_up;
    return (int64_t)whole >= 0 ? whole : sum; // it cannot be less than nothing, but for damage
}

int64_t hot_made_up(const struct profile *profile, unsigned metric)
{
    int64_t made_up = 0;
    if (metric == mined_metric(profile))
        for (unsigned t = 0; t < profile->tree_count; t++)
            made_up += profile->trees[t].hot.made_up;
    return made_up;
}

uint64_t hot_whole(const struct profile *profile, unsigned metric)
{
    uint64_t whole = 0;
    for (unsigned t = 0; t < profile->tree_count; t++)
        whole += hot_whole_tree(profile, &profile->trees[t], metric);
    return whole;
}

struct hot_choice hot_shown(const struct profile *profile, double phi)
{
    const struct profile_kind kind = profile_kind(profile);
    const double recorded = kind.hot ? kind.phi : 0;
    // Counts of Sticky Sampling may be too small: a context with phi of the total may seem to have
    // less.
    const double slack = kind.hot && kind.miner == LIVE_MINER_STICKY ? kind.epsilon : 0;
    return (struct hot_choice){
        .phi = (phi > 0 ? phi : recorded) - slack,
        // In a full tree that ran out of memory, the whole count of a later context may be an
        // error.
        .sure_only = kind.has_errors && !kind.hot,
    };
}

double hot_least(const struct profile *profile, unsigned metric, double phi)
{
    // As the stream miners have it: floor, and what has nothing is not hot.
    return phi > 0 ? fmax(1, floor(phi * (double)hot_whole(profile, metric) * (1 + 1e-12))) : 0;
}

struct hot_cut hot_prune(struct profile *profile, unsigned metric, const struct hot_choice *choice)
{
    if (choice->phi <= 0 && !choice->sure_only)
        return (struct hot_cut){0};
    struct contexts contexts = contexts_by(profile, metric);
    gather(&contexts);
    const struct hot_cut cut = choose(&contexts, hot_least(profile, metric, choice->phi), choice);
    for (unsigned t = 0; t < profile->tree_count; t++) {
        drop(&contexts, &profile->trees[t], contexts.of[t]);
        free(contexts.of[t]);
    }
    free(contexts.of);
    free(contexts.list);
    free(contexts.slots);
    return cut;
}

// A context is a frame; its statements, of which a full tree may have several, are added up.
static struct hot_use tree_use(const struct contexts *contexts, const struct profile_tree *tree)
{
    struct hot_use use = {
        .whole = hot_whole_tree(contexts->profile, tree, contexts->metric),
        .counters = tree->hot.counters,
        .floor = tree->hot.floor,
    };
    uint64_t *weights = memory_array(tree->count, 2 * sizeof *weights);
    uint64_t *errors = weights + tree->count;
    for (uint32_t i = 0; i < tree->count; i++) {
        const struct profile_node *node = &tree->nodes[i];
        const uint32_t frame = is_root(tree, i) || node->function ? i : node->parent;
        weights[frame] += value_of(contexts, tree, i);
        errors[frame] += error_of(contexts, tree, i);
    }
    for (uint32_t i = 0; i < tree->count; i++) {
        use.contexts += weights[i] > 0;
        if (errors[i] > use.largest_error)
            use.largest_error = errors[i];
    }
    free(weights);
    return use;
}

struct hot_use hot_use(const struct profile *profile)
{
    const struct contexts contexts = contexts_by(profile, mined_metric(profile));
    struct hot_use most = {0};
    for (unsigned t = 0; t < profile->tree_count; t++) {
        struct hot_use use = tree_use(&contexts, &profile->trees[t]);
        if (use.contexts > most.contexts)
            most = use;
    }
    return most;
}
