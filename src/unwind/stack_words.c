// SPDX-License-Identifier: MIT
#include "unwind/arch.h"
#include "unwind/recipe.h"
#include "unwind/stack.h"
#include "unwind/unwind.h"

// A walk that notes what it reads.
struct word_walk {
    struct unwind_trail *trail;
    struct unwind_bounds bounds;
    size_t most;
    uintptr_t sp, fp;
    uintptr_t fp_place; // where fp was loaded from; 0: it is the register
    bool fp_noted;
};

static bool note(struct word_walk *walk, uintptr_t place, uintptr_t *value)
{
    struct unwind_trail *trail = walk->trail;
    if (trail->count == walk->most || !stack_holds(&walk->bounds, place))
        return false;
    *value = *(const stack_word *)place;
    trail->words[trail->count++] = (struct unwind_word){place, *value};
    return true;
}

// The frame pointer matters, as it has not until now: functions that use the register for something
// else save it, too, and what they save is any value.
static bool use_fp(struct word_walk *walk)
{
    uintptr_t value;
    if (walk->fp_noted)
        return true;
    walk->fp_noted = true;
    if (walk->fp_place)
        return note(walk, walk->fp_place, &value);
    walk->trail->by_fp = true;
    return true;
}

static bool find_cfa(struct word_walk *walk, const union unwind_recipe *recipe, uintptr_t *cfa)
{
    const unsigned kind = recipe->kind;
    const unsigned base = kind == RECIPE_SP   ? ARCH_SP
                          : kind == RECIPE_FP ? ARCH_FP
                                              : recipe->detail >> DETAIL_REGISTER_SHIFT;
    if (kind > RECIPE_LOADED || (base != ARCH_SP && base != ARCH_FP))
        return false;
    if (base == ARCH_FP && !use_fp(walk))
        return false;
    *cfa = base == ARCH_SP ? walk->sp : walk->fp;
    if (kind != RECIPE_LOADED) {
        *cfa += (uintptr_t)(intptr_t)recipe->cfa_offset;
        return true;
    }
    if (!note(walk, *cfa + (uintptr_t)(intptr_t)(int16_t)recipe->cfa_offset, cfa))
        return false;
    *cfa += (uintptr_t)(intptr_t)(recipe->cfa_offset >> 16);
    return true;
}

static bool find_fp(struct word_walk *walk, const union unwind_recipe *recipe, uintptr_t cfa)
{
    const uintptr_t distance = (uintptr_t)(recipe->fp_offset * 8L);
    if (!recipe->fp_offset && !(recipe->detail & DETAIL_FP_AT_FP))
        return true;
    if (recipe->detail & DETAIL_FP_AT_FP && !use_fp(walk))
        return false;
    const uintptr_t place = (recipe->detail & DETAIL_FP_AT_FP ? walk->fp : cfa) + distance;
    if (place < walk->sp || !stack_holds(&walk->bounds, place))
        return false;
    walk->fp = *(const stack_word *)place;
    walk->fp_place = place;
    walk->fp_noted = false;
    return true;
}

// The return address that the program would have without stubs.
static bool is_plain(uintptr_t *pc, uintptr_t sp)
{
    uintptr_t behind = sp;
    bool interrupted = false;
    return !unwind_truth || !unwind_truth(pc, &behind, &interrupted) ||
           (behind == sp && !interrupted);
}

// The recipe of a return address. Code that leads calls elsewhere (stubs) has no recipe in the
// cache, so its owner is asked only if there is none.
static bool find_recipe(uintptr_t *pc, uintptr_t sp, union unwind_recipe *recipe)
{
    if (recipe_recall(recipe_set_of_call(*pc), *pc, recipe))
        return true;
    return is_plain(pc, sp) && recipe_recall(recipe_set_of_call(*pc), *pc, recipe);
}

bool unwind_follow(struct unwind_trail *trail, size_t most, const struct caller_registers *caller,
                   struct unwind_bounds bounds, uintptr_t stop)
{
    struct word_walk walk = {
        .trail = trail, .bounds = bounds, .most = most, .sp = caller->sp, .fp = caller->bp};
    uintptr_t pc = caller->pc;
    trail->count = trail->frames = 0;
    trail->by_fp = trail->stopped = false;
    for (;;) {
        union unwind_recipe recipe;
        uintptr_t cfa;
        if (!find_recipe(&pc, walk.sp, &recipe))
            return false;
        trail->frames++;
        if (recipe.kind == RECIPE_ROOT)
            return true;
        if (recipe.detail & (FRAME_SIGNAL | FRAME_EH_RETURN) || !find_cfa(&walk, &recipe, &cfa) ||
            cfa <= walk.sp || !find_fp(&walk, &recipe, cfa))
            return false;
        const uintptr_t slot = cfa + (uintptr_t)(intptr_t)ARCH_RA_OFFSET;
        if (!note(&walk, slot, &pc) || pc == 0)
            return false;
        trail->stopped = slot == stop;
        if (trail->stopped)
            return true;
        walk.sp = cfa;
    }
}
