// SPDX-License-Identifier: MIT
// What a hook does, and encoding anew.

#include "loadmap/loadmap.h"
#include "track/encode_parts.h"
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void calls_vector_start(void); // what there is to save of vector state

struct encode encode;
__thread struct encode_state encode_state;
__thread struct encode_thread *encode_current;
__thread uint32_t encode_in_handler;

// From a stub's address, and the target of an indirect call, to the edge: one word, so that threads
// need no lock. Its upper part is that of the hash, then the edge, and whether it repeats.
#define TABLE_BITS 16
#define EDGE_BITS 23
_Atomic uint64_t encode_table[1 << TABLE_BITS];

// The short way knows where things are.
_Static_assert(offsetof(struct encode, base) == 0 && offsetof(struct encode, wanted) == 8, "");
_Static_assert(offsetof(struct encode_state, stack_low) == 88, "");
_Static_assert(offsetof(struct encode_state, countdown) == 104, "");

static uint64_t mix(uintptr_t stub, uintptr_t target)
{
    uint64_t hash = (stub ^ target * UINT64_C(0xff51afd7ed558ccd)) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

bool encode_before_known(uintptr_t stub, uintptr_t target, uintptr_t sp);
void encode_before_slow(uintptr_t stub, uintptr_t target, uintptr_t sp, uintptr_t bp);

// On the stack of a coroutine, or of a signal's handler, of which nobody knows how small it is; or
// in a thread that is not known.
static bool is_elsewhere(const struct encode_thread *thread, uintptr_t sp)
{
    return !thread || sp - thread->stack.low >= thread->stack.high - thread->stack.low;
}

bool encode_before_known(uintptr_t stub, uintptr_t target, uintptr_t sp)
{
    struct encode_state *state = &encode_state;
    if (encode_in_handler || is_elsewhere(state->thread, sp)) {
        encode_push(state, GRAPH_NONE, false);
        return true;
    }
    const uint64_t hash = mix(stub, target);
    // Relaxed: the word is all there is.
    const uint64_t word =
        atomic_load_explicit(&encode_table[hash & ((1 << TABLE_BITS) - 1)], memory_order_relaxed);
    if ((word ^ hash) >> (EDGE_BITS + 1) || !word ||
        (state->attention && !(state->in_flight && sp < state->throw_sp)) ||
        atomic_load_explicit(&encode.wanted, memory_order_relaxed))
        return false;
    const uint32_t edge = (uint32_t)(word >> 1) & ((1 << EDGE_BITS) - 1);
    if (state->countdown < 0)
        encode_count_push(state, edge);
    encode_push(state, edge, word & 1);
    return true;
}

static void remember(uintptr_t stub, uintptr_t target, uint32_t edge)
{
    const uint64_t hash = mix(stub, target);
    if (edge >> EDGE_BITS)
        return;
    const uint64_t word =
        hash >> (EDGE_BITS + 1) << (EDGE_BITS + 1) | (uint64_t)edge << 1 | encode_repeats(edge);
    atomic_store_explicit(&encode_table[hash & ((1 << TABLE_BITS) - 1)], word,
                          memory_order_relaxed);
}

static uint64_t now_ns(void)
{
    struct timespec now;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

// ---- the lock: nobody is interrupted by a handler of the program while he holds it

static _Atomic uintptr_t owner;

static bool take_lock(struct encode_thread *thread, uint64_t *mask)
{
    const uintptr_t self = (uintptr_t)__builtin_thread_pointer();
    // Ours stay: a sample that comes sees that the thread is busy.
    const uint64_t all = ~(UINT64_C(1) << (SIGTRAP - 1) | UINT64_C(1) << (SIGSTKFLT - 1) |
                           UINT64_C(1) << (SIGSEGV - 1) | UINT64_C(1) << (SIGBUS - 1));
    if (atomic_load_explicit(&owner, memory_order_relaxed) == self)
        return false;
    if (thread)
        thread->busy = true; // for the sample that comes from here on
    atomic_signal_fence(memory_order_seq_cst);
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, &all, mask, sizeof all);
    for (;;) {
        uintptr_t nobody = 0;
        if (atomic_compare_exchange_weak_explicit(&owner, &nobody, self, memory_order_acquire,
                                                  memory_order_relaxed))
            return true;
        syscall(SYS_sched_yield);
    }
}

static void give_lock(struct encode_thread *thread, const uint64_t *mask)
{
    atomic_store_explicit(&owner, 0, memory_order_release);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, mask, NULL, sizeof *mask);
    atomic_signal_fence(memory_order_seq_cst);
    if (thread)
        thread->busy = false;
}

