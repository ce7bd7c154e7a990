// SPDX-License-Identifier: MIT
#include "track/calls/find_caller.h"
#include "loadmap/loadmap.h"
#include "patch/entries/entries.h"
#include "track/calls/call_sites.h"
#include "track/calls/deferred_calls.h"
#include "unwind/arch.h"
#include "unwind/recipe.h"
#include "unwind/stack.h"
#include <string.h>

#define ENDBR_BYTES 4
#define FURTHEST 65536 // how far anything here looks that has no other end

static uintptr_t begin_of(const struct unwind_frame *frame)
{
    return frame->pc - (place_offset(frame->place) - place_offset(frame->function));
}

// True if frames of this function are followed by hooks: it has an entry, at its begin or after an
// endbr.
static bool is_followed(const struct unwind_frame *frame)
{
    if (place_offset(frame->function) == PLACE_OFFSET_UNKNOWN)
        return false;
    const uintptr_t begin = begin_of(frame);
    if (calls_by_sites)
        return calls_sites_follows(begin);
    return entries_is_return(begin + ENTRY_BYTES) || entries_is_return(begin + 4 + ENTRY_BYTES);
}

struct caller_search {
    struct calls_thread *calls;
    struct unwind_cursor cursor;
    struct shadow *shadow; // of the stack that the walk is on
    struct node *met;      // of the frame that ends the walk
    uint8_t recipe_kind;   // by which the walk has left it
    size_t walked;         // frames whose cells do not tell of them: the last of calls->walked[]
    bool all;              // frames that are not followed, too
    bool signal;           // the walk has come through a signal frame
    bool ours;             // the agent itself has called
    bool generated;        // the walk has ended in code without tables
    bool doubted;          // the next frame's cell may be that of an older activation
    uintptr_t pc;          // of the sample
    uintptr_t pier;        // slot of the frame left before
    uintptr_t fp_slot;     // where the frame pointer was saved that the walk has come to
    unsigned pointers;     // by which frames were left: more than there is room for, not known
    struct frame_pointer pointer[POINTERS];
    enum verdict verdict;
};

// By call sites: the frame that the walk has left was noticed when it began.
static bool was_noticed(const struct unwind_cursor *cursor)
{
    const struct unwind_frame *left = &cursor->left;
    return place_offset(left->function) != PLACE_OFFSET_UNKNOWN &&
           calls_sites_notices(cursor->frame.pc, begin_of(left));
}

// True if the frame that the walk has left has a node, with a valid cell or without.
static bool has_node(const struct unwind_cursor *cursor)
{
    return is_followed(&cursor->left) || (calls_by_sites && was_noticed(cursor));
}

// A frame becomes an edge, until the tree gives the node.
static void note_frame(struct caller_search *search)
{
    struct calls_thread *calls = search->calls;
    const struct unwind_cursor *cursor = &search->cursor;
    if (search->walked == calls->walked_capacity)
        return;
    calls->walked[search->walked++] = (struct walked_frame){
        // A function that nobody notices has no cell: the cell would stay when another such call
        // comes.
        .slot = !calls_by_sites || was_noticed(cursor) ? cursor->left.ra_slot : 0,
        .edge = tree_edge(calls->arena, calls->tree, cursor->frame.place, cursor->left.function),
    };
}

// The frames that a walk has noted become nodes, and have cells if they are on the stack in use and
// `entered`. The youngest of them.
static struct node *take_walked(struct caller_search *search, struct node *node, bool entered)
{
    struct calls_thread *calls = search->calls;
    while (search->walked > 0) {
        const struct walked_frame *frame = &calls->walked[--search->walked];
        ref_t child = shadow_child(calls, node, frame->edge);
        if (!child)
            continue;
        node = shadow_node(calls, child);
        if (entered && shadow_holds(calls->active, frame->slot))
            shadow_enter(calls, frame->slot, node);
    }
    return node;
}

