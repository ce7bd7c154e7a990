// SPDX-License-Identifier: MIT
#include "agent/thread/phase.h"
#include "agent/session/public.h"
#include "base/gc_hidden.h"
#include <errno.h>
#include <string.h>

#define MOST_PHASES 256
#define NAME_BYTES 64

enum name_state { NAME_FREE, NAME_BEING_WRITTEN, NAME_READY };

// Names are never taken back. The thread that takes a free one writes it, and makes it ready with
// release.
static struct name {
    _Atomic uint32_t state;
    char text[NAME_BYTES];
    _Atomic ref_t record; // in the present slice; any thread may make it, the first one counts
} names[MOST_PHASES] GC_HIDDEN;

static _Atomic phase_t name_count;    // the highest number that was taken; relaxed
static _Atomic phase_t process_phase; // relaxed: a phase begins at some moment

static bool is_named(const struct name *slot, const char *name)
{
    return !strncmp(slot->text, name, NAME_BYTES - 1);
}

// The number of a name, given on first use. 0 if there are too many. Signal-safe.
static phase_t number_of(const char *name)
{
    for (phase_t i = 1; i < MOST_PHASES; i++) {
        uint32_t state = atomic_load_explicit(&names[i].state, memory_order_acquire);
        if (state == NAME_READY && is_named(&names[i], name))
            return i;
        // Two threads that name a phase for the first time at once may both get a number: reports
        // go by the name.
        if (state != NAME_FREE ||
            !atomic_compare_exchange_strong(&names[i].state, &state, NAME_BEING_WRITTEN))
            continue;
        phase_t count = atomic_load_explicit(&name_count, memory_order_relaxed);
        while (count < i && !atomic_compare_exchange_weak(&name_count, &count, i)) {
        }
        strncpy(names[i].text, name, NAME_BYTES - 1);
        atomic_store_explicit(&names[i].state, NAME_READY, memory_order_release);
        return i;
    }
    return 0;
}

ref_t phase_record(phase_t phase)
{
    struct name *name = &names[phase];
    ref_t ref = atomic_load_explicit(&name->record, memory_order_acquire);
    if (!phase || ref)
        return ref;
    const size_t length = strlen(name->text);
    ref = arena_alloc(&agent.arena, sizeof(struct live_phase) + length + 1);
    if (!ref)
        return 0;
    struct live_phase *record = arena_at(&agent.arena, ref);
    record->bytes = (uint32_t)length;
    memcpy(record->text, name->text, length);
    ref_t before = 0;
    return atomic_compare_exchange_strong(&name->record, &before, ref) ? ref : before;
}

void phase_forget_records(void)
{
    const phase_t count = atomic_load_explicit(&name_count, memory_order_relaxed);
    for (phase_t i = 0; i <= count && count; i++)
        atomic_store_explicit(&names[i].record, 0, memory_order_relaxed);
}

phase_t phase_of(const struct thread *thread)
{
    const uint32_t depth = thread->phase_depth;
    if (!depth)
        return atomic_load_explicit(&process_phase, memory_order_relaxed);
    return thread->phases[depth < THREAD_PHASES ? depth - 1 : THREAD_PHASES - 1];
}

API int cairn_phase_1(const char *name)
{
    const phase_t phase = name ? number_of(name) : 0;
    if (name && !phase)
        return -ENOSPC;
    atomic_store_explicit(&process_phase, phase, memory_order_relaxed);
    thread_move_now();
    return 0;
}

API int cairn_phase_begin_1(const char *name)
{
    struct thread *thread = thread_self;
    if (!thread || !name)
        return thread ? -EINVAL : 0;
    phase_t phase = number_of(name);
    const int result = phase ? 0 : -ENOSPC;
    if (!phase)
        phase = phase_of(thread); // so that the end has something to end
    if (thread->phase_depth < THREAD_PHASES)
        thread->phases[thread->phase_depth] = phase;
    atomic_signal_fence(memory_order_seq_cst); // a tick in between sees the old phase, or the new
    thread->phase_depth++;
    thread_move_now();
    return result;
}

API int cairn_phase_end_1(void)
{
    struct thread *thread = thread_self;
    if (!thread)
        return 0;
    if (!thread->phase_depth)
        return -EINVAL;
    thread->phase_depth--;
    thread_move_now();
    return 0;
}
