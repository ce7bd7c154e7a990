// SPDX-License-Identifier: MIT
#include "track/missed.h"
#include "track/caller.h"

// Handlers nest: each takes its place first.
void missed_note(struct calls_thread *calls, const struct known_call *call)
{
    const unsigned place = __atomic_fetch_add(&calls->missed_count, 1, __ATOMIC_RELAXED);
    if (place >= MISSED_CALLS) {
        calls->stats->lost++;
        return;
    }
    struct missed_call *missed = &calls->missed[place];
    missed->slot = (uintptr_t)call->slot;
    missed->site = *call->slot;
    missed->back = call->back;
    missed->hook = calls->shut_slot;
    if (!caller_trace(calls, call, missed))
        missed->slot = 0;
}

// The function whose hook was interrupted: it has its cell by now.
static struct node *interrupted_node(struct calls_thread *calls, uintptr_t hook)
{
    const struct told_entry *told = calls->active->told_top;
    if (told && told->level == hook)
        return told->node;
    const struct shadow *shadow = shadow_of(calls, hook);
    struct node *node = shadow ? shadow_at(calls, shadow_cell(shadow, hook)) : NULL;
    return node ? node : calls->root;
}

// The missed call, of those before `number`, that has entered the function of a frame; NULL.
static const struct missed_call *entry_of(const struct calls_thread *calls, unsigned number,
                                          const struct missed_frame *frame)
{
    while (number-- > 0) {
        const struct missed_call *missed = &calls->missed[number];
        if (missed->slot != frame->slot || !missed->edge)
            continue;
        const struct edge *edge = arena_at(calls->arena, missed->edge);
        if (edge->site == frame->site && edge->function == frame->function)
            return missed;
    }
    return NULL;
}

// The node that a missed call hangs below. NULL: it has too many frames.
static struct node *caller_of(struct calls_thread *calls, unsigned number)
{
    const struct missed_call *missed = &calls->missed[number];
    const struct missed_call *entry = NULL;
    unsigned frame = 0;
    for (; frame < missed->frames && frame < MISSED_FRAMES; frame++)
        if ((entry = entry_of(calls, number, &missed->frame[frame])))
            break;
    if (!entry && missed->frames > MISSED_FRAMES)
        return NULL;
    struct node *node = entry ? entry->node : interrupted_node(calls, missed->hook);
    while (node && frame-- > 0) {
        const struct missed_frame *between = &missed->frame[frame];
        ref_t child = shadow_child(
            calls, node, tree_edge(calls->arena, calls->tree, between->site, between->function));
        if (child)
            node = shadow_node(calls, child);
    }
    return node;
}

// It has ended, so it needs no cell.
static void count_missed(struct calls_thread *calls, unsigned number)
{
    struct missed_call *missed = &calls->missed[number];
    missed->edge = 0;
    missed->node = NULL;
    if (!missed->slot) // made by ourselves
        return;
    struct node *caller = caller_of(calls, number);
    if (!caller) {
        calls->stats->lost++;
        return;
    }
    missed->edge = memo_edge(calls, missed->site, missed->back, NULL, 0);
    const ref_t child = shadow_child(calls, caller, missed->edge);
    if (!child) // out of memory: the caller stands for it
        calls->stats->unplaced++;
    missed->node = child ? shadow_node(calls, child) : caller;
    shadow_charge(calls, missed->node);
}

static void count_all(struct calls_thread *calls)
{
    unsigned done = 0, count = 0;
    do {
        for (; done < count && done < MISSED_CALLS; done++)
            count_missed(calls, done);
    } while (!__atomic_compare_exchange_n(&calls->missed_count, &count, 0, false, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
}

void missed_settle(struct calls_thread *calls, uintptr_t slot)
{
    while (missed_any(calls)) {
        const uintptr_t before = calls_shut(calls, slot);
        count_all(calls);
        calls_reopen(calls, before);
    }
}
