// SPDX-License-Identifier: MIT
#include "track/context.h"
#include <string.h>

#define BY_FP 1u

_Static_assert(sizeof(struct context) == 64 && offsetof(struct context, place) == 16 &&
                   offsetof(struct context, cell) == 24 && offsetof(struct context, caller) == 32 &&
                   offsetof(struct context, child) == 40 && offsetof(struct context, key) == 48 &&
                   offsetof(struct context, distance) == 56 &&
                   offsetof(struct context, also) == 60 &&
                   offsetof(struct calls_thread, latest) == 8 &&
                   offsetof(struct calls_thread, amount) == 16 &&
                   offsetof(struct calls_thread, own_shift) == 24 &&
                   offsetof(struct calls_thread, contexts) == 64 && CONTEXTS == 4096 &&
                   offsetof(struct node, parent) == 4 && offsetof(struct node, value) == 16,
               "calls_x86_64.S relies on the layout");

// As calls_x86_64.S has it.
static uint32_t hash_call(uintptr_t site, uintptr_t back, uintptr_t slot)
{
    const uint32_t by_slot = (uint32_t)slot * UINT32_C(0x9e3779b1) >> 16;
    return (by_slot + (uint32_t)site + (uint32_t)back * 4) % CONTEXTS;
}

static uint32_t hash_caller(const struct node *caller)
{
    return (uint32_t)(uintptr_t)caller * UINT32_C(0x9e3779b1) >> 14 & (CONTEXTS - 1);
}

// A handler that has interrupted the short way must leave contexts alone: that way reads the parts
// of one after the other.
static bool is_frozen(struct calls_thread *calls, uintptr_t slot)
{
    if (!calls->frozen)
        return false;
    const struct shadow *shadow = calls->active;
    if (slot <= calls->frozen && shadow_holds(shadow, calls->frozen))
        return true;
    calls->frozen = 0;
    return false;
}

// Of another stack nothing is kept until the program has come back to it: there may be thousands
// that come and go, and each time that the shadow goes to another one its contexts must.
static bool is_worth_it(const struct calls_thread *calls)
{
    return calls->active == &calls->own || calls->active->visits > 1;
}

// True if the call looks as it did, but for the node of the caller: see calls_x86_64.S.
static bool is_same_call(const struct context *context, const struct context *wanted)
{
    return context->site == wanted->site && context->back == wanted->back &&
           context->cell == wanted->cell && context->place == wanted->place &&
           context->also == wanted->also && context->distance == wanted->distance;
}

static bool describe(const struct calls_thread *calls, const struct known_call *call,
                     struct context *context)
{
    const uintptr_t slot = (uintptr_t)call->slot;
    const uintptr_t distance = call->caller_slot - slot;
    if (call->caller_slot <= slot || distance > INT32_MAX)
        return false;
    context->distance = (int32_t)distance;
    context->place = slot;
    if (call->pier) { // what is read there must be memory for sure
        if (call->rule != CALLER_BY_SLOT || calls->active != &calls->own)
            return false;
        context->place = *(const uintptr_t *)call->pier;
        context->also = (uint32_t)(call->pier - slot);
    } else if (call->rule == CALLER_BY_FP) {
        context->place |= BY_FP;
        context->also = (uint32_t)call->bp;
        return call->bp - slot < UINT32_MAX; // so the half tells it all
    }
    return call->rule == CALLER_BY_SLOT;
}

void context_keep(struct calls_thread *calls, const struct known_call *call, struct node *child)
{
    const uintptr_t site = *call->slot, slot = (uintptr_t)call->slot;
    uint64_t key;
    memcpy(&key, child, sizeof key);
    struct context fresh = {
        .site = site,
        .back = call->back,
        .cell = shadow_cell(calls->active, slot),
        .caller = call->caller,
        .child = child,
        .key = key & ~(uint64_t)TREE_UNMONITORED, // the short way may not count on such a node
    };
    if (is_frozen(calls, slot) || !is_worth_it(calls) || !describe(calls, call, &fresh))
        return;
    const uint32_t place = hash_call(site, call->back, slot);
    struct context *context = &calls->contexts[place];
    if (is_same_call(context, &fresh) && context->caller != call->caller)
        context = &calls->contexts[place ^ hash_caller(call->caller)];
    *context = fresh;
    calls->active->remembered = true;
}

void context_forget_all(struct calls_thread *calls)
{
    memset(calls->contexts, 0, sizeof calls->contexts);
}