// ---- encoding anew

// The long way of a hook takes up to 10 kB of the stack: threads with less than this are walked.
#define SMALLEST_STACK (256 << 10)
#define UNWINDING_MOST 1000 // calls, where nobody tells that an exception was caught
#define CHANGES 512
static struct site_change changes[CHANGES];
static size_t change_count;

static void apply_changes(void)
{
    if (change_count && sites_apply(changes, change_count, COMPANY_NONE))
        encode.failed = true;
    change_count = 0;
}

static void lead_sites(void)
{
    struct encode_site *site;
    for (uint32_t i = 0; (site = encode_site_number(i)); i++) {
        struct stub *stub = encode_stub_for(site);
        if (stub == atomic_load(&site->site->stub))
            continue;
        changes[change_count++] = (struct site_change){site->site, stub};
        if (change_count == CHANGES)
            apply_changes();
    }
    apply_changes();
    if (sites_flush())
        encode.failed = true;
}

// The stack was walked. False: no memory, nothing has changed.
static bool renumber(struct encode_thread *thread)
{
    struct numbering_options options = encode.numbering.options;
    struct numbering next;
    options.stamp++;
    encode_choose_arms();
    if (numbering_make(&next, &encode.graph, &options))
        return false;
    struct dictionary *old = encode.numbering.dictionary;
    numbering_free(&encode.numbering);
    encode.numbering = next;
    encode.base = dictionary_base(next.dictionary);
    dictionary_free(&encode.graph, old);
    for (size_t i = 0; i < 1 << TABLE_BITS; i++)
        atomic_store_explicit(&encode_table[i], 0, memory_order_relaxed);
    lead_sites();
    encode_move_returns(thread);
    encode_replay(thread, 0);
    return true;
}

static void reencode(struct encode_thread *thread, enum reencode reason)
{
    const uint64_t begin = now_ns();
    struct policy_counters *counters = &encode.policy_counters;
    if (thread->has_signal || thread->has_gap || !renumber(thread))
        return;
    policy_encoded(&encode.policy, reason, counters);
    graph_cool(&encode.graph);
    const uint64_t end = now_ns();
    *counters = (struct policy_counters){.edges_encoded = encode.graph.edge_count,
                                         .last_cost = end - begin};
    encode.encoded_at = end;
    encode.counts->reencodings++;
    encode.counts->reencode_ns += end - begin;
    thread->before_count = 0;
}

static enum reencode decide(void)
{
    struct policy_counters *counters = &encode.policy_counters;
    if (encode.frozen)
        return REENCODE_NOT;
    counters->edges = encode.graph.edge_count;
    counters->nanoseconds = now_ns() - encode.encoded_at;
    return policy_decide(&encode.policy, counters);
}

// ---- the long way of a hook

static bool walk_from(struct encode_thread *thread, const struct site *site, uintptr_t sp,
                      uintptr_t bp)
{
    struct unwind_cursor cursor;
    struct unwind_bounds stack = {sp, thread->stack.high};
    if (sp < thread->stack.low || sp >= thread->stack.high)
        return false;
    unwind_start_here(&cursor, site->address + site->length, sp, bp, stack);
    return encode_walk(thread, &cursor);
}

