// SPDX-License-Identifier: MIT
#include "track/kernel_frames.h"
#include "base/likely.h"
#include "unwind/arch.h"

#define PAGE 4096

static const struct edge *edge_of(const struct arena *arena, ref_t node)
{
    const struct node *found = arena_at(arena, node);
    return arena_at(arena, tree_node_edge(found));
}

// How much code before the interrupted instruction can be read: that of its function, or, if its
// beginning is not known, that on the same page.
static size_t readable_code(const struct edge *statement, const struct edge *frame,
                            const void *ucontext)
{
    const uintptr_t pc =
        *(const uintptr_t *)((const char *)ucontext + arch_context_offset(ARCH_RA));
    const uint64_t offset = place_offset(statement->site), begin = place_offset(frame->function);
    if (place_module(statement->site) == place_module(frame->function) && begin <= offset)
        return offset - begin;
    return pc % PAGE;
}

ref_t frame_below_statement(struct arena *arena, ref_t tree, ref_t statement, place_t place)
{
    const struct edge *at = edge_of(arena, statement);
    if (at->function || !at->site || UNLIKELY(tree_forgets(arena, tree)))
        return statement;
    const ref_t parent = ((const struct node *)arena_at(arena, statement))->parent;
    const ref_t frame = tree_child(arena, tree, parent, tree_edge(arena, tree, at->site, place));
    const ref_t node = frame ? tree_child(arena, tree, frame, tree_edge(arena, tree, place, 0)) : 0;
    return node ? node : statement;
}

ref_t kernel_frames_node(struct arena *arena, ref_t tree, ref_t statement, const void *ucontext)
{
    const struct edge *at = edge_of(arena, statement);
    if (at->function || !at->site || UNLIKELY(tree_forgets(arena, tree)))
        return statement;
    const ref_t parent = ((const struct node *)arena_at(arena, statement))->parent;
    const long number =
        arch_system_call(ucontext, readable_code(at, edge_of(arena, parent), ucontext));
    if (number == ARCH_CALL_NONE)
        return statement;
    return frame_below_statement(arena, tree, statement, place_of_system_call(number));
}

ref_t kernel_frames_below(struct arena *arena, ref_t tree, ref_t statement, const uint64_t *address,
                          unsigned count)
{
    const struct edge *at = edge_of(arena, statement);
    if (!count || at->function || !at->site || UNLIKELY(tree_forgets(arena, tree)))
        return statement;
    ref_t node = ((const struct node *)arena_at(arena, statement))->parent;
    place_t site = at->site + 1; // as of a call, whose site is where it returns to
    for (unsigned i = count; node && i-- > 0;) {
        const place_t unknown = place_make(MODULE_KERNEL, PLACE_OFFSET_UNKNOWN);
        node = tree_child(arena, tree, node, tree_edge(arena, tree, site, unknown));
        site = place_make(MODULE_KERNEL, address[i]);
    }
    if (node)
        node = tree_child(arena, tree, node, tree_edge(arena, tree, site, 0));
    return node ? node : statement;
}
