// SPDX-License-Identifier: MIT
// The contexts that the program asked for, in a snapshot.

#include "agent/api/snapshot_contexts.h"
#include "agent/session/agent.h"
#include "encode/codebook/intern.h"
#include <errno.h>
#include <string.h>

// In the order of the list: it matters, and readers turn it around once.
static int copy_sections(struct arena *to, struct live_contexts *contexts, ref_t ref)
{
    ref_t last = 0;
    uint32_t left = LIVE_MOST_LISTED;
    const struct live_sections *sections;
    while ((sections = live_listed(&agent.arena, ref, sizeof *sections, &left))) {
        const size_t bytes = sizeof *sections + sections->bytes;
        const ref_t copy = arena_alloc(to, bytes);
        if (!copy)
            return -ENOMEM;
        struct live_sections *copied = arena_at(to, copy);
        memcpy(copied, sections, bytes);
        copied->next = 0;
        if (last)
            ((struct live_sections *)arena_at(to, last))->next = copy;
        else
            atomic_store_explicit(&contexts->sections, copy, memory_order_relaxed);
        last = copy;
        ref = sections->next;
    }
    return 0;
}

// As many as are whole.
static int copy_nodes(struct arena *to, struct live_contexts *contexts)
{
    const struct live_contexts *from = &agent.process->contexts;
    const ref_t ref = atomic_load_explicit(&from->nodes, memory_order_acquire);
    if (!ref)
        return 0;
    const struct intern_node *nodes = arena_at(&agent.arena, ref);
    uint32_t count = 1; // the first is never used
    while (count < from->capacity && __atomic_load_n(&nodes[count].level, __ATOMIC_ACQUIRE))
        count++;
    const ref_t copy = arena_alloc(to, count * sizeof *nodes);
    if (!copy)
        return -ENOMEM;
    memcpy(arena_at(to, copy), nodes, count * sizeof *nodes);
    contexts->capacity = count;
    atomic_store_explicit(&contexts->nodes, copy, memory_order_relaxed);
    return 0;
}

static void copy_count(_Atomic uint64_t *to, const _Atomic uint64_t *from)
{
    atomic_store_explicit(to, atomic_load_explicit(from, memory_order_relaxed),
                          memory_order_relaxed);
}

int api_copy_contexts(struct arena *to, struct live_contexts *contexts)
{
    const struct live_contexts *from = &agent.process->contexts;
    const uint32_t asked = atomic_load_explicit(&from->asked, memory_order_relaxed);
    atomic_store_explicit(&contexts->asked, asked, memory_order_relaxed);
    if (!asked)
        return 0;
    contexts->first = from->first;
    copy_count(&contexts->number, &from->number);
    copy_count(&contexts->walked, &from->walked);
    copy_count(&contexts->unknown, &from->unknown);
    // Nodes first: the sections that they refer to are there by then.
    int error = copy_nodes(to, contexts);
    if (!error)
        error = copy_sections(to, contexts,
                              atomic_load_explicit(&from->sections, memory_order_acquire));
    return error;
}
