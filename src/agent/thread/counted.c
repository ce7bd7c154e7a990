// SPDX-License-Identifier: MIT
#include "agent/thread/counted.h"
#include "base/system/agent_map.h"
#include <errno.h>
#include <sys/mman.h>

#define SWITCHES_BYTES 4096

static const volatile uint32_t never[LIVE_EVENTS];
const volatile uint32_t *counted_switches = never;
__thread uintptr_t counted_frame;
ref_t counted_without_context;

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

int counted_switch_on(enum live_event event, enum counted_mode mode)
{
    static uint32_t *switches;
    const struct live_thread *record = thread_current ? thread_current->record : NULL;
    if (!record)
        return -ENOSPC;
    if (!switches && !(switches = counted_map(SWITCHES_BYTES)))
        return -ENOMEM;
    counted_without_context =
        tree_unplaced(&agent.arena, record->tree, tree_root(&agent.arena, record->tree));
    counted_frame = 0;
    counted_switches = switches;
    // Release: a reader that finds it on also finds all that the event needs.
    __atomic_store_n(&switches[event], mode, __ATOMIC_RELEASE);
    return 0;
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
