// SPDX-License-Identifier: MIT
#include "patch/functions/leaf_functions.h"
#include "patch/functions/functions.h"
#include "patch/functions/jump_table.h"

enum { NOT_KNOWN, BEING_ASKED, LEAF, NO_LEAF };

#define BODY_MOST 8

// Functions that jump into one another: they run on one frame.
struct body {
    struct patch_function *one[BODY_MOST];
    unsigned count;
    bool failed;
    unsigned height;  // of the calls below it
    bool is_too_high; // something called is, for the height that it may have
};

static void join(struct body *body, struct patch_function *function)
{
    for (unsigned i = 0; i < body->count; i++)
        if (body->one[i] == function)
            return;
    if (!function || function->module->refused || body->count == BODY_MOST)
        body->failed = true;
    else
        body->one[body->count++] = function;
}

static void join_part(uintptr_t part, void *context)
{
    join(context, functions_at(part));
}

// The function behind an exit; NULL: not known, or it may change.
static struct patch_function *behind(const struct patch_function *from, uintptr_t target)
{
    const uintptr_t slot = functions_plt_slot(from->module, target);
    if (!slot)
        return functions_at(target);
    const uintptr_t bound =
        functions_slot_must_stay(from->module, slot) ? 0 : functions_slot_target(slot);
    struct patch_function *function = bound ? functions_at(bound) : NULL;
    return function && function->module->ref.permanent ? function : NULL;
}

static bool is_leaf(struct patch_function *function, unsigned height, bool *too_high);

static void follow(struct body *body, const struct patch_function *from, unsigned exit,
                   unsigned height)
{
    const struct patch_exits *exits = &from->exits;
    const uintptr_t target = exits->to[exit];
    if (exits->through >> exit & 1) {
        body->failed |= !jump_table_stays(target, join_part, body);
        return;
    }
    struct patch_function *other = behind(from, target);
    if (!(exits->calls >> exit & 1)) {
        join(body, other);
        body->failed |= other && other->named;
        return;
    }
    body->is_too_high |= height == 0;
    if (!other || !other->whole || height == 0 || !is_leaf(other, height - 1, &body->is_too_high))
        body->failed = true;
    else if (other->height + 1u > body->height)
        body->height = other->height + 1u;
}

// With so many calls below it at most.
static bool is_leaf(struct patch_function *function, unsigned height, bool *too_high)
{
    struct body body = {0};
    if (function->leaf != NOT_KNOWN) {
        *too_high |= function->leaf == LEAF && function->height > height;
        return function->leaf == LEAF && function->height <= height;
    }
    if (height < function->no_leaf_below) {
        *too_high = true;
        return false;
    }
    function->leaf = BEING_ASKED;
    body.failed = function->named;
    join(&body, function);
    // Exit by exit: most functions are no leaves because of one of their first calls.
    for (unsigned i = 0; i < body.count && !body.failed; i++) {
        for (unsigned k = 0; !body.failed && functions_examine_exit(body.one[i], k); k++)
            follow(&body, body.one[i], k, height);
        body.failed |= body.one[i]->exits.anywhere;
    }
    // Of what it jumps to, nothing is said: that may be less high.
    function->leaf = !body.failed ? LEAF : body.is_too_high ? NOT_KNOWN : NO_LEAF;
    function->height = (uint8_t)body.height;
    if (body.failed && body.is_too_high)
        function->no_leaf_below = (uint8_t)(height + 1);
    *too_high |= body.is_too_high;
    return !body.failed;
}

struct teller {
    void (*each)(uintptr_t function, void *context);
    void *context;
};

static void tell_part(uintptr_t part, void *context);

static void tell(struct patch_function *function, const struct teller *teller)
{
    if (!function || function->told)
        return;
    function->told = true;
    teller->each(function->start, teller->context);
    for (unsigned i = 0; i < function->exits.count; i++)
        if (function->exits.through >> i & 1)
            jump_table_stays(function->exits.to[i], tell_part, (void *)teller);
        else
            tell(behind(function, function->exits.to[i]), teller);
}

static void tell_part(uintptr_t part, void *context)
{
    tell(functions_at(part), context);
}

bool leaf_function_is(uintptr_t address, void (*each)(uintptr_t function, void *context),
                      void *context)
{
    const struct teller teller = {each, context};
    bool too_high = false;
    struct patch_function *function = functions_at(address);
    const bool leaf = function && function->whole && function->start == address &&
                      is_leaf(function, LEAF_HEIGHT, &too_high);
    if (leaf)
        tell(function, &teller);
    return leaf;
}
