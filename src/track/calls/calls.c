// SPDX-License-Identifier: MIT
#include "track/calls/calls.h"
#include "base/system/agent_map.h"
#include "loadmap/loadmap.h"
#include "patch/entries/entries.h"
#include "patch/transaction.h"
#include "track/calls/bursts/burst.h"
#include "track/calls/call_sites.h"
#include "track/calls/deferred_calls.h"
#include "track/calls/find_caller.h"
#include "track/walk/prefault.h"
#include "track/walk/walk.h"
#include "unwind/arch.h"
#include "unwind/stack.h"
#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>

__thread struct calls_thread *calls_current;

// Anyone adds; hooks compare. Relaxed: a hook that sees it late counts one call to a stale cursor.
__attribute__((visibility("hidden"))) _Atomic uint32_t calls_generation = 1;

static _Atomic unsigned followed_threads;

bool calls_in_bursts;

// ---- the hook's longer ways; the short one is in calls_x86_64.S

// One call more on the child of the caller by that edge, which is the node of the slot then. NULL:
// there was no memory, and the caller stands for it.
static struct node *count_call(struct calls_thread *calls, struct node *caller, uintptr_t slot,
                               ref_t edge)
{
    const bool plain = !calls->folds && !calls->beside;
    prefault_look(calls->arena);
    ref_t child =
        plain ? tree_call(calls->arena, calls->tree, shadow_ref(calls, caller), edge, calls->amount)
              : shadow_child(calls, caller, edge);
    if (!child) // out of memory: the caller stands for it
        calls->stats->unplaced++;
    struct node *node = child ? shadow_node(calls, child) : caller;
    if (!plain || !child)
        shadow_charge(calls, node);
    shadow_enter(calls, slot, node);
    return child ? node : NULL;
}

uintptr_t calls_shut(struct calls_thread *calls, uintptr_t slot)
{
    // First: a handler that finds the tree shut must find whose hook it was, or it takes an older
    // one for it, and that for abandoned. Handlers that come in between leave what they have found.
    const uintptr_t before = calls->shut_slot;
    calls->shut_slot = slot;
    atomic_signal_fence(memory_order_seq_cst);
    calls->generation = 0;
    atomic_signal_fence(memory_order_seq_cst);
    return before;
}

void calls_reopen(struct calls_thread *calls, uintptr_t before)
{
    atomic_signal_fence(memory_order_seq_cst);
    calls->generation = calls->open_generation;
    atomic_signal_fence(memory_order_seq_cst);
    calls->shut_slot = before;
}

static bool is_shut(const struct calls_thread *calls)
{
    return calls->generation == 0;
}

static bool on_stack(const struct calls_thread *calls, uintptr_t address)
{
    return shadow_holds(calls->active, address);
}

// The slot of the caller, by the memo of the call; 0: not known.
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
    return 0;
}

// Counts a call whose edge the memo knows. The tree is shut: a handler's calls would change memos.
static bool enter_by_memo(struct calls_thread *calls, uintptr_t *slot, uintptr_t back, uintptr_t bp)
{
    const uintptr_t address = (uintptr_t)slot;
    const struct edge_memo *memo = memo_of(calls, *slot, back);
    if (memo->site != *slot || memo->back != back)
        return false;
    struct known_call call = {.slot = slot,
                              .back = back,
                              .bp = bp,
                              .rule = memo->rule,
                              .noticed = true,
                              .caller_slot = caller_slot(calls, memo, address, bp)};
    if (call.caller_slot <= address || !on_stack(calls, call.caller_slot))
        return false;
    call.caller = shadow_at(calls, shadow_cell(calls->active, call.caller_slot));
    // It was entered when calls were not followed, or unnoticed.
    if (!call.caller || (memo->caller && shadow_edge(calls, call.caller)->function != memo->caller))
        return false;
    const ref_t caller = shadow_ref(calls, call.caller);
    __builtin_prefetch(call_cache_place_of_node(calls, caller, memo->edge), 1);
    struct node *child = count_call(calls, call.caller, address, memo->edge);
    if (child)
        call_cache_keep(calls, &call, child);
    return true;
}

// The next step of calls_x86_64.S after the search for the edge.
enum known { KNOWN_NOT, KNOWN, KNOWN_SETTLE };

// The edge is known, the node may be new. Touches no vector register: the function's arguments are
// in them.
__attribute__((visibility("hidden"))) enum known
calls_enter_known(struct calls_thread *calls, uintptr_t *slot, uintptr_t back, uintptr_t bp)
{
    if (calls->generation != atomic_load_explicit(&calls_generation, memory_order_relaxed) ||
        !on_stack(calls, (uintptr_t)slot))
        return calls_in_bursts && burst_passes(calls) ? KNOWN : KNOWN_NOT;
    const uintptr_t before = calls_shut(calls, (uintptr_t)slot);
    const bool known = enter_by_memo(calls, slot, back, bp);
    calls_reopen(calls, before);
    if (!known)
        return KNOWN_NOT;
    return deferred_calls_any(calls) ? KNOWN_SETTLE : KNOWN;
}

