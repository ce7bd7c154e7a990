// SPDX-License-Identifier: MIT
#include "profile/merge/merge_partial.h"
#include "profile/loader.h"
#include "profile/queries/totals.h"
#include <errno.h>
#include <stdlib.h>

#define NONE UINT32_MAX

// The functions

struct function_set {
    place_t *slots; // 0: free
    size_t count, slot_count;
};

static uint64_t mix(uint64_t key)
{
    key = (key ^ key >> 32) * UINT64_C(0xd6e8feb86659fd93);
    return key ^ key >> 32;
}

struct function_set *function_set_new(void)
{
    struct function_set *set = calloc(1, sizeof *set);
    if (!set)
        return NULL;
    set->slot_count = 64;
    set->slots = calloc(set->slot_count, sizeof *set->slots);
    if (!set->slots) {
        free(set);
        return NULL;
    }
    return set;
}

void function_set_free(struct function_set *set)
{
    if (set)
        free(set->slots);
    free(set);
}

static place_t *place_slot(const struct function_set *set, place_t place)
{
    size_t at = mix(place) & (set->slot_count - 1);
    while (set->slots[at] && set->slots[at] != place)
        at = (at + 1) & (set->slot_count - 1);
    return &set->slots[at];
}

int function_set_add(struct function_set *set, place_t place)
{
    if (place == 0 || *place_slot(set, place))
        return 0;
    if ((set->count + 1) * 2 > set->slot_count) {
        struct function_set larger = {.slot_count = set->slot_count * 2};
        larger.slots = calloc(larger.slot_count, sizeof *larger.slots);
        if (!larger.slots)
            return -ENOMEM;
        for (size_t i = 0; i < set->slot_count; i++)
            if (set->slots[i])
                *place_slot(&larger, set->slots[i]) = set->slots[i];
        free(set->slots);
        set->slots = larger.slots;
        set->slot_count = larger.slot_count;
    }
    *place_slot(set, place) = place;
    set->count++;
    return 0;
}

bool function_set_has(const struct function_set *set, place_t place)
{
    return place != 0 && *place_slot(set, place) == place;
}

// The bridge

// A context as the sparse tree sees it, and the nodes of the dense one that it stands for.
struct partial_context {
    uint32_t parent; // context
    place_t site, function;
    uint32_t first; // node; the others follow in bridge.next
};

struct partial_merge {
    struct profile_tree *into;
    const struct profile *profile;
    const struct function_set *known;
    uint64_t *cost; // per node of `into`, with all below it
    uint32_t *next; // per node: another one of the same context
    struct partial_context *contexts;
    uint32_t count;
    uint32_t *slots;    // of contexts; NONE: free
    uint32_t *children; // of nodes, by parent and edge; NONE: free
    size_t slot_count;  // of both
};

static uint32_t *find_slot(const struct partial_merge *bridge, uint32_t parent, place_t site,
                           place_t function)
{
    size_t at = mix(mix(site) + mix(function + parent)) & (bridge->slot_count - 1);
    for (;; at = (at + 1) & (bridge->slot_count - 1)) {
        uint32_t found = bridge->slots[at];
        if (found == NONE)
            return &bridge->slots[at];
        const struct partial_context *context = &bridge->contexts[found];
        if (context->parent == parent && context->site == site && context->function == function)
            return &bridge->slots[at];
    }
}

// The context of that edge, made if it is new: then it stands for no node yet.
static uint32_t context_of(struct partial_merge *bridge, uint32_t parent, place_t site,
                           place_t function)
{
    uint32_t *slot = find_slot(bridge, parent, site, function);
    if (*slot == NONE) {
        bridge->contexts[bridge->count] = (struct partial_context){parent, site, function, NONE};
        *slot = bridge->count++;
    }
    return *slot;
}

