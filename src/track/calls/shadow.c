// SPDX-License-Identifier: MIT
#include "track/calls/shadow.h"
#include "base/system/agent_map.h"
#include "loadmap/loadmap.h"
#include "patch/entries/entries.h"
#include "track/calls/call_cache.h"
#include "track/calls/call_sites.h"
#include "unwind/arch.h"
#include "unwind/recipe.h"
#include <string.h>
#include <sys/mman.h>

#define MOST_BYTES (UINT64_C(128) << 20)               // of one shadow: used as the stack is used
#define CELL_BYTES (sizeof(uintptr_t) / sizeof(ref_t)) // of the stack, for one of the shadow
#define SMALL_WIPE (UINT64_C(64) << 10)                // more is given back to the system instead
#define FUNCTIONS_MOST (UINT32_C(1) << 20)             // of a program, on a path
#define NEW_STACK_REACH (UINT64_C(1) << 16) // of a stack that nothing is known of: around the slot

// Where the function begins whose hook returns to `back`: the entry is its first instruction, or
// follows an endbr.
static uintptr_t function_of(uintptr_t back)
{
    static const unsigned char endbr[4] = {0xf3, 0x0f, 0x1e, 0xfa};
    uintptr_t entry = back - ENTRY_BYTES;
    return memcmp((const void *)(entry - 4), endbr, 4) ? entry : entry - 4;
}

// Remembers the shape of the caller's frame at the call, for the next time. Only of followed
// functions: their own hooks have put them into the shadow.
static void learn_caller(struct edge_memo *memo, const union unwind_recipe *recipe)
{
    memo->rule = CALLER_UNKNOWN;
    if (recipe->kind == RECIPE_SP) {
        memo->rule = CALLER_BY_SLOT;
        memo->distance = recipe->cfa_offset + (int32_t)sizeof(uintptr_t) + ARCH_RA_OFFSET;
    } else if (recipe->kind == RECIPE_FP) {
        memo->rule = CALLER_BY_FP;
        memo->distance = recipe->cfa_offset + ARCH_RA_OFFSET;
    } else if (recipe->kind == RECIPE_LOADED &&
               recipe->detail >> DETAIL_REGISTER_SHIFT == ARCH_FP) {
        memo->rule = CALLER_LOADED;
        memo->inner = (int16_t)recipe->cfa_offset;
        memo->distance = (recipe->cfa_offset >> 16) + ARCH_RA_OFFSET;
    }
}

struct edge_memo *memo_keep(struct calls_thread *calls, uintptr_t site, uintptr_t back, ref_t edge)
{
    if (calls->map_generation != loadmap_generation()) {
        memset(calls->memos, 0, sizeof calls->memos);
        call_cache_forget_all(calls);
        calls->map_generation = loadmap_generation();
    }
    struct edge_memo *memo = memo_of(calls, site, back);
    *memo = (struct edge_memo){.site = site, .back = back, .edge = edge};
    return memo;
}

ref_t memo_edge(struct calls_thread *calls, uintptr_t site, uintptr_t back,
                const union unwind_recipe *caller, place_t function)
{
    struct site_call call = calls_by_sites ? calls_sites_resolve(site, back)
                                           : (struct site_call){site, function_of(back)};
    ref_t edge = tree_edge(calls->arena, calls->tree, loadmap_place(calls_sites_true(call.site)),
                           loadmap_place(call.function));
    if (!edge)
        return 0;
    struct edge_memo *memo = memo_keep(calls, site, back, edge);
    memo->caller = function;
    if (caller)
        learn_caller(memo, caller);
    return edge;
}

static void forget_cells(struct shadow *shadow)
{
    madvise(shadow->cells, shadow->bytes, MADV_DONTNEED);
    shadow->cyg_top = shadow->told;
}

// A shadow never moves: a hook that a signal has interrupted holds a pointer into it.
bool shadow_open(struct shadow *shadow, uintptr_t low, uintptr_t high)
{
    // A stack that is deeper than the shadow has room for is not known.
    if (high - low > MOST_BYTES)
        low = high - MOST_BYTES;
    if (!shadow->cells) {
        shadow->cells = agent_map((high - low) / CELL_BYTES);
        if (!shadow->cells)
            return false;
        shadow->bytes = (high - low) / CELL_BYTES;
    }
    shadow->low = low;
    shadow->high = high;
    return true;
}

// A path of folded recursion holds each function once, so this is as short as the program has
// functions.
static ref_t find_recursion(const struct calls_thread *calls, const struct node *node, ref_t edge)
{
    const struct edge *entered = arena_at(calls->arena, edge);
    uint32_t left = FUNCTIONS_MOST; // unless the program has scribbled over it
    for (; node->parent && left > 0; node = shadow_node(calls, node->parent), left--) {
        const struct edge *known = shadow_edge(calls, node);
        if (known->function == entered->function)
            return shadow_ref(calls, node);
    }
    return 0;
}

ref_t shadow_child(struct calls_thread *calls, const struct node *parent, ref_t edge)
{
    ref_t folded = calls->folds && edge ? find_recursion(calls, parent, edge) : 0;
    return folded ? folded : tree_child(calls->arena, calls->tree, shadow_ref(calls, parent), edge);
}

void shadow_close(struct shadow *shadow)
{
    if (shadow->cells)
        agent_unmap(shadow->cells, shadow->bytes);
    if (shadow->told)
        agent_unmap(shadow->told, shadow->told_bytes);
    *shadow = (struct shadow){.cells = NULL};
}

struct shadow *shadow_of(struct calls_thread *calls, uintptr_t slot)
{
    if (shadow_holds(calls->active, slot))
        return calls->active;
    if (shadow_holds(&calls->own, slot))
        return &calls->own;
    for (unsigned i = 0; i < OTHER_STACKS; i++)
        if (shadow_holds(&calls->others[i], slot))
            return &calls->others[i];
    return NULL;
}

// Of a stack that nothing is known of yet, in place of the one that came first.
static struct shadow *new_shadow(struct calls_thread *calls, uintptr_t slot)
{
    struct shadow *shadow = &calls->others[calls->next_other++ % OTHER_STACKS];
    if (shadow->cells)
        forget_cells(shadow);
    return shadow_open(shadow, (slot - NEW_STACK_REACH) & -(uintptr_t)16, slot + sizeof slot)
               ? shadow
               : NULL;
}

bool shadow_switch(struct calls_thread *calls, uintptr_t slot)
{
    struct shadow *shadow = shadow_of(calls, slot);
    if (!shadow)
        shadow = new_shadow(calls, slot);
    if (!shadow)
        return false;
    // While the program is elsewhere, a tree that forgets may give the nodes of this stack to
    // others.
    if (shadow != calls->active && tree_forgets_read(calls->arena, UINT64_MAX, calls->tree))
        forget_cells(calls->active);
    calls->active = shadow;
    return true;
}

void shadow_forget_all(struct calls_thread *calls, uintptr_t sp)
{
    struct shadow *own = &calls->own;
    const uintptr_t slot = sp & -sizeof(uintptr_t);
    if (shadow_holds(own, slot) && own->high - slot <= SMALL_WIPE)
        memset(shadow_cell(own, slot), 0,
               (own->high - slot) / sizeof(uintptr_t) * sizeof *own->cells);
    else
        madvise(own->cells, own->bytes, MADV_DONTNEED);
    own->cyg_top = own->told;
    for (unsigned i = 0; i < OTHER_STACKS; i++)
        if (calls->others[i].cells)
            forget_cells(&calls->others[i]);
}