// Under the lock.
static void meet_call(struct encode_thread *thread, struct encode_site *site, uintptr_t stub,
                      uintptr_t target, uintptr_t sp, uintptr_t bp)
{
    struct encode_state *state = thread->state;
    const bool indirect = target != 0;
    if (!indirect)
        target = site->site->target ? site->site->target
                 : site->site->slot ? *(uintptr_t *)site->site->slot
                                    : 0;
    const bool lands = target && target == encode.catch_begin;
    const bool throws = target && (target == encode.throws[0] || target == encode.throws[1]);
    if (state->in_flight && (lands || --state->patience == 0))
        state->in_flight = state->patience ? state->in_flight - 1 : 0;
    const bool deeper = state->in_flight && sp < state->throw_sp;
    if (((state->attention && !deeper) || lands || !thread->root_slot) &&
        walk_from(thread, site->site, sp, bp))
        encode_replay(thread, 0);
    enum cover cover;
    uint32_t edge = target ? encode_edge(site, target) : GRAPH_NONE;
    if (numbering_cover(&encode.numbering, &cover))
        edge = GRAPH_NONE;
    const enum reencode reason = decide();
    if (reason != REENCODE_NOT && !encode.frozen && walk_from(thread, site->site, sp, bp))
        reencode(thread, reason);
    atomic_store_explicit(&encode.wanted, REENCODE_NOT, memory_order_relaxed);
    encode_count_graph();
    // Whatever the site leads to by now: this call returns to the hook, which pops.
    encode_push(state, edge, encode_repeats(edge));
    // Frames are left without a return, and cleaned up: until the exception has landed, each call
    // is met with a state that may be wrong.
    if (throws) {
        state->in_flight++;
        state->patience = UNWINDING_MOST;
        state->throw_sp = sp;
        state->attention = 1;
    }
    if (edge != GRAPH_NONE && !lands && !throws)
        remember(stub, indirect ? target : 0, edge);
}

void encode_before_slow(uintptr_t stub, uintptr_t target, uintptr_t sp, uintptr_t bp)
{
    const int saved_errno = errno;
    struct encode_state *state = &encode_state;
    struct encode_thread *thread = state->thread;
    struct stub_place place;
    uint64_t mask;
    struct encode_site *site =
        thread && sites_locate(stub, &place) ? encode_site_of(place.site) : NULL;
    if (!site || !take_lock(thread, &mask)) {
        encode_push(state, GRAPH_NONE, false);
        errno = saved_errno;
        return;
    }
    meet_call(thread, site, stub, target, sp, bp);
    give_lock(thread, &mask);
    errno = saved_errno;
}

bool encode_tail_known(uintptr_t stub, uintptr_t target, uintptr_t sp);
void encode_tail_slow(uintptr_t stub, uintptr_t target, uintptr_t sp);

bool encode_tail_known(uintptr_t stub, uintptr_t target, uintptr_t sp)
{
    const uint64_t hash = mix(stub, target);
    const uint64_t word =
        atomic_load_explicit(&encode_table[hash & ((1 << TABLE_BITS) - 1)], memory_order_relaxed);
    return (word && !((word ^ hash) >> (EDGE_BITS + 1))) || encode_in_handler ||
           is_elsewhere(encode_current, sp);
}

void encode_tail_slow(uintptr_t stub, uintptr_t target, uintptr_t sp)
{
    const int saved_errno = errno;
    struct encode_thread *thread = encode_current;
    struct stub_place place;
    uint64_t mask;
    struct encode_site *site =
        thread && sites_locate(stub, &place) ? encode_site_of(place.site) : NULL;
    if (site && take_lock(thread, &mask)) {
        enum cover cover;
        encode_tail(site, target);
        if (!numbering_cover(&encode.numbering, &cover))
            remember(stub, target, 0);
        // The root leaves: its return address is on top of the stack.
        if (!thread->root_slot && loadmap_place(site->site->function) == thread->root)
            thread->root_slot = sp;
        encode_count_graph();
        give_lock(thread, &mask);
    }
    errno = saved_errno;
}

// ---- start and end