struct node *caller_resync(struct calls_thread *calls, struct unwind_cursor *cursor)
{
    struct caller_search search = {.calls = calls, .cursor = *cursor};
    shadow_forget_all(calls, cursor->sp);
    while (unwind_step(&search.cursor, &search.verdict) == UNWIND_OK)
        if (search.cursor.left.ra_slot && has_node(&search.cursor))
            note_frame(&search);
    return take_walked(&search, calls->root, true);
}

// True if the cell of the frame that the walk has left is valid, and not of an earlier function
// that has returned: it has the same return address and the same function. The cold part of a
// function is another one to the unwinder, but in the same module.
static bool is_entry_of(const struct caller_search *search, const struct node *node)
{
    const struct unwind_frame *left = &search->cursor.left;
    const struct edge *edge = shadow_edge(search->calls, node);
    return edge->site == search->cursor.frame.place &&
           (edge->function == left->function ||
            (place_module(edge->function) == place_module(left->function) && !is_followed(left)));
}

// True if the frame that the walk has left has a node, which is search->met then.
static bool meets_entry(struct caller_search *search)
{
    const uintptr_t slot = search->cursor.left.ra_slot;
    if (!search->shadow || !shadow_holds(search->shadow, slot))
        search->shadow = shadow_of(search->calls, slot);
    if (!search->shadow)
        return false;
    search->met = shadow_at(search->calls, shadow_cell(search->shadow, slot));
    return search->met && is_entry_of(search, search->met);
}

static unsigned agent_module;
static place_t handing_on;

void caller_start(uintptr_t hook, uintptr_t hands_on)
{
    agent_module = place_module(loadmap_place(hook));
    handing_on = loadmap_place(hands_on);
}

// The cost of a hook counts as that of the function that was entered.
static bool is_ours(const struct unwind_frame *frame)
{
    return place_module(frame->place) == agent_module ||
           (place_module(frame->place) == MODULE_ANONYMOUS && entries_is_relay(frame->pc));
}

// A function that was interrupted before its hook has noted it.
static bool is_beginning(const struct unwind_frame *frame)
{
    return is_ours(frame) || (place_offset(frame->function) != PLACE_OFFSET_UNKNOWN &&
                              frame->pc - begin_of(frame) <= ENDBR_BYTES);
}

// Calls that libc makes for the agent do not count; but the agent hands signals on to the program's
// handlers.
static bool is_our_call(struct caller_search *search, const struct unwind_frame *left)
{
    search->signal |= left->function == handing_on;
    return calls_by_sites && !search->signal && is_ours(left);
}

#define NOT_SAVED 0 // it is in its register
#define NOT_KNOWN 1

// A frame was left by this recipe, when the frame pointer was that. A bridge depends on it.
static void note_frame_pointer(struct caller_search *search, const union unwind_recipe *recipe,
                               uintptr_t value)
{
    const uintptr_t offset = (uintptr_t)(recipe->fp_offset * 8L);
    if (recipe->kind == RECIPE_FP && search->pointers < POINTERS)
        search->pointer[search->pointers++] = (struct frame_pointer){value, search->fp_slot};
    else if (recipe->kind != RECIPE_SP)
        search->pointers = POINTERS + 1;
    // Where that of the next frame lies.
    if (recipe->kind > RECIPE_LOADED)
        search->fp_slot = NOT_KNOWN;
    else if (recipe->detail & DETAIL_FP_AT_FP)
        search->fp_slot = value + offset;
    else if (offset)
        search->fp_slot = search->cursor.left.cfa + offset;
}

