// SPDX-License-Identifier: MIT
#include "unwind/arch.h"
#include "unwind/recipe.h"
#include "unwind/stack.h"
#include "unwind/walk.h"
#include <string.h>

#define SWITCHES_MOST 128

#define LIKELY(condition) __builtin_expect(!!(condition), 1)

static __attribute__((noinline)) void make_and_remember(uintptr_t pc, bool interrupted,
                                                        struct unwind_recipe *recipe)
{
    recipe_make(pc, interrupted, recipe);
    if (recipe->kind < RECIPE_ANONYMOUS)
        recipe_remember(pc, recipe);
}

// Makes pc the cursor's frame.
static inline __attribute__((always_inline)) void settle(struct unwind_cursor *cursor, uintptr_t pc,
                                                         bool interrupted)
{
    struct unwind_recipe *recipe = &cursor->recipe;
    struct unwind_frame *frame = &cursor->frame;
    uintptr_t lookup = pc - !interrupted;
    if (!LIKELY(recipe_recall(lookup, recipe)))
        make_and_remember(lookup, interrupted, recipe);
    frame->pc = pc;
    frame->place = recipe->function + (uint64_t)(int64_t)recipe->distance + !interrupted;
    frame->flags = interrupted ? FRAME_INTERRUPTED : 0;
    if (LIKELY(recipe->kind <= RECIPE_SIGNAL)) {
        frame->function = recipe->function;
        frame->flags |= FRAME_CFI;
        if (recipe->detail & DETAIL_EH_RETURN)
            frame->flags |= FRAME_EH_RETURN;
        if (recipe->detail & DETAIL_SIGNAL)
            frame->flags |= FRAME_SIGNAL;
    } else {
        frame->function = place_make(place_module(recipe->function), PLACE_OFFSET_UNKNOWN);
    }
}

static void begin(struct unwind_cursor *cursor, struct unwind_bounds bounds, uint32_t known,
                  bool interrupted)
{
    cursor->sp = cursor->registers[ARCH_SP];
    cursor->bp = cursor->registers[ARCH_FP];
    cursor->bounds = cursor->region = bounds;
    cursor->depth = cursor->switches = cursor->guesses = 0;
    cursor->corrected_slot = cursor->corrected_pc = 0;
    cursor->frame = cursor->left = (struct unwind_frame){0};
    settle(cursor, cursor->registers[ARCH_RA], interrupted);
    cursor->known = known;
    cursor->base_depth = 0;
    cursor->base_interrupted = interrupted;
    // Being executed, so it is code, whatever is known of it.
    if (cursor->recipe.kind == RECIPE_NO_CODE)
        cursor->recipe.kind = RECIPE_ANONYMOUS;
}

void unwind_start(struct unwind_cursor *cursor, const void *ucontext, struct unwind_bounds bounds)
{
    for (unsigned i = 0; i < UNWIND_REGISTERS; i++)
        cursor->registers[i] =
            *(const uintptr_t *)((const char *)ucontext + arch_context_offset(i));
    begin(cursor, bounds, ARCH_ALL_KNOWN, true);
}

void unwind_start_here(struct unwind_cursor *cursor, uintptr_t pc, uintptr_t sp, uintptr_t bp,
                       struct unwind_bounds bounds)
{
    cursor->registers[ARCH_RA] = pc;
    cursor->registers[ARCH_SP] = sp;
    cursor->registers[ARCH_FP] = bp;
    begin(cursor, bounds, 1u << ARCH_SP | 1u << ARCH_FP | 1u << ARCH_RA, false);
}

void unwind_correct(struct unwind_cursor *cursor, uintptr_t pc)
{
    bool interrupted = cursor->frame.flags & FRAME_INTERRUPTED;
    cursor->corrected_slot = cursor->left.ra_slot;
    cursor->corrected_pc = pc;
    if (cursor->base_depth == cursor->depth)
        cursor->registers[ARCH_RA] = pc;
    settle(cursor, pc, interrupted);
}

static inline __attribute__((always_inline)) void leave(struct unwind_cursor *cursor, uintptr_t cfa,
                                                        uintptr_t sp, uintptr_t fp, uintptr_t slot)
{
    cursor->left = cursor->frame;
    cursor->left.cfa = cfa;
    cursor->left.ra_slot = slot;
    cursor->sp = sp;
    cursor->bp = fp;
    cursor->depth++;
}

static enum unwind_result end(enum verdict *verdict, enum verdict reason)
{
    *verdict = reason;
    return UNWIND_END;
}

