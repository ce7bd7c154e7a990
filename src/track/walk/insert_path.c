// SPDX-License-Identifier: MIT
// A context that is known as a whole, in a bounded tree (tree/bounded/bounded.h).
//
//   known path     root ─ a ─ b ─ c ─ d ─ e ─ f ─ g        K = 3
//   in the tree    root ─ a ─ b ─ c ─ d                    three are new: they are put below d
//   in the tree    root ─ a                                more are: (detached) e ─ f ─ g
//
// A walk of K frames does not know what is above them. A tracker with whole paths does, but a
// sample may still make no more than K nodes. If these are not enough, its youngest K frames become
// a detached root, as with a walk. The nodes that such a sample has left lengthen the known part
// from the root on, so a context that comes again and again is whole after a while.

#include "track/walk/unwind_pass.h"
#include "tree/bounded/bounded.h"

#define MOST_MENDED 1024 // frames of a path that is worth to be made whole: each sample finds them

struct placing {
    struct walker *walker;
    const struct walk_frame *frames; // oldest first
    size_t count;
    size_t same; // of them, those that the last sample had as well: their calls are not new
    uint64_t weight;
    bool detached;
};

static ref_t find(const struct placing *placing, ref_t parent, place_t site, size_t index)
{
    const struct walker *walker = placing->walker;
    return bounded_find(walker->arena, walker->tree, parent, site, placing->frames[index].function);
}

static ref_t enter(const struct placing *placing, ref_t parent, place_t site, size_t index,
                   ref_t held)
{
    const struct walker *walker = placing->walker;
    const struct bounded_call call = {
        .site = site,
        .function = placing->frames[index].function,
        .cost = index >= placing->same ? placing->weight : 0,
        .held = held,
    };
    return bounded_enter(walker->arena, walker->tree, parent, &call);
}

// The youngest frames, whose callers are too many to make nodes for. The remaining nodes of a
// sample go to these, from `known` on, which hangs below `top`.
static ref_t detach(struct placing *placing, ref_t top, size_t known)
{
    const struct walker *walker = placing->walker;
    const size_t limit = walker->limit, first = placing->count - limit;
    ref_t node = tree_root(walker->arena, walker->tree);
    size_t left = limit;
    placing->detached = true;
    for (size_t i = first; i < placing->count && node; i++) {
        const place_t site = i == first ? PLACE_UNKNOWN : placing->frames[i].site;
        left -= find(placing, node, site, i) == 0;
        node = enter(placing, node, site, i, 0);
    }
    if (placing->count > MOST_MENDED)
        left = 0;
    for (size_t i = known; node && top && i < known + left && i < placing->count; i++) {
        const struct bounded_call call = {
            .site = placing->frames[i].site, .function = placing->frames[i].function, .held = node};
        top = bounded_enter(walker->arena, walker->tree, top, &call);
    }
    return node;
}

// 0: no room.
static ref_t place(struct placing *placing)
{
    const struct walker *walker = placing->walker;
    ref_t node = tree_root(walker->arena, walker->tree), begin = node;
    size_t known = 0;
    for (ref_t next; known < placing->count; node = next, known++) {
        if (known <= placing->same)
            begin = node;
        next = find(placing, node, placing->frames[known].site, known);
        if (!next)
            break;
    }
    if (placing->count - known > walker->limit)
        return detach(placing, node, known);
    // Calls that are new have their weights added, whether they have nodes already or not.
    size_t from = known < placing->same ? known : placing->same;
    if (from == placing->count)
        return node;
    for (node = begin; from < placing->count && node; from++)
        node = enter(placing, node, placing->frames[from].site, from, 0);
    return node;
}

static size_t same_as_last(const struct unwind_pass *pass)
{
    const struct walker *walker = pass->walker;
    const struct walk_frame *last = walker->frames, *fresh = walker->frames + pass->low;
    size_t same = 0;
    while (same < walker->count && same < unwind_pass_walked(pass) &&
           last[same].site == fresh[same].site && last[same].function == fresh[same].function)
        same++;
    return same;
}

ref_t unwind_pass_insert_path(struct unwind_pass *pass)
{
    struct walker *walker = pass->walker;
    struct placing placing = {.walker = walker,
                              .frames = walker->frames + pass->low,
                              .count = unwind_pass_walked(pass),
                              .same = same_as_last(pass),
                              .weight = pass->amount};
    const bool has_buffer = bounded_begin(walker->arena, walker->tree);
    ref_t node = has_buffer ? place(&placing) : 0;
    if (!node && has_buffer) {
        bounded_empty(walker->arena, walker->tree);
        placing.detached = false;
        node = place(&placing);
    }
    struct live_stats *stats = walker->stats;
    stats->verdicts[placing.detached ? VERDICT_DETACHED : unwind_pass_verdict(pass, 0, false)]++;
    stats->frames_stack += placing.count;
    stats->purged = bounded_purged(walker->arena, walker->tree);
    stats->unplaced += node == 0;
    unwind_pass_adopt(pass, placing.same, placing.same);
    return node ? node : tree_root(walker->arena, walker->tree);
}
