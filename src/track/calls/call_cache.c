// SPDX-License-Identifier: MIT
#include "track/calls/call_cache.h"
#include "patch/entries/entries.h"
#include <string.h>

_Static_assert(
    sizeof(struct known_context) == 32 && offsetof(struct known_context, place) == 8 &&
        offsetof(struct known_context, back) == 16 && offsetof(struct known_context, child) == 20 &&
        offsetof(struct known_context, edge) == 24 &&
        offsetof(struct known_context, distance) == 28 && sizeof(struct condition) == 32 &&
        offsetof(struct condition, bottom) == 8 && offsetof(struct condition, returns_at) == 16 &&
        offsetof(struct condition, bottom_at) == 20 && offsetof(struct condition, pointer) == 24 &&
        offsetof(struct condition, pointer_at) == 28 &&
        offsetof(struct calls_thread, amount) == 8 &&
        offsetof(struct calls_thread, own_shift) == 16 &&
        offsetof(struct calls_thread, base) == 24 && offsetof(struct calls_thread, stack) == 32 &&
        offsetof(struct calls_thread, contexts) == 64 && CONTEXTS == 16384 &&
        offsetof(struct calls_thread, conditions) == 64 + CONTEXTS * 32 &&
        offsetof(struct calls_thread, children) == 64 + CONTEXTS * 64 && CHILDREN == 8192 &&
        sizeof(struct kept_child) == 16 && CALL_CACHE_BY_FP == 1 && CALL_CACHE_BRIDGED == 2 &&
        CALL_CACHE_BY_BOTTOM == 4 && offsetof(struct node, parent) == 0 &&
        offsetof(struct node, edge) == 4 && offsetof(struct node, child) == 8 &&
        offsetof(struct node, value) == 16,
    "calls_x86_64.S relies on the layout");

// As calls_x86_64.S has them.

static uint32_t hash_call(uintptr_t site, uintptr_t back, uintptr_t slot)
{
    const uint32_t by_site = ((uint32_t)site + (uint32_t)back * 4) * UINT32_C(0x3c6ef360);
    return (by_site + (uint32_t)slot * 2) / sizeof(struct known_context) % CONTEXTS;
}

// A handler that has interrupted the short way must leave contexts alone: that way reads the parts
// of one after the other.
static bool is_frozen(struct calls_thread *calls, uintptr_t slot)
{
    if (!calls->frozen)
        return false;
    if (slot <= calls->frozen && shadow_holds(calls->active, calls->frozen))
        return true;
    calls->frozen = 0;
    return false;
}

// In a tree that forgets, counters are of the event alone: calls beside it have none there.
static bool is_counted(const struct calls_thread *calls)
{
    return !calls->beside || !calls->amount ||
           !tree_forgets_read(calls->arena, UINT64_MAX, calls->tree);
}

static uint32_t distance_of(const struct known_call *call, uintptr_t place)
{
    return (uint32_t)(place - (uintptr_t)call->slot);
}

// The lower half of a frame pointer is enough if it is near.
static bool is_near(const struct known_call *call, uintptr_t pointer)
{
    return pointer - (uintptr_t)call->slot < UINT32_MAX;
}

// Words that need no check are replaced by one that is checked anyway. False: there is too much to
// look at.
static bool describe_bridge(const struct known_call *call, struct known_context *context,
                            struct condition *condition)
{
    const uintptr_t pier = call->pier ? call->pier : call->caller_slot;
    const uintptr_t bottom = call->noticed ? pier : call->caller_slot;
    bool bottom_is_free = call->noticed, pointer_is_free = true;
    condition->returns = *(const uintptr_t *)pier;
    condition->returns_at = condition->pointer_at = distance_of(call, pier);
    condition->bottom = *(const uintptr_t *)bottom;
    condition->bottom_at = distance_of(call, bottom);
    condition->pointer = (uint32_t)condition->returns;
    context->place |= CALL_CACHE_BRIDGED | (call->noticed ? 0 : CALL_CACHE_BY_BOTTOM);
    if (call->pointers > POINTERS)
        return false;
    for (const struct frame_pointer *at = call->pointer; at < call->pointer + call->pointers;
         at++) {
        if (at->slot % sizeof at->slot || at->slot >= call->caller_slot ||
            !is_near(call, at->value))
            return false;
        if (pointer_is_free) { // the youngest first: it alone may be in its register
            context->place |= at->slot ? 0 : CALL_CACHE_BY_FP;
            condition->pointer = (uint32_t)at->value;
            condition->pointer_at = at->slot ? distance_of(call, at->slot) : 0;
            pointer_is_free = false;
        } else if (bottom_is_free && at->slot) {
            condition->bottom = at->value;
            condition->bottom_at = distance_of(call, at->slot);
            context->place |= CALL_CACHE_BY_BOTTOM;
            bottom_is_free = false;
        } else {
            return false;
        }
    }
    return true;
}

