// SPDX-License-Identifier: MIT
#include "profile/recorder/live_reader_state.h"
#include <stdlib.h>

// The place in the profile of a node of any tree. False: it has not been read yet.
static bool find_node(const struct live_reader *reader, ref_t ref, uint32_t *tree, uint32_t *node)
{
    for (unsigned i = 0; i < reader->tree_count; i++)
        if (live_tree_find(&reader->trees[i], ref, node)) {
            *tree = reader->trees[i].index;
            return true;
        }
    return false;
}

static bool put_difference(struct live_reader *reader, const struct live_blame *from,
                           struct live_blames_written *written)
{
    // Acquire: the pair comes before its sums.
    const uint64_t pair = atomic_load_explicit(&from->pair, memory_order_acquire),
                   ns = atomic_load_explicit(&from->ns, memory_order_relaxed),
                   waits = atomic_load_explicit(&from->waits, memory_order_relaxed);
    struct profile_blame blame = {.ns = ns - written->ns, .waits = waits - written->waits};
    if (!pair || waits <= written->waits || ns < written->ns ||
        !find_node(reader, (ref_t)(pair >> 32), &blame.waiter.tree, &blame.waiter.node) ||
        !find_node(reader, (ref_t)pair, &blame.holder.tree, &blame.holder.node))
        return false;
    *written = (struct live_blames_written){ns, waits};
    write_blame(reader->sink->batch, &blame);
    return true;
}

bool live_blames_read(struct live_reader *reader)
{
    const ref_t ref = atomic_load_explicit(&live_process_of(reader)->blames, memory_order_acquire);
    const struct live_blame *blames =
        live_record_at(reader, ref, LIVE_BLAMES * sizeof(struct live_blame));
    bool any = false;
    if (blames && !reader->blames)
        reader->blames = calloc(LIVE_BLAMES, sizeof *reader->blames);
    for (unsigned i = 0; blames && reader->blames && i < LIVE_BLAMES; i++)
        any |= put_difference(reader, &blames[i], &reader->blames[i]);
    return any;
}
