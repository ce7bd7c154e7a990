// SPDX-License-Identifier: MIT
#include "track/context_id/context_id.h"
#include "base/system/agent_map.h"
#include "base/system/signal_mask.h"
#include "loadmap/loadmap.h"
#include "track/context_id/handle_table.h"
#include "track/context_id/numbered_context.h"
#include "track/context_id/thread_creation.h"
#include "track/walk/program_frames.h"
#include "track/walk/unmarkable.h"
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LEFT_ALONE 4

static __thread struct requesting_thread *requesting_thread;
static __thread uintptr_t root;

static struct {
    uintptr_t functions[LEFT_ALONE];
    unsigned count;
} left_alone;

void context_id_start(struct arena *arena, struct live_contexts *live)
{
    handles_start(arena, live);
    numbered_context_restart();
}

void context_id_leave_alone(const void *const *functions, unsigned count)
{
    for (unsigned i = 0; i < count && left_alone.count < LEFT_ALONE; i++)
        left_alone.functions[left_alone.count++] = (uintptr_t)functions[i];
}

bool context_id_is_left_alone(uintptr_t function)
{
    for (unsigned i = 0; i < left_alone.count; i++)
        if (left_alone.functions[i] == function)
            return true;
    return false;
}

void context_id_begin_thread(uintptr_t function)
{
    root = function;
}

uintptr_t context_id_root(void)
{
    return root;
}

void context_id_end_thread(void)
{
    struct requesting_thread *thread = requesting_thread;
    requesting_thread = NULL;
    atomic_signal_fence(memory_order_seq_cst);
    if (thread)
        agent_unmap(thread, sizeof *thread);
}

// ---- by a walk

// Frames youngest first. *cut: there are more, which are not known.
static uint32_t walk(struct requesting_thread *thread, struct program_frames *frames, bool *cut)
{
    // The thread's first function may have left by a jump, and be known by its slot alone.
    const uintptr_t root_slot = numbered_context_root_slot();
    struct program_frame frame;
    uint32_t count = 0;
    while (count < CONTEXT_ID_FRAMES && program_frames_next(frames, &frame)) {
        const bool is_root = frame.slot && frame.slot == root_slot;
        thread->frames[count++] = (struct edge){is_root ? 0 : frame.site, frame.function};
        if (is_root) {
            *cut = false;
            return count;
        }
    }
    *cut = frames->verdict != VERDICT_COMPLETE;
    return count;
}

// The callers of the function that the thread began in are not the program's.
static uint32_t cut_at_root(struct requesting_thread *thread, uint32_t count, place_t began,
                            bool *cut)
{
    for (uint32_t i = count; began && i-- > 0;) {
        if (thread->frames[i].function != began)
            continue;
        thread->frames[i].site = 0;
        *cut = false;
        return i + 1;
    }
    return count;
}

static uint32_t walked_origin(struct intern *intern, struct context_id creator)
{
    return intern_origin(
        intern, &(struct intern_origin){creator.id, creator.handle, GRAPH_NONE, GRAPH_NONE});
}

// Frames youngest first, and where the youngest goes on.
struct known_frames {
    const struct edge *frames;
    uint32_t count;
    bool cut; // the oldest are not known
    place_t point;
};

// The context of frames in a thread of that origin.
static struct context_id intern_frames(struct intern *intern, uint32_t origin,
                                       const struct known_frames *known)
{
    uint32_t node = origin;
    if (known->cut)
        node = intern_frame(intern, node, 0, 0);
    for (uint32_t i = known->count; i-- > 0;)
        node = intern_frame(intern, node, known->frames[i].site, known->frames[i].function);
    const uint32_t point = intern_point(intern, node, known->point, GRAPH_NONE);
    return (struct context_id){0, handles_number(0, point)};
}

// The call that created the thread, below that which created its creator, and so on.
static struct context_id intern_creators(struct intern *intern, struct requesting_thread *thread)
{
    uint32_t calls[CREATION_LEVELS], count = 0;
    struct creation_call call;
    struct context_id creator = {0};
    for (uint32_t at = creation_current;
         count < CREATION_LEVELS && creation_read(at, &call, thread->frames, CONTEXT_ID_FRAMES);
         at = call.creator)
        calls[count++] = at;
    while (count-- > 0 && creation_read(calls[count], &call, thread->frames, CONTEXT_ID_FRAMES)) {
        struct known_frames known = {.frames = thread->frames, .point = call.site};
        known.count = cut_at_root(thread, call.frames, call.root, &known.cut);
        creator = intern_frames(intern, walked_origin(intern, creator), &known);
    }
    return creator;
}

struct context_id context_id_creator(void)
{
    struct requesting_thread *thread = requesting_thread;
    struct intern *intern = thread->creator_told || !creation_current ? NULL : handles_intern();
    if (intern)
        thread->creator = intern_creators(intern, thread);
    thread->creator_told = 1;
    return thread->creator;
}

// Before the walk, which needs the room for frames as well.
static bool has_origin(struct requesting_thread *thread)
{
    if (thread->walked_origin)
        return true;
    if (!handles_lock())
        return false;
    const struct context_id creator = context_id_creator();
    struct intern *intern = handles_intern();
    if (intern)
        thread->walked_origin = walked_origin(intern, creator);
    handles_unlock();
    return thread->walked_origin;
}

static struct context_id by_walk(struct requesting_thread *thread,
                                 const struct context_place *place)
{
    struct context_id value = {0};
    struct program_frames frames;
    if (!has_origin(thread) || !program_frames_begin(&frames, &place->caller, place->stack))
        return value;
    struct known_frames known = {.frames = thread->frames, .point = frames.point};
    known.count = walk(thread, &frames, &known.cut);
    known.count = cut_at_root(thread, known.count, root ? loadmap_place(root) : 0, &known.cut);
    if (!handles_lock())
        return value;
    struct intern *intern = handles_intern();
    if (intern)
        value = intern_frames(intern, thread->walked_origin, &known);
    handles_unlock();
    return value;
}

// ---- either way

static struct requesting_thread *thread_here(void)
{
    struct requesting_thread *thread = requesting_thread;
    if (!thread) {
        thread = agent_map(sizeof *thread);
        if (!thread)
            return NULL;
        // A child that the agent does not know of must not hand out handles of its parent.
        if (madvise(thread, sizeof *thread, MADV_WIPEONFORK)) {
            agent_unmap(thread, sizeof *thread);
            return NULL;
        }
        requesting_thread = thread;
    }
    return thread;
}

struct context_id context_id_here(const struct context_place *place)
{
    struct context_id value = {0};
    uint64_t mask;
    struct live_contexts *live = handles_live();
    if (!live || (requesting_thread && requesting_thread->busy))
        return value;
    signal_mask_hold(&mask);
    struct requesting_thread *thread = thread_here();
    if (thread) {
        thread->busy = 1;
        const bool numbered = numbered_context(thread, place, &value);
        if (!numbered)
            value = by_walk(thread, place);
        _Atomic uint64_t *count = !value.handle ? &live->unknown
                                  : numbered    ? &live->number
                                                : &live->walked;
        atomic_fetch_add_explicit(count, 1, memory_order_relaxed);
        thread->busy = 0;
    }
    signal_mask_release(&mask);
    return value;
}
