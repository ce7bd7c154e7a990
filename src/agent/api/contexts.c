// SPDX-License-Identifier: MIT
#include "agent/api/contexts.h"
#include "agent/session/agent.h"
#include "base/system/agent_map.h"
#include <errno.h>
#include <string.h>

#define READ_TRIES 4
#define READ_SLACK 65536

// 0 or -errno. The caller must close it.
static int open_contexts(struct api_contexts *contexts, uint64_t most)
{
    if (most >= UINT32_MAX / 4)
        return -ENOMEM;
    uint32_t slot_count = 64;
    while (slot_count < most * 2)
        slot_count *= 2;
    const size_t bytes = (most + 1) * sizeof *contexts->contexts;
    *contexts = (struct api_contexts){
        .mapped = bytes + slot_count * sizeof *contexts->slots,
        .most = (uint32_t)most + 1,
        .slot_count = slot_count,
        .count = 1,
    };
    contexts->contexts = agent_map(contexts->mapped);
    contexts->slots = (uint32_t *)((char *)contexts->contexts + bytes);
    return contexts->contexts ? 0 : -ENOMEM;
}

void api_contexts_close(struct api_contexts *contexts)
{
    if (contexts->contexts)
        agent_unmap(contexts->contexts, contexts->mapped);
}

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

// The context below parent by this edge; made if it is new. 0: no room.
static uint32_t context_below(struct api_contexts *contexts, uint32_t parent,
                              const struct edge *edge)
{
    uint64_t hash = mix(mix(mix(0, parent), edge->site), edge->function);
    for (;; hash++) {
        uint32_t *slot = &contexts->slots[hash & (contexts->slot_count - 1)];
        struct api_context *found = &contexts->contexts[*slot];
        if (*slot && found->parent == parent && found->edge.site == edge->site &&
            found->edge.function == edge->function)
            return *slot;
        if (*slot)
            continue;
        if (contexts->count == contexts->most)
            return 0;
        *slot = contexts->count;
        contexts->contexts[*slot] = (struct api_context){
            .parent = parent, .depth = contexts->contexts[parent].depth + 1, .edge = *edge};
        return contexts->count++;
    }
}

bool api_has_weights(void)
{
    return tree_traits_of(agent.session->options.tree)->weighs_edges;
}

// Adds one tree. In a full tree the cost of a frame lies in its statements, and its own value
// counts returns, unless calls are what is counted; frames of all other trees have their own.
static void add_tree(struct api_contexts *contexts, const struct stable_tree *tree,
                     uint32_t *index_of, uint64_t arena_bytes)
{
    const struct live_options *options = &agent.session->options;
    const bool keeps_all = tree_traits_of(options->tree)->keeps_all;
    const bool frames_have_costs = !keeps_all || options->event == LIVE_EVENT_CALLS;
    const bool has_weights = api_has_weights();
    const bool many = keeps_all && live_values(options) > 1;
    const unsigned value = live_main_value(options);
    for (uint32_t i = 0; i < tree->count; i++) {
        const struct stable_node *node = stable_at(tree, i);
        struct edge edge;
        const uint32_t parent = node->parent == STABLE_NO_PARENT ? 0 : index_of[node->parent];
        index_of[i] = parent;
        if (!tree_edge_read(&agent.arena, arena_bytes, node->edge, &edge))
            continue;
        const bool is_frame = edge.function != 0 && node->parent != STABLE_NO_PARENT;
        if (is_frame)
            index_of[i] = context_below(contexts, parent, &edge);
        struct api_context *context = &contexts->contexts[index_of[i]];
        const struct node *stays = arena_at(&agent.arena, node->ref);
        if (is_frame && !frames_have_costs && (many || !node->has_error))
            continue;
        if (many) { // each has all of its values, and stays where it is
            context->own += __atomic_load_n(&stays->value[value], __ATOMIC_RELAXED);
            continue;
        }
        // A node that is not monitored has no count. (Where miners see every event, no node says
        // that it is.)
        context->own += node->value[0];
        *(has_weights ? &context->weight : &context->error) += node->has_error ? node->value[1] : 0;
    }
}

bool api_is_asked_for(const struct live_thread *record)
{
    return atomic_load_explicit(&record->generation, memory_order_relaxed) ==
           atomic_load_explicit(&agent.generation, memory_order_relaxed);
}