static uint32_t *child_slot(const struct partial_merge *bridge, const struct profile_node *node)
{
    size_t at =
        mix(mix(node->site) + mix(node->function + node->parent)) & (bridge->slot_count - 1);
    for (;; at = (at + 1) & (bridge->slot_count - 1)) {
        uint32_t found = bridge->children[at];
        if (found == NONE)
            return &bridge->children[at];
        const struct profile_node *known = &bridge->into->nodes[found];
        if (known->parent == node->parent && known->site == node->site &&
            known->function == node->function)
            return &bridge->children[at];
    }
}

static void stand_for(struct partial_merge *bridge, uint32_t context, uint32_t node)
{
    bridge->next[node] = bridge->contexts[context].first;
    bridge->contexts[context].first = node;
}

static bool is_root(const struct profile_node *node)
{
    return node->parent == PROFILE_NO_PARENT;
}

// The context of every node of the dense tree.
static int survey(struct partial_merge *bridge)
{
    const struct profile_tree *into = bridge->into;
    unsigned metrics = bridge->profile->metric_count;
    uint32_t *context = malloc(((size_t)into->count + 1) * sizeof *context);
    if (!context)
        return -ENOMEM;
    for (uint32_t i = 0; i < into->count; i++) {
        const struct profile_node *node = &into->nodes[i];
        *child_slot(bridge, node) = i;
        if (is_root(node)) {
            context[i] = context_of(bridge, NONE, 0, 0);
            stand_for(bridge, context[i], i);
        } else if (function_set_has(bridge->known, node->function)) {
            context[i] = context_of(bridge, context[node->parent], node->site, node->function);
            stand_for(bridge, context[i], i);
        } else {
            context[i] = context[node->parent];
        }
    }
    free(context);
    for (uint32_t i = into->count; i-- > 0;) {
        const struct profile_node *node = &into->nodes[i];
        for (unsigned metric = 0; node->function == 0 && metric < metrics; metric++)
            if (profile_is_cost(&bridge->profile->metrics[metric]))
                bridge->cost[i] += into->values[(size_t)i * metrics + metric];
        if (!is_root(node))
            bridge->cost[node->parent] += bridge->cost[i];
    }
    return 0;
}

static uint32_t costliest(const struct partial_merge *bridge, uint32_t context)
{
    uint32_t best = bridge->contexts[context].first;
    for (uint32_t node = best; node != NONE; node = bridge->next[node])
        if (bridge->cost[node] > bridge->cost[best])
            best = node;
    return best;
}

// The child of a node of the dense tree, made if it is new; NONE: out of memory.
static uint32_t child_of(struct partial_merge *bridge, uint32_t parent, place_t site,
                         place_t function)
{
    struct profile_tree *into = bridge->into;
    struct profile_node node = {.parent = parent, .site = site, .function = function};
    uint32_t *slot = child_slot(bridge, &node);
    if (*slot != NONE)
        return *slot;
    if (!profile_grow_tree(into, into->count + 1, bridge->profile->metric_count))
        return NONE;
    into->nodes[into->count] = node;
    return *slot = into->count++;
}

// Shares a count out, by cost. The rest that rounding takes from one node goes to the next.
static void share_out(struct partial_merge *bridge, uint32_t context, unsigned metric,
                      uint64_t count)
{
    unsigned metrics = bridge->profile->metric_count;
    uint64_t *values = bridge->into->values;
    uint64_t whole = 0, so_far = 0;
    uint32_t first = bridge->contexts[context].first;
    for (uint32_t node = first; node != NONE; node = bridge->next[node])
        whole += bridge->cost[node];
    if (whole == 0) {
        values[(size_t)first * metrics + metric] += count;
        return;
    }
    uint64_t given = 0;
    for (uint32_t node = first; node != NONE; node = bridge->next[node]) {
        so_far += bridge->cost[node];
        uint64_t until = (uint64_t)((unsigned __int128)count * so_far / whole);
        values[(size_t)node * metrics + metric] += until - given;
        given = until;
    }
}

