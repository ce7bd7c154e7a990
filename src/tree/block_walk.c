// SPDX-License-Identifier: MIT
#include "tree/block_walk.h"
#include <errno.h>

// False: the block does not lie in what is left of the arena.
static bool read_run(const struct arena *arena, uint64_t arena_bytes, ref_t at,
                     uint64_t *bytes_left, struct block_run *run)
{
    const struct node_block *block = arena_at(arena, at);
    // Acquire pairs with the writer's release of nodes that are whole.
    run->count = atomic_load_explicit(&block->used, memory_order_acquire);
    // A full tree that has begun to forget has blocks of nodes with more values.
    run->metrics = __atomic_load_n(&block->metrics, __ATOMIC_RELAXED);
    if (run->metrics == 0 || run->metrics > TREE_MOST_METRICS)
        return false;
    const uint64_t bytes = sizeof *block + run->count * (uint64_t)tree_node_bytes(run->metrics);
    if (!is_inside(arena_bytes, at, bytes) || bytes > *bytes_left)
        return false;
    *bytes_left -= bytes;
    run->start = tree_node_in_block(at, run->metrics, 0);
    return true;
}

int tree_each_run(const struct arena *arena, uint64_t arena_bytes, ref_t tree,
                  bool (*visit)(void *context, const struct block_run *run), void *context)
{
    if (!is_inside(arena_bytes, tree, sizeof(struct tree)))
        return -EBADMSG;
    const struct tree *head = arena_at(arena, tree);
    // Acquire: pairs with the writer's release of the first block; 0: the tree is being made.
    ref_t at = atomic_load_explicit(&head->first_block, memory_order_acquire);
    uint64_t bytes_left = arena_bytes; // no arena has more
    struct tree_chain chain = {0};
    while (at) {
        if (tree_chain_repeats(&chain, at) ||
            !is_inside(arena_bytes, at, sizeof(struct node_block)))
            return -EBADMSG;
        const struct node_block *block = arena_at(arena, at);
        // `next` before `used`: a block has a successor only once it is full. So a reader that
        // continues with the successor has seen this block whole, and no child before its parent.
        // Acquire pairs with the release in tree_block_append().
        const ref_t next = atomic_load_explicit(&block->next, memory_order_acquire);
        struct block_run run;
        if (!read_run(arena, arena_bytes, at, &bytes_left, &run))
            return -EBADMSG;
        if (!visit(context, &run))
            return 1;
        at = next;
    }
    return 0;
}
