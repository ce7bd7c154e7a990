// SPDX-License-Identifier: MIT
#include "track/caller.h"
#include "loadmap/loadmap.h"
#include "patch/entries.h"
#include "unwind/arch.h"

// True if frames of this function are followed by hooks: it has an entry, at its begin or after an
// endbr.
static bool is_followed(const struct unwind_frame *frame)
{
    if (place_offset(frame->function) == PLACE_OFFSET_UNKNOWN)
        return false;
    uintptr_t begin = frame->pc - (place_offset(frame->place) - place_offset(frame->function));
    return entries_is_return(begin + ENTRY_BYTES) || entries_is_return(begin + 4 + ENTRY_BYTES);
}

// What is walked is laid at the far end of the shadow first, youngest last.
void caller_resync(struct calls_thread *calls, struct unwind_cursor *cursor)
{
    struct shadow *shadow = calls->active;
    struct shadow_entry *fresh = shadow->entries + shadow->capacity;
    enum verdict verdict;
    while (fresh > shadow->entries + 1 && unwind_step(cursor, &verdict) == UNWIND_OK) {
        if (cursor->left.ra_slot && is_followed(&cursor->left)) {
            fresh--;
            fresh->slot = cursor->left.ra_slot;
            // The edge, until the tree gives the node.
            fresh->node = (struct node *)(uintptr_t)tree_edge(
                calls->arena, calls->tree, cursor->frame.place, cursor->left.function);
        }
    }
    calls->top = shadow->entries;
    for (; fresh < shadow->entries + shadow->capacity; fresh++) {
        ref_t node = shadow_child(calls, calls->top->node, (ref_t)(uintptr_t)fresh->node);
        if (node)
            shadow_push(calls, fresh->slot, shadow_node(calls, node));
    }
}

struct search {
    struct calls_thread *calls;
    struct unwind_cursor cursor;
    struct shadow *shadow;      // of the stack that the walk is on
    struct shadow_entry *entry; // of it: what lies younger has ended
    struct shadow_entry *fresh; // frames without an entry, at the far end of the active shadow
    bool all;                   // frames that are not followed, too
    uintptr_t pc;               // of the sample
    uintptr_t pier;             // slot of the frame left before
    enum verdict verdict;
};

static struct shadow_entry *last_entry(const struct calls_thread *calls,
                                       const struct shadow *shadow)
{
    return shadow == calls->active ? calls->top : shadow->top;
}

static bool is_entry_of(const struct search *search, const struct unwind_frame *left)
{
    const struct calls_thread *calls = search->calls;
    const struct shadow_entry *entry = search->entry;
    if (entry->slot != left->ra_slot)
        return false;
    // What was there before may have ended without a trace. The same return address tells that it
    // has not; the cold part of a function has none of its own.
    const struct edge *edge = arena_at(calls->arena, entry->node->edge);
    return edge->site == search->cursor.frame.place &&
           (edge->function == left->function || !is_followed(left));
}

// True if the frame that the walk has left has an entry, which is search->entry then.
static bool meets_entry(struct search *search)
{
    const uintptr_t slot = search->cursor.left.ra_slot;
    if (!search->shadow || !shadow_holds(search->shadow, slot)) {
        struct calls_thread *calls = search->calls;
        search->shadow = shadow_holds(&calls->own, slot) ? &calls->own : NULL;
        for (unsigned i = 0; i < OTHER_STACKS && !search->shadow; i++)
            if (shadow_holds(&calls->others[i], slot))
                search->shadow = &calls->others[i];
        if (!search->shadow)
            return false;
        search->entry = last_entry(calls, search->shadow);
    }
    while (search->entry->slot < slot)
        search->entry--;
    return is_entry_of(search, &search->cursor.left);
}

static unsigned agent_module;

void caller_start(uintptr_t hook)
{
    agent_module = place_module(loadmap_place(hook));
}

// What a hook costs is the cost of the function that was entered.
static bool is_ours(const struct unwind_frame *frame)
{
    return place_module(frame->place) == agent_module ||
           (place_module(frame->place) == MODULE_ANONYMOUS && entries_is_relay(frame->pc));
}

// Walks on from where the cursor stands. True if an entry was met; else the walk has come to its
// end. What was walked has its edge in fresh[].
static bool walk_to_entry(struct search *search)
{
    struct calls_thread *calls = search->calls;
    while (unwind_step(&search->cursor, &search->verdict) == UNWIND_OK) {
        const struct unwind_frame *left = &search->cursor.left;
        calls->stats->frames_walked++;
        if (search->all && is_ours(left)) {
            search->fresh = calls->active->entries + calls->active->capacity;
            search->pc = search->cursor.frame.pc;
            continue;
        }
        if (!left->ra_slot) // a signal frame
            continue;
        if (meets_entry(search))
            return true;
        search->pier = left->ra_slot;
        if (search->fresh > calls->top + 2 && (search->all || is_followed(left))) {
            search->fresh--;
            search->fresh->slot = left->ra_slot;
            // The edge, until the tree gives the node.
            search->fresh->node = (struct node *)(uintptr_t)tree_edge(
                calls->arena, calls->tree, search->cursor.frame.place, left->function);
        }
    }
    return false;
}

