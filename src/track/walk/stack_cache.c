// SPDX-License-Identifier: MIT
#include "track/walk/stack_cache.h"
#include "loadmap/loadmap.h"
#include "unwind/stack.h"

// Where trails from there are: paths to the same place with the same stack pointer are not rare.
static struct cached_walk *stack_cache_at(struct stack_cache *trails, uintptr_t pc, uintptr_t sp)
{
    const uint64_t hash = (pc ^ sp << 20 ^ sp >> 3) * UINT64_C(0x9e3779b97f4a7c15);
    return &trails->trails[(hash >> 32) % (CACHED_WALKS / TRAIL_WAYS) * TRAIL_WAYS];
}

static bool is_unchanged(const struct unwind_word *words, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (*(const stack_word *)words[i].place != words[i].value)
            return false;
    return true;
}

// True if all frames are above sp, on the thread's own stack: the compared words can be read.
static bool is_of_stack(const struct walker *walker, uintptr_t sp)
{
    return sp >= walker->stack.low && sp < walker->stack.high;
}

static bool is_of(const struct cached_walk *trail, const struct walker *walker, uintptr_t pc,
                  uintptr_t sp, uintptr_t bp)
{
    return trail->pc == pc && trail->sp == sp && trail->tree == walker->tree &&
           trail->generation == loadmap_generation() && (!trail->by_fp || trail->bp == bp) &&
           (!trail->serial || (trail->serial == walker->serial && walker->marker.entry));
}

ref_t stack_cache_find(struct stack_cache *trails, struct walker *walker, uintptr_t pc,
                       uintptr_t sp, uintptr_t bp)
{
    const struct cached_walk *trail = stack_cache_at(trails, pc, sp), *end = trail + TRAIL_WAYS;
    while (trail < end && !(is_of(trail, walker, pc, sp, bp) &&
                            is_unchanged(&trails->words[trail->first], trail->count)))
        trail++;
    if (trail == end)
        return 0;
    struct live_stats *stats = walker->stats;
    stats->verdicts[trail->serial ? VERDICT_MARKER : VERDICT_COMPLETE]++;
    stats->frames_stack += trail->frames;
    return trail->node;
}

static void forget_all(struct stack_cache *trails)
{
    for (unsigned i = 0; i < CACHED_WALKS; i++)
        trails->trails[i].pc = 0;
    trails->used = 0;
}

void stack_cache_keep(struct stack_cache *trails, const struct walker *walker, uintptr_t pc,
                      uintptr_t sp, uintptr_t bp, ref_t node)
{
    // Without the marker at work, and where the walk was whole.
    if (walker->rooted != VERDICT_COMPLETE || walker->in_stub || walker->suspended ||
        !is_of_stack(walker, sp) || walker->kind != TREE_FULL)
        return;
    if (trails->used + TRAIL_LONGEST > CACHED_WALK_WORDS)
        forget_all(trails);
    const struct unwind_bounds stack = {sp, walker->stack.high};
    const uintptr_t marked = walker->marker.entry ? walker->marker.slot : 0;
    struct unwind_trail found = {.words = &trails->words[trails->used]};
    if (!unwind_follow(&found, TRAIL_LONGEST, pc, sp, bp, stack, marked))
        return;
    stack_cache_at(trails, pc, sp)[trails->turn++ % TRAIL_WAYS] = (struct cached_walk){
        .pc = pc,
        .sp = sp,
        .bp = bp,
        .tree = walker->tree,
        .node = node,
        .first = trails->used,
        .count = (uint32_t)found.count,
        .frames = (uint32_t)(found.frames + (found.stopped ? walker->marked : 0)),
        .serial = found.stopped ? walker->serial : 0,
        .generation = loadmap_generation(),
        .by_fp = found.by_fp,
    };
    trails->used += (uint32_t)found.count;
}
