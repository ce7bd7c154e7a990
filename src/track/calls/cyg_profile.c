// SPDX-License-Identifier: MIT
// Functions compiled with -finstrument-functions: they report entry and exit by their address.
// Their slots are not known; the caller's stack pointer, which is a little lower, will do.
// Functions inlined into each other share it.

#include "base/system/agent_map.h"
#include "loadmap/loadmap.h"
#include "track/calls/bursts/burst.h"
#include "track/calls/deferred_calls.h"
#include <errno.h>

static ref_t edge_of_function(struct calls_thread *calls, uintptr_t function, uintptr_t site)
{
    const struct edge_memo *memo = memo_of(calls, site, function);
    if (memo->edge && memo->site == site && memo->back == function &&
        calls->map_generation == loadmap_generation())
        return memo->edge;
    ref_t edge = tree_edge(calls->arena, calls->tree, loadmap_place(site), loadmap_place(function));
    return edge ? memo_keep(calls, site, function, edge)->edge : 0;
}

static place_t function_at(const struct calls_thread *calls, ref_t edge)
{
    return edge ? ((const struct edge *)arena_at(calls->arena, edge))->function : 0;
}

// The entry of that function among those of this level; NULL.
static struct cyg_entry *entry_at_level(const struct calls_thread *calls, uintptr_t level,
                                        place_t function)
{
    for (struct cyg_entry *entry = calls->active->cyg_top; entry->level == level; entry--)
        if (shadow_edge(calls, entry->node)->function == function)
            return entry;
    return NULL;
}

// They report one after the other, so the active ones form a stack. Its first entry is the root,
// and never popped.
static bool open_told(struct calls_thread *calls, struct shadow *shadow)
{
    if (shadow->told)
        return true;
    const size_t bytes = shadow->high - shadow->low;
    void *told = agent_map(bytes);
    if (!told)
        return false;
    shadow->told = shadow->cyg_top = told;
    shadow->told_bytes = bytes;
    shadow->told[0] = (struct cyg_entry){.level = UINTPTR_MAX, .node = calls->root};
    return true;
}

// True if the tree is free; then it is shut. *before: for calls_reopen().
static bool begin_function(struct calls_thread *calls, uintptr_t level, uintptr_t *before)
{
    if (!calls->generation) {
        if (calls->stats)
            calls->stats->lost++;
        return false;
    }
    *before = calls_shut(calls, level);
    if ((shadow_holds(calls->active, level) || shadow_switch(calls, level)) &&
        open_told(calls, calls->active))
        return true;
    calls_reopen(calls, *before);
    return false;
}

static void push(struct calls_thread *calls, uintptr_t level, ref_t edge)
{
    struct shadow *shadow = calls->active;
    struct node *caller = shadow->cyg_top->node;
    if (shadow->cyg_top + 2 > shadow->told + shadow->told_bytes / sizeof *shadow->told) {
        calls->stats->lost++;
        return;
    }
    ref_t child = shadow_child(calls, caller, edge);
    if (!child) // out of memory: the caller stands for it
        calls->stats->unplaced++;
    struct node *node = child ? shadow_node(calls, child) : caller;
    // With bursts, too, these report each call, and so the active functions, when none counts.
    if (!burst_is_closed())
        shadow_charge_for(calls, node, calls_in_bursts ? 1 : calls->amount);
    *++shadow->cyg_top = (struct cyg_entry){.level = level, .node = node};
}

void calls_function_entered(struct calls_thread *calls, const struct cyg_call *call)
{
    const int saved = errno;
    uintptr_t before;
    if (!begin_function(calls, call->level, &before))
        return;
    struct shadow *shadow = calls->active;
    while (shadow->cyg_top->level < call->level)
        shadow->cyg_top--;
    ref_t edge = edge_of_function(calls, call->function, call->site);
    // There already, and its end was not reported: a longjmp has cut it off.
    struct cyg_entry *stale = entry_at_level(calls, call->level, function_at(calls, edge));
    if (stale)
        shadow->cyg_top = stale - 1;
    // Inlined into the function that is there: it reports the call site of that one.
    if (shadow->cyg_top->level == call->level)
        edge = edge_of_function(calls, call->function, call->hook_site);
    push(calls, call->level, edge);
    calls_reopen(calls, before);
    deferred_calls_settle(calls, call->level);
    errno = saved;
}

void calls_function_left(struct calls_thread *calls, const struct cyg_call *call)
{
    const int saved = errno;
    uintptr_t before;
    if (!begin_function(calls, call->level, &before))
        return;
    struct shadow *shadow = calls->active;
    const place_t function =
        function_at(calls, edge_of_function(calls, call->function, call->site));
    bool found = false;
    // An exit that is the function's last act, a jump, has the stack pointer of its caller.
    for (; shadow->cyg_top->level < call->level; shadow->cyg_top--)
        found |= shadow_edge(calls, shadow->cyg_top->node)->function == function;
    struct cyg_entry *entry = found ? NULL : entry_at_level(calls, call->level, function);
    if (entry)
        shadow->cyg_top = entry - 1;
    calls_reopen(calls, before);
    deferred_calls_settle(calls, call->level);
    errno = saved;
}
