// SPDX-License-Identifier: MIT
// Functions compiled with -finstrument-functions: told of by name, on entry and exit. Their
// slots are not known; the caller's stack pointer, which is a little lower, will do. Functions
// inlined into each other share it.

#include "loadmap/loadmap.h"
#include "track/shadow.h"
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
static struct shadow_entry *entry_at_level(const struct calls_thread *calls, uintptr_t level,
                                           place_t function)
{
    for (struct shadow_entry *entry = calls->top; entry->slot == level; entry--)
        if (function_at(calls, entry->node->edge) == function)
            return entry;
    return NULL;
}

// True if the tree is free; then it is shut.
static bool begin_function(struct calls_thread *calls, uintptr_t level)
{
    if (!calls->span) {
        if (calls->stats)
            calls->stats->lost++;
        return false;
    }
    const bool same_stack = level - calls->low < calls->span;
    calls_shut(calls);
    if (same_stack || shadow_switch(calls, level))
        return true;
    calls_reopen(calls);
    return false;
}

void calls_function_entered(struct calls_thread *calls, const struct told_call *call)
{
    const int saved = errno;
    if (!begin_function(calls, call->level))
        return;
    while (calls->top->slot < call->level)
        calls->top--;
    ref_t edge = edge_of_function(calls, call->function, call->site);
    // There already, and not told to have ended: a longjmp has cut it off.
    struct shadow_entry *stale = entry_at_level(calls, call->level, function_at(calls, edge));
    if (stale)
        calls->top = stale - 1;
    // Inlined into the function that is there: the site that it tells of is that one's.
    if (calls->top->slot == call->level)
        edge = edge_of_function(calls, call->function, call->hook_site);
    if (calls->top + 1 < calls->active->entries + calls->active->capacity)
        calls_count(calls, calls->top->node, call->level, edge);
    else
        calls->stats->lost++;
    calls_reopen_and_settle(calls);
    errno = saved;
}

void calls_function_left(struct calls_thread *calls, const struct told_call *call)
{
    const int saved = errno;
    if (!begin_function(calls, call->level))
        return;
    const place_t function =
        function_at(calls, edge_of_function(calls, call->function, call->site));
    bool found = false;
    // An exit that is the function's last act, a jump, has the stack pointer of its caller.
    for (; calls->top->slot < call->level; calls->top--)
        found |= function_at(calls, calls->top->node->edge) == function;
    struct shadow_entry *entry = found ? NULL : entry_at_level(calls, call->level, function);
    if (entry)
        calls->top = entry - 1;
    calls_reopen_and_settle(calls);
    errno = saved;
}