// Counts the call of a function whose caller a walk must find.
static void enter_by_walk(struct calls_thread *calls, uintptr_t *slot, uintptr_t back, uintptr_t bp)
{
    union unwind_recipe recipe;
    struct known_call call = {.slot = slot, .back = back, .bp = bp};
    const bool followed = caller_find(calls, &call, &recipe);
    if (call.ours)
        return;
    ref_t edge = memo_edge(calls, *slot, back, followed ? &recipe : NULL, call.function);
    struct node *child = count_call(calls, call.caller, (uintptr_t)slot, edge);
    if (child)
        call_cache_keep(calls, &call, child);
}

// A handler's calls lie below the hook that it has interrupted. One that does not shows that the
// hook will not continue: the handler has left by a longjmp.
static bool was_abandoned(const struct calls_thread *calls, uintptr_t slot)
{
    return on_stack(calls, slot) && on_stack(calls, calls->shut_slot) && slot >= calls->shut_slot;
}

static void take_pending(void)
{
    if (atomic_load_explicit(&followed_threads, memory_order_relaxed) == 1)
        calls_sites_take_pending();
    else
        calls_sites_leave_pending();
}

// The tree is open, or no thread is in it any more.
static void enter_unknown(struct calls_thread *calls, uintptr_t *slot, uintptr_t back, uintptr_t bp)
{
    const uintptr_t address = (uintptr_t)slot;
    if (calls_by_sites && calls_sites_are_pending())
        take_pending();
    const uint32_t generation = atomic_load_explicit(&calls_generation, memory_order_relaxed);
    const bool stale = calls->open_generation != generation;
    if (stale && calls_in_bursts && !burst_meets(calls))
        return;
    const uintptr_t before = calls_shut(calls, address);
    calls->open_generation = generation;
    if (stale)
        shadow_forget_all(calls, address);
    if (on_stack(calls, address) || shadow_switch(calls, address)) {
        // If it is not counted, calls that were missed meanwhile must not hang below an older one.
        *shadow_cell(calls->active, address) = 0;
        enter_by_walk(calls, slot, back, bp);
    }
    if (stale && calls_in_bursts)
        burst_follows(calls);
    calls_reopen(calls, before);
}

// Everything else. The caller has saved all registers.
__attribute__((visibility("hidden"))) void calls_enter_unknown(struct calls_thread *calls,
                                                               uintptr_t *slot, uintptr_t back,
                                                               uintptr_t bp, enum known known)
{
    const uintptr_t address = (uintptr_t)slot;
    // Wiped: a child of a fork that the agent does not know of. It is not followed.
    if (!calls->stats || (calls_by_sites && calls_sites_are_ours(*slot)))
        return;
    const int saved = errno;
    if (known == KNOWN_NOT && calls_in_bursts && burst_rests(calls, back)) {
        errno = saved;
        return;
    }
    if (known == KNOWN_NOT && is_shut(calls) && !was_abandoned(calls, address)) {
        deferred_calls_note(calls, &(struct known_call){.slot = slot, .back = back, .bp = bp});
    } else {
        if (known == KNOWN_NOT)
            enter_unknown(calls, slot, back, bp);
        deferred_calls_settle(calls, address);
    }
    errno = saved;
}

// ---- life

// In calls_x86_64.S.
void calls_enter(void);
void calls_enter_exact(void);
void calls_vector_start(void);

static void on_libraries_changed(enum dl_event event)
{
    const int saved = errno;
    const bool gone = event == LOADER_REMOVED;
    if (event == LOADER_REMOVES || !burst_hold())
        return;
    if (calls_by_sites)
        calls_sites_changed(gone);
    else
        entries_find_new(gone);
    burst_release();
    errno = saved;
}

static int64_t start_entries(bool exact, enum live_by by)
{
    uint64_t skipped = 0;
    if (!burst_hold()) // the clock may tick already
        return -EBUSY;
    int64_t found = entries_find(exact ? calls_enter_exact : calls_enter, &skipped);
    if (found > 0 || (found == 0 && by == LIVE_BY_ENTRIES)) {
        const int error = entries_switch(true, true);
        found = error ? error : found;
    }
    burst_release();
    return found;
}

int64_t calls_start(enum live_by by, bool exact, struct live_encode *counts, uintptr_t hands_on)
{
    calls_vector_start();
    caller_start((uintptr_t)calls_enter, hands_on);
    int64_t found = start_entries(exact, by);
    if (found == 0 && by != LIVE_BY_ENTRIES) {
        const int error = calls_sites_start(by, exact, counts);
        found = error ? error : (int64_t)counts->functions;
    }
    if (found >= 0)
        patch_watch_loader(on_libraries_changed); // without it, later libraries are not followed
    return found;
}

