// SPDX-License-Identifier: MIT
// longjmp() takes frames away without a return: the state becomes that of where it lands, before.

#include "track/encode/threads/epoch.h"
#include "track/encode/threads/lock.h"
#include "track/encode/threads/state_from_stack.h"
#include "unwind/arch.h"

// The state is known to be that of the stack.
static bool is_settled(const struct encode_thread *thread, uintptr_t sp)
{
    const struct encode_state *state = thread->state;
    return state->validity == STATE_VALID && !state->context.over && !encode_is_behind(thread) &&
           !encode_is_below_jump(state, sp);
}

// Before a jump from the caller at pc, whose stack pointer is sp: as it was the last time.
static bool land_again(struct encode_thread *thread, const struct encode_landing *landing)
{
    struct context_state *context = &thread->state->context;
    if (landing->depth > context->depth)
        return false;
    thread->jump_sp = landing->sp;
    thread->jumping = true;
    // A handler that comes from here on sees that no number means anything.
    atomic_signal_fence(memory_order_seq_cst);
    if (landing->depth)
        context->stack[landing->depth - 1].count = landing->count;
    __atomic_store_n(&context->depth, landing->depth, __ATOMIC_RELAXED);
    atomic_signal_fence(memory_order_seq_cst);
    context->id = landing->id;
    return true;
}

static struct encode_landing landing_now(const struct encode_thread *thread, uint64_t key,
                                         uintptr_t sp, uintptr_t goal)
{
    const struct context_state *context = &thread->state->context;
    const uint32_t depth = context->depth;
    return (struct encode_landing){.key = key,
                                   .sp = sp,
                                   .goal = goal,
                                   .id = context->id,
                                   .depth = depth,
                                   .count = depth ? context->stack[depth - 1].count : 0,
                                   .stamp = thread->state->stamp,
                                   .unloads =
                                       atomic_load_explicit(&encode.unloads, memory_order_relaxed),
                                   .known = true};
}

void encode_jump(const void *buffer, const void *frame)
{
    struct encode_thread *thread = encode_current;
    uint64_t mask;
    if (!thread)
        return;
    const struct caller_registers caller = unwind_caller_of(frame);
    const uintptr_t sp = caller.sp, goal = arch_jump_goal(buffer);
    // Of the thread's own stack, what lies above the goal is there for sure, if we are elsewhere.
    const bool own = sp >= thread->stack.low && sp < thread->stack.high;
    const bool settled = own && !thread->busy && is_settled(thread, sp);
    const uint32_t stamp = thread->state->stamp;
    const uint64_t key = settled ? context_key(&thread->state->context, caller.pc) : 0;
    struct encode_landing *known = &thread->landings[key % ENCODE_LANDINGS];
    if (settled && known->known && known->key == key && known->sp == sp && known->goal == goal &&
        known->stamp == stamp &&
        known->unloads == atomic_load_explicit(&encode.unloads, memory_order_relaxed) &&
        land_again(thread, known))
        return;
    if (!encode_lock(thread, &mask)) {
        encode_doubt_state();
        return;
    }
    struct unwind_cursor cursor;
    unwind_start_here(&cursor, &caller,
                      (struct unwind_bounds){own ? sp : goal, thread->stack.high});
    const bool walked =
        goal >= thread->stack.low && goal < thread->stack.high && encode_walk(thread, &cursor);
    if (walked && own) // a state in doubt would make each jump come this way
        encode_resync(thread, goal);
    else if (walked)
        encode_compute_state(thread, goal);
    else
        encode_doubt_state();
    thread->jump_sp = own ? sp : goal;
    thread->jumping = true;
    // By another encoding, the state before was another one, too.
    if (settled && is_settled(thread, sp) && stamp == thread->state->stamp)
        *known = landing_now(thread, key, sp, goal);
    encode_unlock(thread, &mask);
}
