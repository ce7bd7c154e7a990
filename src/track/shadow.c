// SPDX-License-Identifier: MIT
#include "track/shadow.h"
#include "loadmap/loadmap.h"
#include "patch/entries.h"
#include "unwind/arch.h"
#include "unwind/recipe.h"
#include <string.h>
#include <sys/mman.h>

#define SMALLEST_FRAME 8        // a return address: entries of a shadow lie at least that far apart
#define MOST_ENTRIES (8u << 20) // of one shadow: 128 MB of addresses, used as the stack is used
#define NEW_STACK_REACH (UINT64_C(1) << 16) // of a stack that nothing is known of: around the slot

// Where the function begins whose hook returns to `back`: the entry is its first instruction, or
// follows an endbr.
static uintptr_t function_of(uintptr_t back)
{
    static const unsigned char endbr[4] = {0xf3, 0x0f, 0x1e, 0xfa};
    uintptr_t entry = back - ENTRY_BYTES;
    return memcmp((const void *)(entry - 4), endbr, 4) ? entry : entry - 4;
}

// What the caller's frame looks like at the call, for the next time. Only of followed functions:
// their own hooks have put them into the shadow.
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
        memset(calls->bridges, 0, sizeof calls->bridges);
        calls->map_generation = loadmap_generation();
    }
    struct edge_memo *memo = memo_of(calls, site, back);
    *memo = (struct edge_memo){.site = site, .back = back, .edge = edge};
    return memo;
}

ref_t memo_edge(struct calls_thread *calls, uintptr_t site, uintptr_t back,
                const union unwind_recipe *caller)
{
    ref_t edge =
        tree_edge(calls->arena, calls->tree, loadmap_place(site), loadmap_place(function_of(back)));
    if (!edge)
        return 0;
    struct edge_memo *memo = memo_keep(calls, site, back, edge);
    if (caller)
        learn_caller(memo, caller);
    return edge;
}

// Room for as many activations as the stack can hold: a shadow never moves, because a hook that a
// signal has interrupted holds a pointer into it.
bool shadow_open(struct calls_thread *calls, struct shadow *shadow, uintptr_t low, uintptr_t high)
{
    if (!shadow->entries) {
        size_t capacity = (high - low) / SMALLEST_FRAME + 2;
        if (capacity > MOST_ENTRIES)
            capacity = MOST_ENTRIES;
        void *entries = mmap(NULL, capacity * sizeof *shadow->entries, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (entries == MAP_FAILED)
            return false;
        shadow->entries = entries;
        shadow->capacity = capacity;
    }
    // Deeper than the shadow has room for is a stack that nobody knows.
    const uintptr_t reach = (shadow->capacity - 2) * SMALLEST_FRAME;
    shadow->low = high - low > reach ? high - reach : low;
    shadow->high = high;
    shadow->entries[0] = (struct shadow_entry){
        .slot = UINTPTR_MAX, .node = shadow_node(calls, tree_root(calls->arena, calls->tree))};
    return true;
}

// A path of folded recursion holds each function once, so this is as short as the program has
// functions.
static ref_t find_recursion(const struct calls_thread *calls, const struct node *node, ref_t edge)
{
    const struct edge *entered = arena_at(calls->arena, edge);
    for (; node->parent; node = shadow_node(calls, node->parent)) {
        const struct edge *known = arena_at(calls->arena, node->edge);
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

void shadow_activate(struct calls_thread *calls, struct shadow *shadow, struct shadow_entry *top)
{
    calls->active = shadow;
    calls->low = shadow->low;
    calls->top = top;
}

void shadow_close(struct shadow *shadow)
{
    if (shadow->entries)
        munmap(shadow->entries, shadow->capacity * sizeof *shadow->entries);
    shadow->entries = NULL;
}

// The shadow of the stack that a slot lies on; *fresh if nothing is known of that stack yet.
static struct shadow *shadow_of(struct calls_thread *calls, uintptr_t slot, bool *fresh)
{
    *fresh = false;
    if (shadow_holds(&calls->own, slot))
        return &calls->own;
    for (unsigned i = 0; i < OTHER_STACKS; i++)
        if (shadow_holds(&calls->others[i], slot))
            return &calls->others[i];
    *fresh = true;
    struct shadow *shadow = &calls->others[calls->next_other++ % OTHER_STACKS];
    return shadow_open(calls, shadow, slot - NEW_STACK_REACH, slot + 8) ? shadow : NULL;
}

bool shadow_switch(struct calls_thread *calls, uintptr_t slot)
{
    bool fresh;
    if (calls->active)
        calls->active->top = calls->top;
    struct shadow *shadow = shadow_of(calls, slot, &fresh);
    if (!shadow)
        return false;
    shadow_activate(calls, shadow, fresh ? shadow->entries : shadow->top);
    return true;
}