void calls_enter_root(uintptr_t function, uintptr_t *slot, uintptr_t bp)
{
    if (!calls_by_sites || !calls_current || !calls_sites_follows(function))
        return;
    calls_sites_note_root(*slot);
    calls_enter_unknown(calls_current, slot, function, bp, KNOWN_NOT);
}

void calls_note_unload(void)
{
    atomic_fetch_add_explicit(&calls_generation, 1, memory_order_relaxed);
}

static bool is_alone(void)
{
    return atomic_load_explicit(&followed_threads, memory_order_relaxed) == 1;
}

void calls_switch(bool on)
{
    // Between bursts, too, calls come by the hook now and then.
    if (on || calls_in_bursts)
        atomic_fetch_add_explicit(&calls_generation, 1, memory_order_relaxed);
    if (calls_in_bursts)
        entries_burst(on, is_alone());
    else
        entries_switch(on, is_alone());
}

void calls_quieten(uintptr_t back)
{
    entries_quieten(back, is_alone());
}

void calls_lose_cursor(struct calls_thread *calls)
{
    // Not nought: that means shut.
    const uint32_t other = (uint32_t)calls->open_generation - 1;
    calls->open_generation = other ? other : other - 1;
    if (!is_shut(calls)) // else the hook that was interrupted does it
        calls->generation = calls->open_generation;
}

struct node *calls_find_cursor(struct calls_thread *calls, const void *ucontext)
{
    if (is_shut(calls)) // the hook that was interrupted will do
        return NULL;
    const uintptr_t sp =
        *(const uintptr_t *)((const char *)ucontext + arch_context_offset(ARCH_SP));
    if (!on_stack(calls, sp))
        return NULL;
    const uintptr_t before = calls_shut(calls, sp);
    struct unwind_cursor cursor;
    const uintptr_t high = calls->own.high;
    struct unwind_bounds own = {
        shadow_holds(&calls->own, sp) ? stack_mapped_from(sp, high) : calls->own.low, high};
    unwind_start(&cursor, ucontext, own);
    struct node *node = caller_resync(calls, &cursor);
    calls->open_generation = atomic_load_explicit(&calls_generation, memory_order_relaxed);
    calls_reopen(calls, before);
    return node;
}

int calls_open(struct calls_thread *calls, const struct tracker_place *place)
{
    const struct unwind_bounds stack = place->stack;
    hook_stack_open(&calls->stack, calls->stack_memory, place->thread, stack);
    calls->arena = place->arena;
    calls->tree = place->tree;
    calls->stats = place->stats;
    // A child of fork that the agent does not know of must not write to its parent's tree.
    madvise(calls, sizeof *calls, MADV_WIPEONFORK);
    calls->open_generation = atomic_load_explicit(&calls_generation, memory_order_relaxed);
    calls->map_generation = loadmap_generation();
    calls->amount = 1;
    calls->base = place->arena->base;
    calls->root = shadow_node(calls, tree_root(place->arena, place->tree));
    calls->active = &calls->own;
    const size_t bytes = stack.high - stack.low;
    calls->walked = agent_map(bytes);
    if (!calls->walked)
        return -ENOMEM;
    calls->walked_capacity = bytes / sizeof *calls->walked;
    if (!shadow_open(&calls->own, stack.low, stack.high))
        return -ENOMEM;
    calls->own_shift = (uintptr_t)calls->own.cells - calls->own.low / 2;
    calls_reopen(calls, 0);
    if (calls_in_bursts)
        calls_lose_cursor(calls);
    atomic_fetch_add_explicit(&followed_threads, 1, memory_order_relaxed);
    return 0;
}

void calls_close(struct calls_thread *calls)
{
    if (calls->own.cells)
        atomic_fetch_sub_explicit(&followed_threads, 1, memory_order_relaxed);
    if (calls->walked)
        agent_unmap(calls->walked, calls->walked_capacity * sizeof *calls->walked);
    shadow_close(&calls->own);
    for (unsigned i = 0; i < OTHER_STACKS; i++)
        shadow_close(&calls->others[i]);
}

ref_t calls_sample(struct calls_thread *calls, const void *ucontext)
{
    if (is_shut(calls))
        return 0;
    uintptr_t pc;
    ref_t frame = shadow_ref(calls, caller_of_sample(calls, ucontext, &pc));
    if (!tree_traits_of(tree_kind(calls->arena, calls->tree))->keeps_all) // has no statements
        return frame;
    ref_t edge = tree_edge(calls->arena, calls->tree, loadmap_place(pc), 0);
    ref_t statement = tree_child(calls->arena, calls->tree, frame, edge);
    if (statement)
        return statement;
    calls->stats->unplaced++;
    return tree_unplaced(calls->arena, calls->tree, frame);
}
