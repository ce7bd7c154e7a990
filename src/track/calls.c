// SPDX-License-Identifier: MIT
#include "track/calls.h"
#include "loadmap/loadmap.h"
#include "patch/entries.h"
#include "patch/loader.h"
#include "track/caller.h"
#include "unwind/arch.h"
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#define MOST_CHUNKS 128 // of code that are rewritten at the begin and the end of each burst

__thread struct calls_thread *calls_current;

// Anyone adds; hooks compare. Relaxed: a hook that sees it late counts one call to a stale cursor.
__attribute__((visibility("hidden"))) _Atomic uint32_t calls_generation = 1;

_Static_assert(offsetof(struct calls_thread, memos) == 64 && sizeof(struct edge_memo) == 32 &&
                   offsetof(struct calls_thread, generation) == 32 &&
                   offsetof(struct edge_memo, edge) == 16 &&
                   offsetof(struct edge_memo, distance) == 20 &&
                   offsetof(struct edge_memo, rule) == 24 && CALLER_BY_SLOT == 1 &&
                   CALLER_BY_FP == 2 && offsetof(struct node, child) == 8,
               "calls_x86_64.S relies on the layout");

static _Atomic unsigned followed_threads;

// ---- the hook's longer ways; the short one is in calls_x86_64.S

void calls_count(struct calls_thread *calls, struct node *caller, uintptr_t slot, ref_t edge)
{
    ref_t child = shadow_child(calls, caller, edge);
    if (!child) // out of memory: the caller stands for it
        calls->stats->unplaced++;
    struct node *node = child ? shadow_node(calls, child) : caller;
    node->value[0] += calls->amount;
    shadow_push(calls, slot, node);
}

void calls_shut(struct calls_thread *calls)
{
    calls->span = 0;
    atomic_signal_fence(memory_order_seq_cst);
}

void calls_reopen(struct calls_thread *calls)
{
    atomic_signal_fence(memory_order_seq_cst);
    calls->span = calls->active->high - calls->active->low;
}

static bool on_stack(const struct calls_thread *calls, uintptr_t address)
{
    return shadow_holds(calls->active, address);
}

// The slot of the caller, as the memo of the call tells; 0: not known.
static uintptr_t caller_slot(const struct calls_thread *calls, const struct edge_memo *memo,
                             uintptr_t slot, uintptr_t bp)
{
    const uintptr_t distance = (uintptr_t)(intptr_t)memo->distance;
    switch (memo->rule) {
    case CALLER_BY_SLOT:
        return slot + distance;
    case CALLER_BY_FP:
        return bp + distance;
    case CALLER_LOADED:
        bp += (uintptr_t)(intptr_t)memo->inner;
        return bp > slot && bp % sizeof bp == 0 && on_stack(calls, bp)
                   ? *(const uintptr_t *)bp + distance
                   : 0;
    }
    const struct bridge *bridge = &calls->bridges[memo->site % BRIDGES];
    return bridge->site == memo->site && bridge->slot == slot && on_stack(calls, bridge->pier) &&
                   *(const uintptr_t *)bridge->pier == bridge->returns
               ? bridge->parent
               : 0;
}

// The edge is known, the node may be new. Touches no vector register: the function's arguments are
// in them.
__attribute__((visibility("hidden"))) bool
calls_enter_known(struct calls_thread *calls, uintptr_t *slot, uintptr_t back, uintptr_t bp)
{
    const uintptr_t address = (uintptr_t)slot;
    const struct edge_memo *memo = memo_of(calls, *slot, back);
    if (address - calls->low >= calls->span || memo->site != *slot || memo->back != back ||
        calls->generation != atomic_load_explicit(&calls_generation, memory_order_relaxed))
        return false;
    const uintptr_t wanted = caller_slot(calls, memo, address, bp);
    struct shadow_entry *caller = calls->top;
    while (caller->slot < wanted)
        caller--;
    if (caller->slot != wanted || wanted <= address)
        return false;
    calls_shut(calls);
    calls->top = caller;
    calls_count(calls, caller->node, address, memo->edge);
    calls_reopen(calls);
    if (!__atomic_load_n(&calls->missed_count, __ATOMIC_RELAXED))
        return true;
    calls->only_missed = true;
    return false;
}

// A signal's handler calls while the hook that it interrupted has closed the tree. Handlers nest:
// each takes its place first.
static void remember_missed(struct calls_thread *calls, uintptr_t *slot, uintptr_t back)
{
    unsigned place = __atomic_fetch_add(&calls->missed_count, 1, __ATOMIC_RELAXED);
    if (place < MISSED_CALLS)
        calls->missed[place] =
            (struct missed_call){.slot = (uintptr_t)slot, .site = *slot, .back = back};
    else
        calls->stats->lost++;
}