static void start_search(struct search *search, struct calls_thread *calls, bool all)
{
    search->calls = calls;
    search->shadow = NULL;
    search->fresh = calls->active->entries + calls->active->capacity;
    search->all = all;
    search->pier = 0;
    search->verdict = VERDICT_COMPLETE;
}

static void remember_bridge(struct calls_thread *calls, const struct search *search,
                            uintptr_t *slot)
{
    if (!search->pier)
        return;
    calls->bridges[*slot % BRIDGES] = (struct bridge){
        .site = *slot,
        .slot = (uintptr_t)slot,
        .parent = search->entry->slot,
        .pier = search->pier,
        .returns = *(const uintptr_t *)search->pier,
    };
}

// The frames that a walk found without entries become nodes, and entries if they are on the stack
// in use. The youngest of them.
static struct node *take_fresh(struct search *search, struct node *node)
{
    struct calls_thread *calls = search->calls;
    const struct shadow_entry *end = calls->active->entries + calls->active->capacity;
    for (; search->fresh < end; search->fresh++) {
        const uintptr_t slot = search->fresh->slot;
        ref_t child = shadow_child(calls, node, (ref_t)(uintptr_t)search->fresh->node);
        if (!child)
            continue;
        node = shadow_node(calls, child);
        if (!search->all && shadow_holds(calls->active, slot) && slot < calls->top->slot)
            shadow_push(calls, slot, node);
    }
    return node;
}

struct node *caller_find(struct calls_thread *calls, uintptr_t *slot, uintptr_t back, uintptr_t bp,
                         union unwind_recipe *recipe, bool *followed)
{
    struct search search;
    struct unwind_bounds own = {.low = calls->own.low, .high = calls->own.high};
    if (shadow_holds(&calls->own, (uintptr_t)slot))
        own.low = (uintptr_t)slot; // below may be the guard page
    start_search(&search, calls, false);
    unwind_start_here(&search.cursor, back, (uintptr_t)slot, bp, own);
    *followed = false;
    bool met = false;
    if (unwind_step(&search.cursor, &search.verdict) == UNWIND_OK) {
        *followed = is_followed(&search.cursor.frame);
        *recipe = search.cursor.recipe;
        met = walk_to_entry(&search);
    }
    struct node *node = calls->active->entries->node;
    if (met && search.shadow == calls->active) {
        if (search.fresh == calls->active->entries + calls->active->capacity)
            remember_bridge(calls, &search, slot);
        calls->top = search.entry;
        node = search.entry->node;
    } else if (met) { // the handler of a signal, on a stack of its own
        calls->top = calls->active->entries;
        node = search.entry->node;
    } else if (search.verdict == VERDICT_COMPLETE) {
        calls->top = calls->active->entries;
    } else { // code that cannot be unwound: what lies above is the best there is
        while (calls->top->slot <= (uintptr_t)slot)
            calls->top--;
        node = calls->top->node;
        search.fresh = calls->active->entries + calls->active->capacity;
    }
    return take_fresh(&search, node);
}

struct node *caller_of_sample(struct calls_thread *calls, const void *ucontext, uintptr_t *pc)
{
    const char *context = ucontext;
    const uintptr_t sp = *(const uintptr_t *)(context + arch_context_offset(ARCH_SP));
    struct search search;
    struct unwind_bounds own = {.low = shadow_holds(&calls->own, sp) ? sp : calls->own.low,
                                .high = calls->own.high};
    start_search(&search, calls, true);
    unwind_start(&search.cursor, ucontext, own);
    search.pc = *(const uintptr_t *)(context + arch_context_offset(ARCH_RA));
    struct node *node = calls->active->entries->node;
    if (walk_to_entry(&search)) {
        node = search.entry->node;
        calls->stats->frames_stack += (uint64_t)(search.entry - search.shadow->entries);
        search.verdict = VERDICT_COMPLETE;
    } else if (search.verdict != VERDICT_COMPLETE) {
        search.fresh = calls->active->entries + calls->active->capacity;
        node = calls->top->node;
    }
    calls->stats->verdicts[search.verdict]++;
    *pc = search.pc;
    return take_fresh(&search, node);
}
