// SPDX-License-Identifier: MIT
// The node of a decoded path in a tree that forgets: nodes are given to other contexts there, so
// none is remembered, and each sample goes down from the root.

#include "track/encode_parts.h"

// How the thread came to the function that its numbers begin with: all paths have that in common.
// `node` is where a walk has placed the sample whose frames are in thread->frames.
void encode_learn_above(struct encode_thread *thread, const struct walker *walker, ref_t node)
{
    const struct arena *arena = walker->arena;
    const ref_t root = tree_root(arena, walker->tree);
    if (thread->above_tree == walker->tree)
        return;
    if (walker->kind == TREE_FULL) // it has a statement below the frame
        node = ((const struct node *)arena_at(arena, node))->parent;
    for (uint32_t i = 0; i < thread->count && node && node != root; i++)
        node = ((const struct node *)arena_at(arena, node))->parent;
    uint32_t count = 0;
    for (; node && node != root && count < ENCODE_ABOVE; count++) {
        const struct node *frame = arena_at(arena, node);
        thread->above[count] = tree_node_edge(frame);
        node = frame->parent;
    }
    if (node != root)
        return;
    thread->above_count = count;
    thread->above_tree = walker->tree;
}

ref_t encode_place(struct encode_thread *thread, struct walker *walker)
{
    const uint32_t *path = thread->path + ENCODE_FRAMES - thread->path_count;
    const uint32_t count = path_to_walk(&encode.graph, path, thread->path_count, thread->walked);
    ref_t node = tree_root(walker->arena, walker->tree);
    for (uint32_t i = thread->above_count; i-- > 0 && node;)
        node = tree_child(walker->arena, walker->tree, node, thread->above[i]);
    for (uint32_t i = 0; i < count && node; i++) {
        const struct walked *frame = &thread->walked[i];
        const ref_t edge = tree_edge(walker->arena, walker->tree, frame->site, frame->function);
        node = tree_child(walker->arena, walker->tree, node, edge);
    }
    return node;
}
