// SPDX-License-Identifier: MIT
// Start and end of the tracker and of its threads.

#include "track/encode/threads/threads.h"
#include "base/now.h"
#include "base/system/agent_map.h"
#include "track/encode/sites/call_graph.h"
#include "track/encode/sites/libraries.h"
#include "track/encode/threads/epoch.h"
#include "track/encode/threads/exceptions.h"
#include "track/encode/threads/lock.h"
#include <errno.h>
#include <sys/mman.h>

void calls_vector_start(void); // what there is to save of vector state

struct encode encode;
__thread struct encode_thread *encode_current;

// The slow path of a hook takes up to 10 kB of the stack: threads with less than this are walked.
#define SMALLEST_STACK (256 << 10)

static __thread bool forks; // and has the lock for it

int encode_start(struct live_encode *counts, const struct live_options *options)
{
    int error = sites_start();
    if (error)
        return error;
    encode.counts = counts;
    encode.verify = options->verify;
    encode.reencode_always = options->reencode_always;
    encode.by = (enum live_by)options->encode_by;
    encode.pool = (struct pool){.map = agent_map, .unmap = agent_unmap, .piece = 1 << 16};
    encode.policy = (struct reencode_policy)POLICY_DEFAULT;
    graph_init(&encode.graph, &encode.pool);
    const struct numbering_options numbering = {.id_bits = ID_NUMBER_BITS};
    error = numbering_make(&encode.numbering, &encode.graph, &numbering);
    if (!error)
        error = encode_graph_start();
    if (error)
        return error;
    struct numbering first = encode.numbering;
    if (encode_start_epochs() || !encode_publish(&first))
        return -ENOMEM;
    encode.encoded_at = encode.cooled_at = now_ns(CLOCK_MONOTONIC);
    encode_watch_unwinders();
    calls_vector_start();
    unwind_truth = sites_truth;
    encode_watch_loader();
    encode.started = true;
    return 0;
}

static struct encode_thread *new_thread(void)
{
    struct encode_thread *thread = agent_map(sizeof *thread);
    // A child that the agent does not know of must not hand out handles of its parent.
    if (!thread || !madvise(thread->confirmed.one, sizeof thread->confirmed.one, MADV_WIPEONFORK))
        return thread;
    agent_unmap(thread, sizeof *thread);
    return NULL;
}

struct encode_thread *encode_open(uintptr_t root, struct unwind_bounds stack)
{
    struct encode_state *state = &encode_state;
    uint64_t mask;
    if (!encode.started || state->thread || stack.high - stack.low < SMALLEST_STACK)
        return state->thread;
    if (!encode_lock_patiently(&mask))
        return NULL;
    struct encode_thread *thread = new_thread();
    uint32_t function = thread ? encode_instrument(root) : GRAPH_NONE;
    if (function == GRAPH_NONE) {
        if (thread)
            agent_unmap(thread, sizeof *thread);
        thread = NULL;
    } else {
        thread->stack = stack;
        thread->root = graph_function(&encode.graph, function)->entry;
        thread->state = state;
        state->stack_low = stack.low;
        state->stack_bytes = stack.high - stack.low;
        state->context = (struct context_state){
            .stack = thread->entries, .limit = ENCODE_STACK, .root = function};
        state->validity = STATE_VALID;
        state->jump = (struct encode_unknown_jump){0};
        atomic_signal_fence(memory_order_seq_cst);
        state->thread = encode_current = thread;
        thread->next = encode.threads;
        encode.threads = thread;
        encode_join(thread);
        context_reset(&state->context, encode_first_id(thread->epoch, state->context.root));
        // The first hook finds where the root's return address lies: without it, no number counts.
        encode_take_slow_path(state);
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
    agent_unmap(thread, sizeof *thread);
}

void encode_close(struct encode_thread *thread)
{
    static struct encode_state ended;
    struct encode_state *state = &encode_state;
    uint64_t mask;
    if (!thread || state->thread != thread)
        return;
    const bool locked = encode_lock_patiently(&mask);
    state->thread = encode_current = NULL;
    state->stack_bytes = 0;
    // From here on calls are only counted.
    encode_detach_words(state);
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

void encode_expect_threads(void)
{
    encode.threaded = true;
}

void encode_before_fork(void)
{
    // Without the lock, the child finds it as it is, held by nobody that is there: it does not
    // touch what another thread may have left half done.
    forks = encode.started && encode_lock_for_libc();
}

void encode_after_fork_in_parent(void)
{
    if (forks)
        encode_unlock_for_libc();
    forks = false;
}

void encode_after_fork(struct live_encode *counts)
{
    static struct live_encode discarded;
    if (!encode.started)
        return;
    const bool held = forks;
    forks = false;
    for (struct encode_thread *thread = encode.threads, *next; thread; thread = next) {
        next = thread->next;
        if (held && thread != encode_current)
            forget_thread(thread);
    }
    encode.counts = counts ? counts : &discarded;
    encode_count_graph();
    encode_break_lock(held);
}

void encode_doubt_state(void)
{
    if (!encode_state.thread)
        return;
    if (encode_state.validity < STATE_STALE)
        encode_state.validity = STATE_STALE;
    encode_take_slow_path(&encode_state);
}
