// SPDX-License-Identifier: MIT
#include "track/walk/stack_cache.h"
#include "loadmap/loadmap.h"
#include "track/runtimes/python.h"
#include "unwind/stack.h"

// Where trails from there are: paths to the same place with the same stack pointer are not rare.
static struct cached_walk *stack_cache_at(struct stack_cache *trails,
                                          const struct caller_registers *caller)
{
    const uintptr_t sp = caller->sp;
    const uint64_t hash = (caller->pc ^ sp << 20 ^ sp >> 3) * UINT64_C(0x9e3779b97f4a7c15);
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

static bool is_of(const struct cached_walk *trail, const struct walker *walker,
                  const struct caller_registers *caller)
{
    const struct caller_registers *kept = &trail->caller;
    return kept->pc == caller->pc && kept->sp == caller->sp && trail->tree == walker->tree &&
           trail->generation == loadmap_generation() && (!trail->by_fp || kept->bp == caller->bp) &&
           (!trail->serial || (trail->serial == walker->serial && walker->marker.entry));
}

ref_t stack_cache_find(struct stack_cache *trails, struct walker *walker,
                       const struct caller_registers *caller)
{
    const struct cached_walk *trail = stack_cache_at(trails, caller), *end = trail + TRAIL_WAYS;
    while (trail < end && !(is_of(trail, walker, caller) &&
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
        trails->trails[i].caller.pc = 0;
    trails->used = 0;
}

// Notes the words that Python's frames on the way depend on, too: not those of older evaluations
// than the marked frame. They are compared after those of the stack, so the records are there.
static bool follow_python(struct unwind_trail *trail, const struct walker *walker, uintptr_t sp)
{
    if (!walker->with_python || !python_is_known)
        return true;
    const uintptr_t end = trail->stopped ? walker->marker.slot : walker->stack.high;
    const size_t more =
        python_words(sp, end, trail->words + trail->count, TRAIL_LONGEST - trail->count);
    trail->count += more;
    return trail->count < TRAIL_LONGEST;
}

void stack_cache_keep(struct stack_cache *trails, const struct walker *walker,
                      const struct caller_registers *caller, ref_t node)
{
    // Without the marker at work, and where the walk was whole.
    if (walker->rooted != VERDICT_COMPLETE || walker->guess || walker->in_stub ||
        walker->suspended || !is_of_stack(walker, caller->sp) || !walker->kind.keeps_all)
        return;
    if (trails->used + TRAIL_LONGEST > CACHED_WALK_WORDS)
        forget_all(trails);
    const struct unwind_bounds stack = {caller->sp, walker->stack.high};
    const uintptr_t marked = walker->marker.entry ? walker->marker.slot : 0;
    struct unwind_trail found = {.words = &trails->words[trails->used]};
    if (!unwind_follow(&found, TRAIL_LONGEST, caller, stack, marked) ||
        !follow_python(&found, walker, caller->sp))
        return;
    stack_cache_at(trails, caller)[trails->turn++ % TRAIL_WAYS] = (struct cached_walk){
        .caller = *caller,
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