// A tree may take another block while its size is asked for, and a bounded one begin anew: then
// once more. Nodes that cannot be read even so are left out.
int api_read_tree(struct api_tree *tree, ref_t ref)
{
    const uint64_t limit = arena_head(&agent.arena)->limit;
    *tree = (struct api_tree){0};
    for (int tries = 0; tries < READ_TRIES; tries++) {
        const int64_t bytes = stable_bytes(&agent.arena, limit, ref);
        if (bytes == 0)
            return 0; // being made
        if (bytes < 0)
            continue;
        tree->mapped = (size_t)bytes + READ_SLACK;
        tree->memory = agent_map(tree->mapped);
        if (!tree->memory)
            return -ENOMEM;
        if (!stable_read(&tree->stable, &agent.arena, limit, ref, tree->memory, tree->mapped))
            return 0;
        api_close_tree(tree);
    }
    return 0;
}

void api_close_tree(struct api_tree *tree)
{
    if (tree->memory)
        agent_unmap(tree->memory, tree->mapped);
    *tree = (struct api_tree){0};
}

static int read_tree(struct api_contexts *contexts, ref_t ref)
{
    struct api_tree tree;
    int error = api_read_tree(&tree, ref);
    const size_t bytes = (tree.stable.count + (size_t)1) * sizeof(uint32_t);
    uint32_t *index_of = !error && tree.stable.count ? agent_map(bytes) : NULL;
    if (index_of) {
        add_tree(contexts, &tree.stable, index_of, arena_head(&agent.arena)->limit);
        agent_unmap(index_of, bytes);
    } else if (!error && tree.stable.count) {
        error = -ENOMEM;
    }
    api_close_tree(&tree);
    return error;
}

static ref_t first_record(void)
{
    // Acquire: records are whole, and so are those behind them.
    return atomic_load_explicit(&agent.process->threads, memory_order_acquire);
}

static void sum_up(struct api_contexts *contexts)
{
    for (uint32_t i = 0; i < contexts->count; i++)
        contexts->contexts[i].total = contexts->contexts[i].own;
    for (uint32_t i = contexts->count; i-- > 1;)
        contexts->contexts[contexts->contexts[i].parent].total += contexts->contexts[i].total;
}

int api_contexts_read(struct api_contexts *contexts)
{
    const ref_t first = first_record();
    uint64_t most = 0;
    uint32_t left = LIVE_MOST_LISTED;
    const struct live_thread *record;
    for (ref_t ref = first; (record = live_listed(&agent.arena, ref, sizeof *record, &left));
         ref = record->next) {
        int64_t bytes = stable_bytes(&agent.arena, arena_head(&agent.arena)->limit, record->tree);
        most += bytes > 0 && api_is_asked_for(record) ? (uint64_t)bytes / sizeof(struct stable_node)
                                                      : 0;
    }
    int error = open_contexts(contexts, most);
    left = LIVE_MOST_LISTED;
    for (ref_t ref = first;
         !error && (record = live_listed(&agent.arena, ref, sizeof *record, &left));
         ref = record->next)
        if (api_is_asked_for(record))
            error = read_tree(contexts, record->tree);
    if (!error)
        sum_up(contexts);
    return error;
}

static struct edge group_key(const struct api_context *context, enum api_grouping grouping)
{
    struct edge key = context->edge;
    if (grouping == API_BY_FUNCTION)
        key.site = 0;
    return key;
}

// Whether one of its callers is of the same group: then what is below was counted there.
static bool is_nested(const struct api_contexts *contexts, uint32_t index,
                      enum api_grouping grouping)
{
    const struct edge key = group_key(&contexts->contexts[index], grouping);
    for (uint32_t above = contexts->contexts[index].parent; above;
         above = contexts->contexts[above].parent) {
        const struct edge other = group_key(&contexts->contexts[above], grouping);
        if (other.function == key.function && other.site == key.site)
            return true;
    }
    return false;
}

int api_contexts_group(struct api_contexts *groups, const struct api_contexts *contexts,
                       enum api_grouping grouping)
{
    int error = open_contexts(groups, contexts->count);
    for (uint32_t i = 1; i < contexts->count && !error; i++) {
        const struct api_context *context = &contexts->contexts[i];
        const struct edge key = group_key(context, grouping);
        const uint32_t index = context_below(groups, 0, &key);
        if (!index)
            return -ENOMEM;
        groups->contexts[index].own += context->own;
        groups->contexts[index].error += context->error;
        groups->contexts[index].weight += context->weight;
        if (context->total && !is_nested(contexts, i, grouping))
            groups->contexts[index].total += context->total;
    }
    return error;
}