// False if it is nothing for the short way.
static bool describe(const struct known_call *call, struct known_context *context,
                     struct condition *condition)
{
    const uintptr_t slot = (uintptr_t)call->slot;
    const uintptr_t distance = call->caller_slot - slot;
    if (call->caller_slot <= slot || distance > INT32_MAX || slot % 8 || distance % 8)
        return false;
    context->distance = (int32_t)distance / 2;
    context->place = slot;
    if (call->pier || !call->noticed)
        return describe_bridge(call, context, condition);
    if (call->rule == CALLER_BY_FP) {
        context->place |= CALL_CACHE_BY_FP;
        condition->pointer = (uint32_t)call->bp;
        return is_near(call, call->bp);
    }
    return call->rule == CALLER_BY_SLOT;
}

// A function of libc that is called from two places has two conditions, side by side.
static bool is_same_call(const struct calls_thread *calls, uint32_t place,
                         const struct known_context *wanted, const struct condition *condition)
{
    const struct known_context *context = &calls->contexts[place];
    return context->site == wanted->site && context->back == wanted->back &&
           context->place == wanted->place &&
           (!(wanted->place & CALL_CACHE_BRIDGED) ||
            calls->conditions[place].bottom == condition->bottom);
}

static void put(struct calls_thread *calls, uint32_t place, const struct known_context *context,
                const struct condition *condition)
{
    calls->contexts[place] = *context;
    if (context->place % 8) // most have none, and their place in memory is not touched
        calls->conditions[place] = *condition;
}

static inline void keep_node(struct calls_thread *calls, ref_t parent, ref_t edge, ref_t node)
{
    const uint64_t key = (uint64_t)edge << 32 | parent;
    struct kept_child *place = call_cache_place_of_node(calls, parent, edge);
    if (place->key && place->key != key)
        calls->children[(place - calls->children) ^ 1] = *place;
    *place = (struct kept_child){.key = key, .node = node};
}

// True if the call is known, without a condition, and only leads to another child than before.
static bool keep_again(struct calls_thread *calls, const struct known_call *call,
                       const struct node *child)
{
    const uintptr_t site = *call->slot, slot = (uintptr_t)call->slot;
    struct known_context *known = &calls->contexts[hash_call(site, call->back, slot)];
    const ref_t edge = tree_node_edge(child);
    if (known->site != site || known->back != (uint32_t)call->back || known->place != slot ||
        known->edge != edge || call->pier || call->rule != CALLER_BY_SLOT ||
        known->distance != (int32_t)((call->caller_slot - slot) / 2))
        return false;
    known->child = shadow_ref(calls, child);
    keep_node(calls, child->parent, edge, known->child);
    return true;
}

void call_cache_keep(struct calls_thread *calls, const struct known_call *call, struct node *child)
{
    const uintptr_t site = *call->slot, slot = (uintptr_t)call->slot;
    const ref_t caller = shadow_ref(calls, call->caller);
    struct condition condition = {.returns = 0};
    // In a tree that forgets, the short way looks at the node itself, whatever is kept here.
    if (!calls->frozen && child->parent == caller &&
        (calls->exact ? tree_node_stays(calls->arena, calls->tree, shadow_ref(calls, child))
                      : !calls->beside) &&
        keep_again(calls, call, child))
        return;
    struct known_context fresh = {.site = site,
                                  .back = (uint32_t)call->back,
                                  .child = shadow_ref(calls, child),
                                  // The short way may not count on a node that has the bit.
                                  .edge = tree_node_edge(child)};
    if (calls->active != &calls->own || child->parent != caller || entries_are_ambiguous() ||
        !is_counted(calls) || is_frozen(calls, slot) || !describe(call, &fresh, &condition) ||
        (calls->exact && !tree_node_stays(calls->arena, calls->tree, fresh.child)))
        return;
    keep_node(calls, caller, fresh.edge, fresh.child);
    const uint32_t place = hash_call(site, call->back, slot);
    // An old entry moves to the place beside: both are looked up.
    if (calls->contexts[place].site && !is_same_call(calls, place, &fresh, &condition))
        put(calls, place ^ 1, &calls->contexts[place], &calls->conditions[place]);
    put(calls, place, &fresh, &condition);
}

void call_cache_forget_all(struct calls_thread *calls)
{
    memset(calls->contexts, 0, sizeof calls->contexts);
}