// Every stack grows down, so every caller is above; what is not must be another stack, of which
// there are not many. At the same height: the end of a longjmp, or a frame of no size.
static bool goes_up(struct unwind_cursor *cursor, uintptr_t sp)
{
    if (sp > cursor->sp)
        return true;
    bool level = sp == cursor->sp &&
                 (cursor->recipe.kind == RECIPE_FULL || cursor->recipe.detail & DETAIL_SIGNAL);
    if (!level && stack_holds(&cursor->bounds, sp) && stack_holds(&cursor->bounds, cursor->sp))
        return false;
    return cursor->switches++ < SWITCHES_MOST;
}

static enum unwind_result move(struct unwind_cursor *cursor, const struct caller *caller,
                               enum verdict *verdict)
{
    if (!goes_up(cursor, caller->sp))
        return end(verdict, VERDICT_BAD_STACK);
    bool by_table = cursor->frame.flags & FRAME_CFI;
    leave(cursor, caller->cfa, caller->sp, caller->fp, caller->slot);
    // Some coroutine libraries end their stacks with a null return address; so does zeroed memory
    // at the end of a guess.
    if (caller->pc == 0)
        return end(verdict, by_table && cursor->guesses == 0 ? VERDICT_COMPLETE : VERDICT_BAD_PC);
    settle(cursor, caller->pc, caller->interrupted);
    if (cursor->recipe.kind == RECIPE_UNLOADING)
        return end(verdict, VERDICT_UNLOADING);
    if (cursor->recipe.kind == RECIPE_NO_CODE) {
        // Generated code that the load map has not met yet?
        if (!caller->interrupted && !guess_follows_call_anywhere(caller->pc))
            return end(verdict, VERDICT_BAD_PC);
        cursor->recipe.kind = RECIPE_ANONYMOUS;
    }
    return UNWIND_OK;
}

static bool register_value(struct unwind_cursor *cursor, unsigned reg, uintptr_t *value)
{
    if (reg == ARCH_SP || reg == ARCH_FP) {
        *value = reg == ARCH_SP ? cursor->sp : cursor->bp;
        return true;
    }
    if (cursor->base_depth != cursor->depth)
        full_catch_up(cursor);
    *value = cursor->registers[reg];
    return cursor->known >> reg & 1;
}

// All that a cached recipe can say, with every load checked.
static bool follow_recipe(struct unwind_cursor *cursor, struct caller *caller,
                          enum verdict *verdict)
{
    const struct unwind_recipe *recipe = &cursor->recipe;
    uintptr_t value, where = 0;
    *verdict = VERDICT_BAD_CFI;
    if (!register_value(cursor, recipe->detail & DETAIL_REGISTER, &value))
        return false;
    *verdict = VERDICT_BAD_STACK;
    if (recipe->kind == RECIPE_LOADED) {
        int16_t inner = (int16_t)recipe->cfa_offset;
        if (!stack_load(cursor, value + (uintptr_t)(intptr_t)inner, &value))
            return false;
        caller->cfa = value + (uintptr_t)(intptr_t)(recipe->cfa_offset >> 16);
    } else {
        caller->cfa = value + (uintptr_t)(intptr_t)recipe->cfa_offset;
    }
    unsigned fp = (recipe->detail & DETAIL_FP) >> DETAIL_FP_SHIFT;
    caller->fp = cursor->bp;
    if (fp != FP_SAME)
        where = (fp == FP_AT_CFA ? caller->cfa : cursor->bp) + (uintptr_t)(recipe->fp_offset * 8L);
    if (where && !stack_load(cursor, where, &caller->fp))
        return false;
    caller->slot = caller->cfa + (uintptr_t)(intptr_t)ARCH_RA_OFFSET;
    caller->sp = caller->cfa;
    caller->interrupted = recipe->detail & DETAIL_SIGNAL;
    return stack_load(cursor, caller->slot, &caller->pc);
}

static enum unwind_result step_signal(struct unwind_cursor *cursor, enum verdict *verdict)
{
    uintptr_t context = cursor->sp, values[UNWIND_REGISTERS];
    if (cursor->switches++ >= SWITCHES_MOST)
        return end(verdict, VERDICT_BAD_STACK);
    for (unsigned i = 0; i < UNWIND_REGISTERS; i++)
        if (!stack_load(cursor, context + arch_context_offset(i), &values[i]))
            return end(verdict, VERDICT_BAD_STACK);
    leave(cursor, values[ARCH_SP], values[ARCH_SP], values[ARCH_FP], 0);
    settle(cursor, values[ARCH_RA], true);
    if (cursor->recipe.kind == RECIPE_UNLOADING)
        return end(verdict, VERDICT_UNLOADING);
    if (cursor->recipe.kind == RECIPE_NO_CODE)
        cursor->recipe.kind = RECIPE_ANONYMOUS;
    memcpy(cursor->registers, values, sizeof values);
    full_restart(cursor, ARCH_ALL_KNOWN);
    return UNWIND_OK;
}