// Walks on from where the cursor stands. True if an entry was met; else the walk has come to its
// end. Notes the frames that it walks.
static bool walk_to_entry(struct caller_search *search)
{
    for (;;) {
        const union unwind_recipe recipe = search->cursor.recipe;
        const uintptr_t pointer = search->cursor.bp;
        search->recipe_kind = recipe.kind;
        // Generated code, or as good as that: to guess its callers takes long, and the cells know
        // better.
        if ((recipe.kind == RECIPE_ANONYMOUS || recipe.kind == RECIPE_NO_TABLE) && !search->all) {
            search->verdict = VERDICT_NO_CFI;
            search->generated = true;
            return false;
        }
        if (unwind_step(&search->cursor, &search->verdict) != UNWIND_OK)
            return false;
        note_frame_pointer(search, &recipe, pointer);
        const struct unwind_frame *left = &search->cursor.left;
        search->calls->stats->frames_walked++;
        if (search->all && is_ours(left)) {
            search->walked = 0;
            search->pc = search->cursor.frame.pc;
            continue;
        }
        if (is_our_call(search, left)) {
            search->ours = true;
            return false;
        }
        if (!left->ra_slot) { // a signal frame
            search->signal = true;
            search->doubted = is_beginning(&search->cursor.frame);
            // The hook that was interrupted may be looking at a context.
            if (!search->all && is_ours(&search->cursor.frame))
                search->calls->frozen = search->calls->shut_slot;
            continue;
        }
        if (!search->doubted && meets_entry(search))
            return true;
        search->doubted &= is_ours(left);
        search->pier = left->ra_slot;
        if (search->all || has_node(&search->cursor))
            note_frame(search);
    }
}

static void start_search(struct caller_search *search, struct calls_thread *calls, bool all)
{
    search->calls = calls;
    search->shadow = NULL;
    search->met = NULL;
    search->walked = 0;
    search->all = all;
    search->signal = search->ours = search->generated = search->doubted = false;
    search->pier = 0;
    search->fp_slot = NOT_SAVED;
    search->pointers = 0;
    search->verdict = VERDICT_COMPLETE;
}

#define PAGE_BYTES 4096 // modules begin at one

// Code that cannot be unwound: the nearest followed function above whose return address is, still,
// in its slot is the best there is.
static struct node *nearest_above(struct calls_thread *calls, uintptr_t slot)
{
    const struct shadow *own = &calls->own;
    if (!shadow_holds(own, slot))
        return calls->root;
    const uintptr_t end = own->high - slot > FURTHEST ? slot + FURTHEST : own->high;
    for (slot += sizeof slot; slot < end; slot += sizeof slot) {
        struct node *node = shadow_at(calls, shadow_cell(own, slot));
        if (!node)
            continue;
        const place_t site = shadow_edge(calls, node)->site;
        const uintptr_t back = calls_sites_true(*(const uintptr_t *)slot);
        // Most words are no code at all, which takes long to find out.
        if ((place_offset(site) - back) % PAGE_BYTES == 0 && site == loadmap_place(back))
            return node;
    }
    return calls->root;
}

// The walk begins at the frame of the caller. False: it cannot be found.
static bool start_at_caller(struct caller_search *search, const struct known_call *call,
                            struct unwind_bounds own)
{
    const uintptr_t slot = (uintptr_t)call->slot;
    if (calls_by_sites) {
        const struct site_call resolved = calls_sites_resolve(*call->slot, call->back);
        const struct caller_registers caller = {resolved.site, slot + sizeof slot, call->bp};
        unwind_start_here(&search->cursor, &caller, own);
        return true;
    }
    const struct caller_registers hooked = {call->back, slot, call->bp};
    unwind_start_here(&search->cursor, &hooked, own);
    return unwind_step(&search->cursor, &search->verdict) == UNWIND_OK;
}

bool caller_find(struct calls_thread *calls, struct known_call *call, union unwind_recipe *recipe)
{
    struct caller_search search;
    const uintptr_t slot = (uintptr_t)call->slot;
    struct unwind_bounds own = {.low = calls->own.low, .high = calls->own.high};
    if (shadow_holds(&calls->own, slot))
        own.low = slot; // below may be the guard page
    start_search(&search, calls, false);
    bool met = false, followed = false;
    if (start_at_caller(&search, call, own)) {
        followed = is_followed(&search.cursor.frame);
        call->function = calls_by_sites && followed ? search.cursor.frame.function : 0;
        *recipe = search.cursor.recipe;
        met = walk_to_entry(&search);
    }
    call->ours = search.ours;
    struct node *node = calls->root;
    if (met) {
        node = search.met;
        // Walked functions may have returned by the next time, without a trace.
        if (search.shadow == calls->active && search.walked == 0 && !search.signal) {
            call->pier = search.pier;
            call->pointers = search.pointers;
            memcpy(call->pointer, search.pointer, sizeof call->pointer);
            call->noticed = !calls_by_sites || is_followed(&search.cursor.left);
            call->caller_slot = search.cursor.left.ra_slot;
            call->rule = search.recipe_kind == RECIPE_SP   ? CALLER_BY_SLOT
                         : search.recipe_kind == RECIPE_FP ? CALLER_BY_FP
                                                           : CALLER_UNKNOWN;
        }
    } else if (search.generated) {
        node = nearest_above(calls, search.cursor.sp - sizeof slot);
    } else if (search.verdict != VERDICT_COMPLETE) {
        node = nearest_above(calls, slot);
        search.walked = 0;
    }
    if (!call->ours)
        call->caller = take_walked(&search, node, true);
    return followed;
}

