// SPDX-License-Identifier: MIT
#include "track/calls/deferred_calls.h"
#include "loadmap/loadmap.h"
#include "track/calls/find_caller.h"
#include <stdatomic.h>

// Handlers nest: each takes its place first.
void deferred_calls_note(struct calls_thread *calls, const struct known_call *call)
{
    const unsigned place = __atomic_fetch_add(&calls->deferred_count, 1, __ATOMIC_RELAXED);
    if (place >= MISSED_CALLS) {
        calls->stats->lost++;
        return;
    }
    struct deferred_call *missed = &calls->missed[place];
    missed->slot = (uintptr_t)call->slot;
    missed->site = *call->slot;
    missed->back = call->back;
    missed->caller = NULL;
    missed->frames = 0;
    atomic_signal_fence(memory_order_seq_cst);
    missed->hook = calls->shut_slot;
    if (!caller_trace(calls, call, missed))
        missed->slot = 0;
}

const struct deferred_call *deferred_calls_entry(const struct calls_thread *calls,
                                                 const struct deferred_call *before, uintptr_t slot,
                                                 uintptr_t site)
{
    // The wanted call may be one that a handler has interrupted in deferred_calls_note(): then it
    // is not known, and frames decide.
    while (before-- > calls->missed && before->hook)
        if (before->slot == slot && before->site == site)
            return before;
    return NULL;
}

// The function whose hook was interrupted: it has its cell by now.
static struct node *interrupted_node(struct calls_thread *calls, uintptr_t hook)
{
    const struct cyg_entry *told = calls->active->cyg_top;
    if (told && told->level == hook)
        return told->node;
    const struct shadow *shadow = shadow_of(calls, hook);
    struct node *node = shadow ? shadow_at(calls, shadow_cell(shadow, hook)) : NULL;
    return node ? node : calls->root;
}

// The node that a missed call hangs below. NULL: not known.
static struct node *caller_of(struct calls_thread *calls, const struct deferred_call *missed)
{
    struct node *node =
        missed->caller ? missed->caller->node : interrupted_node(calls, missed->hook);
    if (missed->frames > MISSED_FRAMES)
        return NULL;
    for (unsigned i = missed->frames; node && i-- > 0;) {
        const struct deferred_frame *frame = &missed->frame[i];
        ref_t edge = tree_edge(calls->arena, calls->tree, frame->site, frame->function);
        ref_t child = shadow_child(calls, node, edge);
        if (child)
            node = shadow_node(calls, child);
    }
    return node;
}

static ref_t edge_of(struct calls_thread *calls, const struct deferred_call *missed)
{
    const struct edge_memo *memo = memo_of(calls, missed->site, missed->back);
    if (memo->edge && memo->site == missed->site && memo->back == missed->back &&
        calls->map_generation == loadmap_generation())
        return memo->edge;
    return memo_edge(calls, missed->site, missed->back, NULL, 0);
}

// It has ended, so it needs no cell.
static void count_missed(struct calls_thread *calls, struct deferred_call *missed)
{
    missed->node = NULL;
    if (!missed->slot) // made by ourselves
        return;
    struct node *caller = caller_of(calls, missed);
    if (!caller) {
        calls->stats->lost++;
        return;
    }
    const ref_t child = shadow_child(calls, caller, edge_of(calls, missed));
    if (!child) // out of memory: the caller stands for it
        calls->stats->unplaced++;
    missed->node = child ? shadow_node(calls, child) : caller;
    shadow_charge(calls, missed->node);
}

static void count_all(struct calls_thread *calls)
{
    unsigned done = 0, count = 0;
    do {
        for (; done < count && done < MISSED_CALLS; done++) {
            count_missed(calls, &calls->missed[done]);
            calls->missed[done].hook = 0;
        }
    } while (!__atomic_compare_exchange_n(&calls->deferred_count, &count, 0, false,
                                          __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}

void deferred_calls_settle(struct calls_thread *calls, uintptr_t slot)
{
    while (deferred_calls_any(calls)) {
        const uintptr_t before = calls_shut(calls, slot);
        count_all(calls);
        calls_reopen(calls, before);
    }
}