static enum unwind_result step_guess(struct unwind_cursor *cursor, enum verdict *verdict,
                                     enum verdict reason)
{
    struct caller caller;
    if (cursor->recipe.kind == RECIPE_NO_TABLE && guess_is_root(cursor))
        return end(verdict, VERDICT_COMPLETE);
    if (!guess_step(cursor, &caller))
        return end(verdict, reason);
    cursor->guesses++;
    enum unwind_result result = move(cursor, &caller, verdict);
    full_restart(cursor, 1u << ARCH_SP | 1u << ARCH_FP | 1u << ARCH_RA);
    return result;
}

static __attribute__((noinline)) enum unwind_result step_slowly(struct unwind_cursor *cursor,
                                                                enum verdict *verdict)
{
    struct caller caller;
    bool found;
    switch (cursor->recipe.kind) {
    case RECIPE_ROOT:
        return end(verdict, VERDICT_COMPLETE);
    case RECIPE_SIGNAL:
        return step_signal(cursor, verdict);
    case RECIPE_UNLOADING:
        return end(verdict, VERDICT_UNLOADING);
    case RECIPE_NO_TABLE:
    case RECIPE_ANONYMOUS:
        return step_guess(cursor, verdict, VERDICT_NO_CFI);
    case RECIPE_BAD:
        return step_guess(cursor, verdict, VERDICT_BAD_CFI);
    case RECIPE_NO_CODE:
        return end(verdict, VERDICT_BAD_PC);
    case RECIPE_FULL:
        found = full_step(cursor, &caller, verdict);
        break;
    default:
        found = follow_recipe(cursor, &caller, verdict);
    }
    if (found && (caller.sp > cursor->sp || cursor->guesses == 0))
        return move(cursor, &caller, verdict);
    // A guess leaves the frame pointer as it was, which may be wrong: tables that build on it lead
    // nowhere.
    if (cursor->guesses != 0 && *verdict != VERDICT_COMPLETE)
        return step_guess(cursor, verdict, VERDICT_BAD_STACK);
    return UNWIND_END;
}

enum unwind_result unwind_step(struct unwind_cursor *cursor, enum verdict *verdict)
{
    const struct unwind_recipe *recipe = &cursor->recipe;
    uintptr_t sp = cursor->sp, fp = cursor->bp;
    if (!LIKELY(recipe->kind <= RECIPE_FP) || recipe->detail & (FP_AT_FP << DETAIL_FP_SHIFT))
        return step_slowly(cursor, verdict);
    uintptr_t cfa = (recipe->kind == RECIPE_SP ? sp : fp) + (uintptr_t)(intptr_t)recipe->cfa_offset;
    uintptr_t slot = cfa + (uintptr_t)(intptr_t)ARCH_RA_OFFSET;
    if (!LIKELY(cfa > sp && stack_holds(&cursor->region, slot)) || recipe->detail & DETAIL_SIGNAL)
        return step_slowly(cursor, verdict);
    if (recipe->detail & (FP_AT_CFA << DETAIL_FP_SHIFT)) {
        uintptr_t where = cfa + (uintptr_t)(recipe->fp_offset * 8L);
        if (!LIKELY(stack_holds(&cursor->region, where)))
            return step_slowly(cursor, verdict);
        fp = *(const uintptr_t *)where;
    }
    uintptr_t ra = *(const uintptr_t *)slot;
    if (!LIKELY(ra != 0))
        return step_slowly(cursor, verdict);
    leave(cursor, cfa, cfa, fp, slot);
    settle(cursor, ra, false);
    if (LIKELY(cursor->recipe.kind < RECIPE_UNLOADING))
        return UNWIND_OK;
    if (cursor->recipe.kind == RECIPE_UNLOADING)
        return end(verdict, VERDICT_UNLOADING);
    if (!guess_follows_call_anywhere(ra))
        return end(verdict, VERDICT_BAD_PC);
    cursor->recipe.kind = RECIPE_ANONYMOUS;
    return UNWIND_OK;
}

uint64_t unwind_bytes(void)
{
    return sizeof recipe_sets;
}
