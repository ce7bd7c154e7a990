// SPDX-License-Identifier: MIT
// Start and end of the tracker and of its threads, and the lock.

#include "base/agent_map.h"
#include "base/lock.h"
#include "base/signal_mask.h"
#include "loadmap/loadmap.h"
#include "track/encode/encode_parts.h"
#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void calls_vector_start(void); // what there is to save of vector state

struct encode encode;
__thread struct encode_thread *encode_current;

// The long way of a hook takes up to 10 kB of the stack: threads with less than this are walked.
#define SMALLEST_STACK (256 << 10)

static uint64_t read_clock(clockid_t clock)
{
    struct timespec now;
    syscall(SYS_clock_gettime, clock, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

uint64_t encode_now(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

uint64_t encode_cpu_now(void)
{
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

// ---- the lock: nobody is interrupted by a handler of the program while he holds it

static struct lock lock;
// A thread forks or unloads a library, holding the lock, and waits for locks of libc: who has one
// of these must not wait for ours. Written by the holder; relaxed: others ask until they see it.
static _Atomic bool held_in_libc;
static __thread bool forks; // and has the lock for it

static void let_signals_come(struct encode_thread *thread, const uint64_t *mask)
{
    signal_mask_release(mask);
    atomic_signal_fence(memory_order_seq_cst);
    if (thread)
        thread->busy = false;
}

bool encode_lock(struct encode_thread *thread, uint64_t *mask)
{
    if (lock_is_mine(&lock))
        return false;
    if (thread)
        thread->busy = true; // for the sample that comes from here on
    atomic_signal_fence(memory_order_seq_cst);
    signal_mask_hold(mask); // a sample that comes sees that the thread is busy
    if (thread)
        thread->busy = true; // again: a handler that came meanwhile may have been, and is not now
    if (!lock_take_unless(&lock, &held_in_libc))
        return true;
    let_signals_come(thread, mask);
    return false;
}

void encode_unlock(struct encode_thread *thread, const uint64_t *mask)
{
    lock_release(&lock);
    let_signals_come(thread, mask);
}

bool encode_hold_lock(void)
{
    const bool taken = !lock_take(&lock);
    if (taken)
        atomic_store_explicit(&held_in_libc, true, memory_order_relaxed);
    return taken;
}

void encode_let_go_of_lock(void)
{
    atomic_store_explicit(&held_in_libc, false, memory_order_relaxed);
    lock_release(&lock);
}

bool encode_try_lock(void)
{
    return lock_try(&lock);
}

void encode_give_up_lock(void)
{
    lock_release(&lock);
}

// In a thread that begins or ends, and holds no lock of libc: waits for one that forks, too. False:
// there is nobody to wait for.
static bool lock_and_wait(uint64_t *mask)
{
    struct patience patience = {0};
    while (!encode_lock(NULL, mask))
        if (!patience_lasts(&patience))
            return false;
    return true;
}

// ---- start and end

// A return address that is in a stub, or a thread that is: what the program would have there.
static enum unwind_standing truth(uintptr_t *pc, uintptr_t *sp, bool *interrupted)
{
    struct stub_place place;
    if (!sites_locate(*pc, &place))
        return UNWIND_AS_IT_IS;
    *pc = place.pc;
    if (place.pushed)
        *sp += sizeof(uintptr_t);
    if (place.pc != place.site->address)
        return UNWIND_ELSEWHERE;
    *interrupted = true; // in the hook before the call
    return UNWIND_AT_CALL;
}

int encode_start(struct live_encode *counts, const struct live_options *options)
{
    int error = sites_start();
    if (error)
        return error;
    encode.counts = counts;
    encode.verify = options->verify;
    encode.restless = options->restless;
    encode.by = (enum live_by)options->encode_by;
    encode.pool = (struct pool){.map = agent_map_map, .unmap = agent_map_unmap, .piece = 1 << 16};
    encode.policy = (struct policy)POLICY_DEFAULT;
    graph_init(&encode.graph, &encode.pool);
    const struct numbering_options numbering = {.id_bits = ID_BITS};
    error = numbering_start(&encode.numbering, &encode.graph, &numbering);
    if (!error)
        error = encode_graph_start();
    if (error)
        return error;
    struct numbering first = encode.numbering;
    if (encode_start_epochs() || !encode_publish(&first))
        return -ENOMEM;
    encode.encoded_at = encode.cooled_at = encode_now();
    encode_watch_unwinders();
    calls_vector_start();
    unwind_truth = truth;
    encode_watch_loader();
    encode.started = true;
    return 0;
}

struct encode_thread *encode_open(uintptr_t root, struct unwind_bounds stack)
{
    struct encode_state *state = &encode_state;
    uint64_t mask;
    if (!encode.started || state->thread || stack.high - stack.low < SMALLEST_STACK)
        return state->thread;
    if (!lock_and_wait(&mask))
        return NULL;
    struct encode_thread *thread = agent_map_map(sizeof *thread);
    uint32_t function = thread ? encode_meet(root) : GRAPH_NONE;
    if (function == GRAPH_NONE || numbering_cover(&encode.numbering)) {
        if (thread)
            agent_map_unmap(thread, sizeof *thread);
        thread = NULL;
    } else {
        graph_set_root(&encode.graph, function);
        thread->stack = stack;
        thread->root = graph_function(&encode.graph, function)->entry;
        thread->state = state;
        state->stack_low = stack.low;
        state->stack_bytes = stack.high - stack.low;
        state->context = (struct context_state){
            .stack = thread->entries, .limit = ENCODE_STACK, .root = function};
        state->attention = state->doubt = state->in_flight = 0;
        state->jump = (struct encode_unknown_jump){0};
        atomic_signal_fence(memory_order_seq_cst);
        state->thread = encode_current = thread;
        thread->next = encode.threads;
        encode.threads = thread;
        encode_join(thread);
    }
    encode_count_graph();
    encode_unlock(NULL, &mask);
    return thread;
}

static void forget_thread(struct encode_thread *thread)
{
    struct encode_thread **link = &encode.threads;
    while (*link && *link != thread)
        link = &(*link)->next;
    if (*link)
        *link = thread->next;
    encode_leave(thread);
    agent_map_unmap(thread, sizeof *thread);
}

void encode_close(struct encode_thread *thread)
{
    static struct encode_state ended;
    struct encode_state *state = &encode_state;
    uint64_t mask;
    if (!thread || state->thread != thread)
        return;
    const bool locked = lock_and_wait(&mask);
    state->thread = encode_current = NULL;
    state->stack_bytes = 0;
    // From here on calls are only counted.
    encode_forget_words(state);
    state->context.limit = 0;
    state->context.depth = 0;
    atomic_signal_fence(memory_order_seq_cst);
    state->context.stack = NULL;
    if (locked) {
        forget_thread(thread);
        encode_unlock(NULL, &mask);
    } else {
        thread->state = &ended; // it stays in the list, and its own state goes with the thread
    }
}

// Whether libc has made a thread, told of or not.
static bool has_threads(void)
{
    extern char __libc_single_threaded __attribute__((weak)); // in glibc 2.32 and later
    return &__libc_single_threaded && !__libc_single_threaded;
}

enum company encode_company(void)
{
    encode.company |= has_threads(); // there may be some that nobody has told of
    return encode.company ? COMPANY_THREADS : COMPANY_NONE;
}

void encode_expect_threads(void)
{
    encode.company = true;
}

void encode_before_fork(void)
{
    // Without the lock, the child finds it as it is, held by nobody that is there: it does not
    // touch what another thread may have left half done.
    forks = encode.started && encode_hold_lock();
}

void encode_after_fork_in_parent(void)
{
    if (forks)
        encode_let_go_of_lock();
    forks = false;
}

void encode_after_fork(struct live_encode *counts)
{
    static struct live_encode nowhere;
    if (!encode.started)
        return;
    const bool held = forks;
    forks = false;
    atomic_store_explicit(&held_in_libc, false, memory_order_relaxed);
    for (struct encode_thread *thread = encode.threads, *next; thread; thread = next) {
        next = thread->next;
        if (held && thread != encode_current)
            forget_thread(thread);
    }
    encode.counts = counts ? counts : &nowhere;
    encode_count_graph();
    if (held)
        lock_break(&lock);
}

// libc keeps it disguised.
static uintptr_t jump_goal(const void *buffer)
{
    uintptr_t guard, goal = ((const uintptr_t *)buffer)[6];
    __asm__("movq %%fs:0x30, %0" : "=r"(guard));
    return (goal >> 17 | goal << 47) ^ guard;
}

// The state is known to be that of the stack.
static bool is_settled(const struct encode_thread *thread, uintptr_t sp)
{
    const struct encode_state *state = thread->state;
    return !state->doubt && !state->attention && !state->context.over &&
           !encode_is_behind(thread) && !encode_is_below_jump(state, sp);
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
                                   .stamp = thread->epoch->dictionary->stamp,
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
    const uintptr_t *words = frame, sp = (uintptr_t)(words + 2), goal = jump_goal(buffer);
    // Of the thread's own stack, what lies above the goal is there for sure, if we are elsewhere.
    const bool own = sp >= thread->stack.low && sp < thread->stack.high;
    const bool settled = own && !thread->busy && is_settled(thread, sp);
    const uint64_t key = settled ? encode_key(&thread->state->context, words[1]) : 0;
    struct encode_landing *known = &thread->landings[key % ENCODE_LANDINGS];
    if (settled && known->known && known->key == key && known->sp == sp && known->goal == goal &&
        known->stamp == thread->epoch->dictionary->stamp &&
        known->unloads == atomic_load_explicit(&encode.unloads, memory_order_relaxed) &&
        land_again(thread, known))
        return;
    if (!encode_lock(thread, &mask)) {
        encode_distrust();
        return;
    }
    struct unwind_cursor cursor;
    unwind_start_here(&cursor, words[1], sp, words[0],
                      (struct unwind_bounds){own ? sp : goal, thread->stack.high});
    if (goal >= thread->stack.low && goal < thread->stack.high && encode_walk(thread, &cursor))
        encode_replay(thread, goal);
    else
        encode_distrust();
    thread->jump_sp = own ? sp : goal;
    thread->jumping = true;
    if (settled && is_settled(thread, sp))
        *known = landing_now(thread, key, sp, goal);
    encode_unlock(thread, &mask);
}

void encode_distrust(void)
{
    if (!encode_state.thread)
        return;
    encode_state.attention = encode_state.doubt = 1;
    encode_notice(&encode_state);
}