static void add_value(struct partial_merge *bridge, uint32_t node, unsigned metric, uint64_t value)
{
    bridge->into->values[(size_t)node * bridge->profile->metric_count + metric] += value;
}

// Where a node of the sparse tree lies in the dense one.
struct landing {
    uint32_t context; // of the next frame above whose calls are followed, or its own
    uint32_t node;    // its children are below it
};

// A frame whose calls are followed. NONE as node: out of memory.
static struct landing land_frame(struct partial_merge *bridge, struct landing above,
                                 const struct profile_node *node)
{
    uint32_t context = context_of(bridge, above.context, node->site, node->function);
    if (bridge->contexts[context].first == NONE) {
        uint32_t made = child_of(bridge, above.node, node->site, node->function);
        if (made == NONE)
            return (struct landing){context, NONE};
        stand_for(bridge, context, made);
    }
    return (struct landing){context, costliest(bridge, context)};
}

static int add_nodes(struct partial_merge *bridge, const struct profile_tree *tree)
{
    unsigned metrics = bridge->profile->metric_count;
    struct landing *landings = malloc(((size_t)tree->count + 1) * sizeof *landings);
    if (!landings)
        return -ENOMEM;
    int result = 0;
    for (uint32_t i = 0; i < tree->count && result == 0; i++) {
        const struct profile_node *node = &tree->nodes[i];
        const uint64_t *values = tree->values + (size_t)i * metrics;
        bool followed = !is_root(node) && function_set_has(bridge->known, node->function);
        if (is_root(node)) {
            landings[i] = (struct landing){context_of(bridge, NONE, 0, 0), 0};
        } else if (followed) {
            landings[i] = land_frame(bridge, landings[node->parent], node);
        } else {
            // Statements, and frames that only samples have seen, as the dense tree has them.
            struct landing above = landings[node->parent];
            landings[i] = (struct landing){
                above.context, child_of(bridge, above.node, node->site, node->function)};
        }
        if (landings[i].node == NONE) {
            result = -ENOMEM;
            break;
        }
        for (unsigned m = 0; m < metrics; m++) {
            if (followed && profile_counts_calls(&bridge->profile->metrics[m]))
                share_out(bridge, landings[i].context, m, values[m]);
            else
                add_value(bridge, landings[i].node, m, values[m]);
        }
    }
    free(landings);
    return result;
}

int tree_merge_partial(struct profile_tree *into, const struct profile_tree *tree,
                       const struct profile *profile, const struct function_set *known)
{
    struct partial_merge bridge = {
        .into = into, .profile = profile, .known = known, .slot_count = 64};
    size_t nodes = (size_t)into->count + tree->count + 1;
    while (bridge.slot_count < nodes * 2)
        bridge.slot_count *= 2;
    bridge.cost = calloc(nodes, sizeof *bridge.cost);
    bridge.next = malloc(nodes * sizeof *bridge.next);
    bridge.contexts = malloc(nodes * sizeof *bridge.contexts);
    bridge.slots = malloc(bridge.slot_count * sizeof *bridge.slots);
    bridge.children = malloc(bridge.slot_count * sizeof *bridge.children);
    int result = -ENOMEM;
    if (bridge.cost && bridge.next && bridge.contexts && bridge.slots && bridge.children) {
        memset(bridge.slots, 0xff, bridge.slot_count * sizeof *bridge.slots);
        memset(bridge.children, 0xff, bridge.slot_count * sizeof *bridge.children);
        result = survey(&bridge);
        if (result == 0)
            result = add_nodes(&bridge, tree);
    }
    free(bridge.cost);
    free(bridge.next);
    free(bridge.contexts);
    free(bridge.slots);
    free(bridge.children);
    if (result == 0) {
        stats_add(&into->stats, &tree->stats);
        hot_add(&into->hot, &tree->hot);
        into->threads += tree->threads;
    }
    return result;
}
