// SPDX-License-Identifier: MIT
// Finds the hottest items at this moment.

#include "agent/api/api.h"
#include "agent/api/contexts.h"
#include "agent/api/item.h"
#include "base/system/agent_map.h"
#include <errno.h>
#include <limits.h>

// Indices of contexts as a heap, the hottest on top. (qsort() may call malloc, and sorts all.)
struct heap {
    const struct api_context *contexts;
    bool by_weight;
    uint32_t *index;
    uint32_t count;
};

static uint64_t heat(const struct heap *heap, uint32_t index)
{
    const struct api_context *context = &heap->contexts[index];
    return heap->by_weight ? context->weight : context->own;
}

static void sink(struct heap *heap, uint32_t at)
{
    const uint32_t moved = heap->index[at];
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= heap->count)
            break;
        if (child + 1 < heap->count &&
            heat(heap, heap->index[child + 1]) > heat(heap, heap->index[child]))
            child++;
        if (heat(heap, heap->index[child]) <= heat(heap, moved))
            break;
        heap->index[at] = heap->index[child];
        at = child;
    }
    heap->index[at] = moved;
}

static uint32_t take_hottest(struct heap *heap)
{
    const uint32_t hottest = heap->index[0];
    heap->index[0] = heap->index[--heap->count];
    sink(heap, 0);
    return hottest;
}

static void fill(struct heap *heap, const struct api_contexts *contexts)
{
    heap->contexts = contexts->contexts;
    for (uint32_t i = 1; i < contexts->count; i++)
        if (heat(heap, i))
            heap->index[heap->count++] = i;
    for (uint32_t i = heap->count / 2; i-- > 0;)
        sink(heap, i);
}

struct path_query {
    enum cairn_kind kind;
    cairn_visit *visit;
    void *context;
    struct api_modules modules;
    struct cairn_frame frames[API_MOST_FRAMES];
};

static int visit_one(struct path_query *query, const struct api_contexts *contexts, uint32_t index)
{
    const struct api_context *context = &contexts->contexts[index];
    struct cairn_item item = {
        .kind = query->kind,
        .value = context->own,
        .total = context->total,
        .error = context->error,
        .weight = context->weight,
        .depth = context->depth,
        .frames = query->frames,
    };
    for (; index && item.frame_count < API_MOST_FRAMES; index = contexts->contexts[index].parent)
        query->frames[item.frame_count++] =
            api_frame(&query->modules, &contexts->contexts[index].edge);
    return query->visit(&item, query->context);
}

static int visit_hottest(struct path_query *query, const struct api_contexts *contexts,
                         unsigned most)
{
    const size_t bytes = ((size_t)contexts->count + 1) * sizeof(uint32_t);
    struct heap heap = {.index = agent_map(bytes),
                        .by_weight = query->kind == CAIRN_EDGES && api_has_weights()};
    if (!heap.index)
        return -ENOMEM;
    fill(&heap, contexts);
    int visited = 0;
    while (heap.count && (!most || (unsigned)visited < most) && visited < INT_MAX) {
        visited++;
        if (visit_one(query, contexts, take_hottest(&heap)))
            break;
    }
    agent_unmap(heap.index, bytes);
    return visited;
}

static int run_query(struct path_query *query, unsigned most)
{
    struct api_contexts contexts = {0}, groups = {0};
    int result = api_contexts_read(&contexts);
    const bool grouped = query->kind != CAIRN_CONTEXTS;
    if (!result && grouped)
        result = api_contexts_group(&groups, &contexts,
                                    query->kind == CAIRN_EDGES ? API_BY_EDGE : API_BY_FUNCTION);
    if (!result)
        result = visit_hottest(query, grouped ? &groups : &contexts, most);
    api_contexts_close(&contexts);
    api_contexts_close(&groups);
    return result;
}

API int cairn_hottest_1(enum cairn_kind kind, unsigned most, cairn_visit *visit, void *context)
{
    if (!visit || (unsigned)kind > CAIRN_FUNCTIONS)
        return -EINVAL;
    if (!agent.active || agent_in_vfork_child())
        return 0;
    const int saved_errno = errno;
    struct path_query *query = agent_map(sizeof *query);
    int result = query ? 0 : -ENOMEM;
    if (query) {
        query->kind = kind;
        query->visit = visit;
        query->context = context;
        result = api_modules_open(&query->modules);
        if (!result)
            result = run_query(query, most);
        api_modules_close(&query->modules);
        agent_unmap(query, sizeof *query);
    }
    errno = saved_errno;
    return result;
}
