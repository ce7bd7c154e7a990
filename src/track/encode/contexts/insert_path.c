// SPDX-License-Identifier: MIT
// The node of a decoded path in a tree that forgets: nodes are given to other contexts there, so
// none is remembered, and each sample goes down from the root.

#include "track/encode/contexts/insert_path.h"
#include "track/walk/program_frames.h"
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

void encode_walk_above(struct encode_thread *thread, const struct walker *walker,
                       const struct unwind_cursor *start)
{
    struct program_frames frames;
    struct program_frame frame;
    uint32_t count = 0;
    if (thread->above_tree == walker->tree)
        return;
    program_frames_begin_at(&frames, start);
    while (program_frames_next(&frames, &frame)) {
        if (frames.more && frame.slot < thread->root_slot)
            continue;
        if (count == ENCODE_ABOVE)
            return;
        thread->above[count++] = (struct edge){frame.site, frame.function};
    }
    if (frames.verdict != VERDICT_COMPLETE)
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