// Counts them, below the function whose hook it was.
static void count_missed(struct calls_thread *calls)
{
    unsigned done = 0, count = 0;
    do {
        for (; done < count && done < MISSED_CALLS; done++) {
            const struct missed_call call = calls->missed[done];
            while (calls->top->slot <= call.slot)
                calls->top--;
            if (on_stack(calls, call.slot))
                calls_count(calls, calls->top->node, call.slot,
                            memo_edge(calls, call.site, call.back, NULL));
            else
                calls->stats->lost++;
        }
    } while (!__atomic_compare_exchange_n(&calls->missed_count, &count, 0, false, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
}

void calls_reopen_and_settle(struct calls_thread *calls)
{
    calls_reopen(calls);
    while (__atomic_load_n(&calls->missed_count, __ATOMIC_RELAXED)) {
        calls_shut(calls);
        count_missed(calls);
        calls_reopen(calls);
    }
}

// Calls were not followed for a while: whatever entries there are, their functions may have ended.
static void forget_entries(struct calls_thread *calls)
{
    calls->own.top = calls->own.entries;
    for (unsigned i = 0; i < OTHER_STACKS; i++)
        calls->others[i].top = calls->others[i].entries;
    calls->top = calls->active->entries;
}

// Everything else. The caller has saved all registers.
__attribute__((visibility("hidden"))) void
calls_enter_unknown(struct calls_thread *calls, uintptr_t *slot, uintptr_t back, uintptr_t bp)
{
    const uintptr_t address = (uintptr_t)slot;
    if (!calls->span) {
        // Wiped: a child of a fork that nobody told us of. It is not followed.
        if (calls->stats)
            remember_missed(calls, slot, back);
        return;
    }
    const int saved = errno;
    if (calls->only_missed) { // the call itself is counted
        calls->only_missed = false;
        calls_reopen_and_settle(calls);
        errno = saved;
        return;
    }
    const bool same_stack = address - calls->low < calls->span;
    const uint32_t generation = atomic_load_explicit(&calls_generation, memory_order_relaxed);
    const bool missed = calls->generation != generation;
    calls_shut(calls);
    calls->generation = generation;
    if (same_stack || shadow_switch(calls, address)) {
        union unwind_recipe recipe;
        bool followed;
        if (missed)
            forget_entries(calls);
        struct node *caller = caller_find(calls, slot, back, bp, &recipe, &followed);
        ref_t edge = memo_edge(calls, *slot, back, followed ? &recipe : NULL);
        calls_count(calls, caller, address, edge);
    }
    calls_reopen_and_settle(calls);
    errno = saved;
}

// ---- life

// In calls_x86_64.S.
void calls_enter(void);
void calls_vector_start(void);

static void on_libraries_changed(void)
{
    const int saved = errno;
    entries_find_new();
    errno = saved;
}

int64_t calls_start(void)
{
    uint64_t skipped = 0;
    calls_vector_start();
    caller_start((uintptr_t)calls_enter);
    int64_t found = entries_find(calls_enter, &skipped);
    if (found < 0)
        return found;
    int error = entries_switch(true, true);
    if (!error)
        loader_watch(on_libraries_changed); // without it, what comes later is not followed
    return error ? error : found;
}

void calls_note_unload(void)
{
    atomic_fetch_add_explicit(&calls_generation, 1, memory_order_relaxed);
}

void calls_switch(bool on)
{
    if (on)
        atomic_fetch_add_explicit(&calls_generation, 1, memory_order_relaxed);
    // Taking every hook out costs a moment, leaving them in a little at every call.
    if (entries_chunks() > MOST_CHUNKS)
        entries_relay(on);
    else
        entries_switch(on, atomic_load_explicit(&followed_threads, memory_order_relaxed) == 1);
}

struct node *calls_find_cursor(struct calls_thread *calls, const void *ucontext)
{
    if (!calls->span) // inside of the tree: the hook that was interrupted will do
        return NULL;
    const uintptr_t sp =
        *(const uintptr_t *)((const char *)ucontext + arch_context_offset(ARCH_SP));
    if (!shadow_holds(calls->active, sp))
        return NULL;
    calls_shut(calls);
    struct unwind_cursor cursor;
    struct unwind_bounds own = {.low = shadow_holds(&calls->own, sp) ? sp : calls->own.low,
                                .high = calls->own.high};
    unwind_start(&cursor, ucontext, own);
    caller_resync(calls, &cursor);
    calls->generation = atomic_load_explicit(&calls_generation, memory_order_relaxed);
    calls_reopen(calls);
    return calls->top->node;
}

int calls_open(struct calls_thread *calls, struct arena *arena, ref_t tree,
               struct live_stats *stats, struct unwind_bounds stack)
{
    memset(calls, 0, sizeof *calls);
    calls->arena = arena;
    calls->tree = tree;
    calls->stats = stats;
    // The child of a fork that we are not told of must not write to its parent's tree.
    madvise(calls, sizeof *calls, MADV_WIPEONFORK);
    calls->generation = atomic_load_explicit(&calls_generation, memory_order_relaxed);
    calls->map_generation = loadmap_generation();
    calls->amount = 1;
    calls->base = arena->base;
    if (!shadow_open(calls, &calls->own, stack.low, stack.high))
        return -ENOMEM;
    shadow_activate(calls, &calls->own, calls->own.entries);
    calls_reopen(calls);
    atomic_fetch_add_explicit(&followed_threads, 1, memory_order_relaxed);
    return 0;
}

void calls_close(struct calls_thread *calls)
{
    if (calls->own.entries)
        atomic_fetch_sub_explicit(&followed_threads, 1, memory_order_relaxed);
    shadow_close(&calls->own);
    for (unsigned i = 0; i < OTHER_STACKS; i++)
        shadow_close(&calls->others[i]);
}

ref_t calls_sample(struct calls_thread *calls, const void *ucontext)
{
    if (!calls->span)
        return 0;
    uintptr_t pc;
    ref_t frame = shadow_ref(calls, caller_of_sample(calls, ucontext, &pc));
    ref_t edge = tree_edge(calls->arena, calls->tree, loadmap_place(pc), 0);
    ref_t statement = tree_child(calls->arena, calls->tree, frame, edge);
    if (statement)
        return statement;
    calls->stats->unplaced++;
    return tree_unplaced(calls->arena, calls->tree, frame);
}
