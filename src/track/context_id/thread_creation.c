// SPDX-License-Identifier: MIT
#include "track/context_id/thread_creation.h"
#include "base/lock.h"
#include "base/system/agent_map.h"
#include "base/system/signal_mask.h"
#include "loadmap/loadmap.h"
#include "track/walk/program_frames.h"
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MOST_FRAMES = 1 << 16 }; // of a stack

__thread uint32_t creation_current;

static struct {
    struct arena *arena;
    struct live_creations *live;
    uint32_t most_calls;
    struct lock lock;                  // its holder has signals blocked, but for our own
    struct live_creation_step *walked; // under the lock: frames of a walk, youngest first
} creation;

static const struct live_creation_step *step_in(const struct arena *arena,
                                                const struct live_creations *live, uint32_t number)
{
    // Acquire: all counted steps are whole. The program may have scribbled over all of it.
    const uint32_t index = number - 1;
    if (index >= atomic_load_explicit(&live->count, memory_order_acquire) ||
        index >= LIVE_CREATION_STEPS)
        return NULL;
    const struct live_creation_step *block = arena_find(
        arena, live->blocks[index / LIVE_CREATION_BLOCK], LIVE_CREATION_BLOCK * sizeof *block);
    return block ? block + index % LIVE_CREATION_BLOCK : NULL;
}

static struct live_creation_step *step_at(uint32_t number)
{
    return (struct live_creation_step *)step_in(creation.arena, creation.live, number);
}

void creation_start(struct arena *arena, struct live_creations *live, uint32_t most_calls)
{
    creation.arena = arena;
    creation.live = live;
    creation.most_calls = most_calls;
    lock_break(&creation.lock);
}

static bool is_same(const struct live_creation_step *one, const struct live_creation_step *other)
{
    return one->site == other->site && one->function == other->function &&
           one->level == other->level;
}

// 0: full.
static uint32_t add_step(uint32_t *list, const struct live_creation_step *like)
{
    struct live_creations *live = creation.live;
    const uint32_t count = atomic_load_explicit(&live->count, memory_order_relaxed);
    if (count >= LIVE_CREATION_STEPS)
        return 0;
    if (count % LIVE_CREATION_BLOCK == 0) {
        const ref_t block =
            arena_alloc(creation.arena, LIVE_CREATION_BLOCK * sizeof(struct live_creation_step));
        if (!block)
            return 0;
        live->blocks[count / LIVE_CREATION_BLOCK] = block;
    }
    // Not step_at(): it is not counted yet.
    struct live_creation_step *block =
        arena_find(creation.arena, live->blocks[count / LIVE_CREATION_BLOCK],
                   LIVE_CREATION_BLOCK * sizeof *like);
    if (!block)
        return 0;
    struct live_creation_step *step = block + count % LIVE_CREATION_BLOCK;
    *step = *like;
    step->sibling = *list;
    // Release: a reader that counts it finds it whole.
    atomic_store_explicit(&live->count, count + 1, memory_order_release);
    return *list = count + 1;
}

// The step behind `parent`, made if it is new; 0: no room.
static uint32_t step_behind(uint32_t parent, struct live_creation_step step)
{
    struct live_creations *live = creation.live;
    struct live_creation_step *above = parent ? step_at(parent) : NULL;
    if (parent && !above)
        return 0;
    uint32_t *list = above ? &above->child : &live->first;
    uint32_t left = LIVE_CREATION_STEPS;
    const struct live_creation_step *known;
    for (uint32_t at = *list; left-- && (known = step_at(at)); at = known->sibling)
        if (is_same(known, &step))
            return at;
    if (live->calls >= creation.most_calls)
        return 0;
    step.parent = parent;
    const uint32_t number = add_step(list, &step);
    live->calls += number && step.level;
    return number;
}

// Frames youngest first, as trees have them. The number of them; 0: not all of them are known.
static uint32_t walk(const struct creation_place *at, place_t *site)
{
    struct program_frames frames;
    struct program_frame frame;
    uint32_t count = 0;
    if (!program_frames_begin(&frames, &at->caller, at->stack))
        return 0;
    *site = frames.point;
    while (count < MOST_FRAMES && program_frames_next(&frames, &frame))
        creation.walked[count++] =
            (struct live_creation_step){.site = frame.site, .function = frame.function};
    return frames.verdict == VERDICT_COMPLETE ? count : 0;
}

#define WALKS_MOST 8

// Under the lock.
static uint32_t note(const struct creation_place *place)
{
    const struct live_creation_step *created = step_at(creation_current);
    const uint32_t level = created ? created->level : 0;
    place_t site;
    if (!creation.walked)
        creation.walked = agent_map(MOST_FRAMES * sizeof *creation.walked);
    const bool room = creation.walked && level < CREATION_LEVELS;
    // A sample that comes meanwhile moves the marker: again.
    uint32_t count = 0;
    for (unsigned tries = 0; room && !count && tries < WALKS_MOST; tries++)
        count = walk(place, &site);
    uint32_t step = creation_current;
    for (uint32_t i = count; i-- > 0;)
        if (!(step = step_behind(step, creation.walked[i])))
            return creation_current;
    if (!count)
        return creation_current;
    const struct live_creation_step call = {
        .level = level + 1,
        .site = site,
        .function = place->root ? loadmap_place(place->root) : 0,
    };
    step = step_behind(step, call);
    return step ? step : creation_current;
}

uint32_t creation_note(const struct creation_place *place)
{
    if (!creation.live || !creation.most_calls)
        return 0;
    uint64_t mask;
    uint32_t number = creation_current;
    signal_mask_hold(&mask);
    if (!lock_take(&creation.lock)) {
        number = note(place);
        lock_release(&creation.lock);
    }
    signal_mask_release(&mask);
    return number;
}

void creation_after_fork(const struct arena *from, const struct live_creations *parent)
{
    uint32_t count = 0, number = creation_current;
    const struct live_creation_step *step;
    creation_current = 0;
    while (creation.walked && count < MOST_FRAMES && (step = step_in(from, parent, number))) {
        creation.walked[count++] = *step;
        number = step->parent;
    }
    if (number || !creation.most_calls)
        return;
    uint32_t copy = 0;
    while (count-- > 0) {
        const struct live_creation_step *old = &creation.walked[count];
        copy = step_behind(copy, (struct live_creation_step){.level = old->level,
                                                             .site = old->site,
                                                             .function = old->function});
        if (!copy)
            return;
    }
    creation_current = copy;
}

bool creation_read(uint32_t number, struct creation_call *call, struct edge *frames, uint32_t most)
{
    const struct live_creation_step *step =
        creation.live ? step_in(creation.arena, creation.live, number) : NULL;
    if (!step || !step->level)
        return false;
    *call = (struct creation_call){.site = step->site, .root = step->function};
    uint32_t left = LIVE_CREATION_STEPS;
    for (uint32_t at = step->parent; left-- && (step = step_at(at)); at = step->parent) {
        if (step->level) {
            call->creator = at;
            break;
        }
        if (call->frames < most)
            frames[call->frames] = (struct edge){step->site, step->function};
        call->frames++;
    }
    return call->frames <= most;
}