bool caller_trace(struct calls_thread *calls, const struct known_call *call,
                  struct deferred_call *missed)
{
    struct caller_search search;
    const uintptr_t slot = (uintptr_t)call->slot;
    struct unwind_bounds own = {.low = calls->own.low, .high = calls->own.high};
    if (shadow_holds(&calls->own, slot))
        own.low = slot;
    start_search(&search, calls, false);
    if (!start_at_caller(&search, call, own))
        return true;
    while (unwind_step(&search.cursor, &search.verdict) == UNWIND_OK) {
        const struct unwind_frame *left = &search.cursor.left;
        search.signal |= !left->ra_slot;
        if (is_our_call(&search, left))
            return false;
        if (shadow_holds(calls->active, left->ra_slot) && left->ra_slot >= missed->hook)
            break;
        if (!left->ra_slot || is_ours(left) || !has_node(&search.cursor))
            continue;
        missed->caller =
            deferred_calls_entry(calls, missed, left->ra_slot, *(uintptr_t *)left->ra_slot);
        if (missed->caller)
            break;
        if (missed->frames++ < MISSED_FRAMES)
            missed->frame[missed->frames - 1] =
                (struct deferred_frame){search.cursor.frame.place, left->function};
    }
    return true;
}

bool caller_was_hook(const void *ucontext)
{
    const char *context = ucontext;
    uintptr_t pc = *(const uintptr_t *)(context + arch_context_offset(ARCH_RA));
    uintptr_t sp = *(const uintptr_t *)(context + arch_context_offset(ARCH_SP));
    bool interrupted = false;
    if (place_module(loadmap_place(pc)) == agent_module) // or a function that we stand in for
        return !arch_may_be_in_system_call(ucontext);
    return entries_is_relay(pc) ||
           (unwind_truth && unwind_truth(&pc, &sp, &interrupted) == UNWIND_AT_CALL);
}

// How deep a node lies, up to a limit.
static uint64_t depth_of(const struct calls_thread *calls, const struct node *node)
{
    uint64_t depth = 0;
    for (; node->parent && depth < FURTHEST; depth++)
        node = shadow_node(calls, node->parent);
    return depth;
}

struct node *caller_of_sample(struct calls_thread *calls, const void *ucontext, uintptr_t *pc)
{
    const char *context = ucontext;
    const uintptr_t sp = *(const uintptr_t *)(context + arch_context_offset(ARCH_SP));
    struct caller_search search;
    const uintptr_t high = calls->own.high;
    struct unwind_bounds own = {
        shadow_holds(&calls->own, sp) ? stack_mapped_from(sp, high) : calls->own.low, high};
    start_search(&search, calls, true);
    unwind_start(&search.cursor, ucontext, own);
    search.doubted = is_beginning(&search.cursor.frame);
    search.pc = *(const uintptr_t *)(context + arch_context_offset(ARCH_RA));
    struct node *node = calls->root;
    if (walk_to_entry(&search)) {
        node = search.met;
        calls->stats->frames_stack += depth_of(calls, node);
        search.verdict = VERDICT_COMPLETE;
    } else if (search.verdict != VERDICT_COMPLETE) {
        search.walked = 0;
        node = nearest_above(calls, sp & -sizeof sp);
    }
    calls->stats->verdicts[search.verdict]++;
    *pc = search.pc;
    return take_walked(&search, node, false);
}
