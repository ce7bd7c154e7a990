// SPDX-License-Identifier: MIT
// The node of a decoded path in a tree that forgets: nodes are given to other contexts there, so
// none is remembered, and each sample goes down from the root.

#include "track/encode/contexts/insert_path.h"
#include "track/walk/unmarkable.h"
#include "track/walk/unwind_pass.h"

static ref_t child(struct walker *walker, ref_t node, place_t site, place_t function)
{
    const ref_t edge = tree_edge(walker->arena, walker->tree, site, function);
    return tree_child(walker->arena, walker->tree, node, edge);
}

ref_t encode_insert_path(struct encode_thread *thread, struct walker *walker)
{
    const uint32_t *path = thread->path + ENCODE_FRAMES - thread->path_count;
    const uint32_t count = path_to_walk(&encode.graph, path, thread->path_count, thread->walked);
    ref_t node = tree_root(walker->arena, walker->tree);
    for (uint32_t i = thread->above_count; i-- > 0 && node;)
        node = child(walker, node, thread->above[i].site, thread->above[i].function);
    for (uint32_t i = 0; i < count && node; i++)
        node = child(walker, node, thread->walked[i].site, thread->walked[i].function);
    return node;
}

// One frame that was left, towards the root. A frame of the agent gives its site to the frame that
// it called.
static bool add_above(struct encode_thread *thread, uint32_t *count,
                      const struct unwind_frame *left, place_t site)
{
    if (unmarkable_is_agent(left->function)) {
        if (*count)
            thread->above[*count - 1].site = site;
        return true;
    }
    if (*count == ENCODE_ABOVE)
        return false;
    thread->above[(*count)++] = (struct edge){site, left->function};
    return true;
}

void encode_walk_above(struct encode_thread *thread, const struct walker *walker,
                       const struct unwind_cursor *start)
{
    struct unwind_cursor cursor = *start;
    enum verdict verdict = VERDICT_COMPLETE;
    uint32_t count = 0;
    if (thread->above_tree == walker->tree)
        return;
    while (unwind_step(&cursor, &verdict) == UNWIND_OK)
        if (cursor.left.ra_slot >= thread->root_slot &&
            !add_above(thread, &count, &cursor.left, cursor.frame.place))
            return;
    if (verdict != VERDICT_COMPLETE || !add_above(thread, &count, &cursor.frame, 0))
        return;
    thread->above_count = count;
    thread->above_tree = walker->tree;
}

ref_t encode_insert_bounded(struct encode_thread *thread, struct walker *walker,
                            const struct encode_climbed *climbed, uint64_t weight)
{
    const uint32_t *path = thread->path + ENCODE_FRAMES - thread->path_count;
    uint32_t frames = path_to_walk(&encode.graph, path, thread->path_count, thread->walked);
    struct unwind_pass pass = {
        .walker = walker, .low = walker->capacity, .amount = weight, .verdict = VERDICT_COMPLETE};
    bool room = thread->above_tree == walker->tree;
    for (unsigned i = 0; i < climbed->count && room; i++)
        room = unwind_pass_tell(&pass, climbed->site[i], climbed->function[i]);
    while (frames-- > 0 && room)
        room =
            unwind_pass_tell(&pass, thread->walked[frames].site, thread->walked[frames].function);
    for (uint32_t i = 0; i < thread->above_count && room; i++)
        room = unwind_pass_tell(&pass, thread->above[i].site, thread->above[i].function);
    return room ? unwind_pass_insert_path(&pass) : 0;
}
