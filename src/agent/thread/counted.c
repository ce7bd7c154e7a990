// SPDX-License-Identifier: MIT
#include "agent/thread/counted.h"
#include "agent/thread/existing_threads.h"
#include "base/system/agent_map.h"
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define SWITCHES_BYTES 4096

static const volatile uint32_t never[LIVE_EVENTS];
const volatile uint32_t *counted_switches = never;
__thread uintptr_t counted_frame;
ref_t counted_without_context;
bool counted_may_end;

void *counted_map(size_t bytes)
{
    void *memory = agent_map(bytes);
    if (!memory)
        return NULL;
    // Sparse it shall stay. And what a child inherits is none of its own doing.
    madvise(memory, bytes, MADV_NOHUGEPAGE);
    if (!madvise(memory, bytes, MADV_WIPEONFORK))
        return memory;
    agent_unmap(memory, bytes);
    return NULL;
}

void counted_clear(void *memory, size_t bytes)
{
    if (madvise(memory, bytes, MADV_DONTNEED))
        memset(memory, 0, bytes);
}

static uint32_t *switches;

int counted_switch_on(enum live_event event, enum counted_mode mode)
{
    const ref_t tree = thread_first_tree();
    if (!tree)
        return -ENOSPC;
    if (!switches && !(switches = counted_map(SWITCHES_BYTES)))
        return -ENOMEM;
    counted_without_context = tree_unplaced(&agent.arena, tree, tree_root(&agent.arena, tree));
    counted_frame = 0;
    counted_switches = switches;
    // Release: a reader that finds it on also finds all that the event needs.
    __atomic_store_n(&switches[event], mode, __ATOMIC_RELEASE);
    return 0;
}

void counted_switch_off(void)
{
    // Sequentially consistent: an event either sees it, or is seen by who waits for events.
    for (unsigned event = 0; switches && event < LIVE_EVENTS; event++)
        __atomic_store_n(&switches[event], COUNTED_OFF, __ATOMIC_SEQ_CST);
}

static bool is_on_yet(enum live_event event)
{
    return __atomic_load_n(&counted_switches[event], __ATOMIC_SEQ_CST) != COUNTED_OFF;
}

static bool has_begun(const struct thread *thread)
{
    return thread && atomic_load_explicit(&thread->begun, memory_order_acquire);
}

// Nobody reads what is counted: the marker goes, and nothing more happens.
static bool is_orphan(struct thread *thread)
{
    if (LIKELY(!agent_tool_is_gone()))
        return false;
    if (!thread->tracked.walker.in_stub && !thread->tracked.walker.abandoned)
        walk_abandon(&thread->tracked.walker);
    return true;
}

static enum counted_visit announce(struct thread *thread, enum live_event event)
{
    const uint32_t depth = atomic_load_explicit(&thread->events, memory_order_relaxed);
    // Sequentially consistent, before the switch is read: see counted_switch_off().
    atomic_store(&thread->events, depth + 1);
    if (is_on_yet(event) && has_begun(thread) && !is_orphan(thread))
        return COUNTED_ANNOUNCED;
    atomic_store_explicit(&thread->events, depth, memory_order_release);
    return COUNTED_TOO_LATE;
}

static enum counted_visit announce_stranger(enum live_event event)
{
    agent_visit();
    if (is_on_yet(event) && !agent_tool_is_gone())
        return COUNTED_STRANGER;
    agent_visit_ends();
    return COUNTED_TOO_LATE;
}

// A thread that was there before the recording makes itself known, once.
static void make_known(enum live_event event, const void *frame)
{
    static __thread uint32_t asked;
    const int saved_errno = errno;
    if (asked == agent.recording)
        return;
    const struct caller_registers caller = unwind_caller_of(frame);
    agent_visit();
    if (is_on_yet(event)) {
        asked = agent.recording;
        thread_begin_existing_here(&caller);
    }
    agent_visit_ends();
    errno = saved_errno;
}

enum counted_visit counted_announce(enum live_event event, const void *frame)
{
    if (UNLIKELY(!has_begun(thread_current)))
        make_known(event, frame);
    return has_begun(thread_current) ? announce(thread_current, event) : announce_stranger(event);
}

void counted_announce_end(enum counted_visit visit)
{
    if (visit == COUNTED_STRANGER) {
        agent_visit_ends();
        return;
    }
    // Release: whoever waits for it finds the event done. A record that was made new meanwhile has
    // nothing to take back.
    const uint32_t depth = atomic_load_explicit(&thread_current->events, memory_order_relaxed);
    if (depth)
        atomic_store_explicit(&thread_current->events, depth - 1, memory_order_release);
}

static inline bool is_on_stack(const struct thread *thread, uintptr_t address)
{
    return address >= thread->stack.low && address < thread->stack.high;
}

// An event that was left behind by a longjmp out of a handler is over: nothing that interrupts it
// lies above it, or on the thread's own stack if it does not.
bool counted_is_interrupted(const struct thread *thread, uintptr_t sp)
{
    return !is_on_stack(thread, sp) || (is_on_stack(thread, counted_frame) && sp < counted_frame);
}