static void *map(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static void unmap(void *memory, size_t bytes)
{
    munmap(memory, bytes);
}

// A return address that is in a stub, or a thread that is: what the program would have there.
static bool truth(uintptr_t *pc, uintptr_t *sp, bool *interrupted)
{
    struct stub_place place;
    if (!sites_locate(*pc, &place))
        return false;
    *pc = place.pc;
    if (place.pushed)
        *sp += sizeof(uintptr_t);
    if (place.pc == place.site->address) // in the hook before the call
        *interrupted = true;
    return true;
}

int encode_start(struct live_encode *counts, bool verify)
{
    int error = sites_start();
    if (error)
        return error;
    encode.counts = counts;
    encode.verify = verify;
    encode.pool = (struct pool){.map = map, .unmap = unmap, .piece = 1 << 16};
    encode.policy = (struct policy)POLICY_DEFAULT;
    graph_init(&encode.graph, &encode.pool);
    const struct numbering_options options = {.id_bits = 64, .chain_targets = UINT32_MAX};
    error = numbering_start(&encode.numbering, &encode.graph, &options);
    if (!error)
        error = encode_graph_start();
    if (error)
        return error;
    encode.base = dictionary_base(encode.numbering.dictionary);
    encode.encoded_at = now_ns();
    encode.catch_begin = (uintptr_t)dlsym(RTLD_DEFAULT, "__cxa_begin_catch");
    encode.throws[0] = (uintptr_t)dlsym(RTLD_DEFAULT, "__cxa_throw");
    encode.throws[1] = (uintptr_t)dlsym(RTLD_DEFAULT, "__cxa_rethrow");
    calls_vector_start();
    unwind_truth = truth;
    encode.started = true;
    return 0;
}

struct encode_thread *encode_open(uintptr_t root, struct unwind_bounds stack)
{
    struct encode_state *state = &encode_state;
    uint64_t mask;
    if (!encode.started || state->thread || stack.high - stack.low < SMALLEST_STACK ||
        !take_lock(NULL, &mask))
        return state->thread;
    struct encode_thread *thread = map(sizeof *thread);
    uint32_t function = thread ? encode_meet(root) : GRAPH_NONE;
    enum cover cover;
    if (function == GRAPH_NONE || numbering_cover(&encode.numbering, &cover)) {
        if (thread)
            unmap(thread, sizeof *thread);
        thread = NULL;
    } else {
        graph_set_root(&encode.graph, function);
        thread->stack = stack;
        thread->root = graph_function(&encode.graph, function)->entry;
        thread->state = state;
        state->stack_low = stack.low;
        state->stack_bytes = stack.high - stack.low;
        state->machine =
            (struct machine){.stack = thread->entries, .limit = ENCODE_STACK, .root = function};
        state->over = state->attention = 0;
        atomic_signal_fence(memory_order_seq_cst);
        state->thread = encode_current = thread;
    }
    encode_count_graph();
    give_lock(NULL, &mask);
    return thread;
}

void encode_close(struct encode_thread *thread)
{
    struct encode_state *state = &encode_state;
    if (!thread || state->thread != thread)
        return;
    state->thread = encode_current = NULL;
    state->stack_bytes = 0;
    // From here on calls are only counted.
    state->machine.limit = 0;
    state->machine.depth = 0;
    atomic_signal_fence(memory_order_seq_cst);
    state->machine.stack = NULL;
    unmap(thread, sizeof *thread);
}

void encode_freeze(void)
{
    if (encode.started && !encode.frozen) {
        encode.frozen = true;
        encode.counts->frozen = 1;
    }
}

void encode_after_fork(struct live_encode *counts)
{
    if (!encode.started)
        return;
    atomic_store_explicit(&owner, 0, memory_order_relaxed);
    sites_after_fork();
    encode.counts = counts;
    encode_count_graph();
}

// libc keeps it disguised.
static uintptr_t jump_goal(const void *buffer)
{
    uintptr_t guard, goal = ((const uintptr_t *)buffer)[6];
    __asm__("movq %%fs:0x30, %0" : "=r"(guard));
    return (goal >> 17 | goal << 47) ^ guard;
}

void encode_jump(const void *buffer, const void *frame)
{
    struct encode_thread *thread = encode_current;
    uint64_t mask;
    if (!thread || !take_lock(thread, &mask))
        return;
    struct unwind_cursor cursor;
    const uintptr_t *words = frame, sp = (uintptr_t)(words + 2), goal = jump_goal(buffer);
    // Of the thread's own stack, what lies above the goal is there for sure, if we are elsewhere.
    const bool own = sp >= thread->stack.low && sp < thread->stack.high;
    unwind_start_here(&cursor, words[1], sp, words[0],
                      (struct unwind_bounds){own ? sp : goal, thread->stack.high});
    if (goal >= thread->stack.low && goal < thread->stack.high && encode_walk(thread, &cursor))
        encode_replay(thread, goal);
    else
        thread->state->attention = 1;
    thread->jumping = true;
    give_lock(thread, &mask);
}

void encode_distrust(void)
{
    if (encode_state.thread)
        encode_state.attention = 1;
}
