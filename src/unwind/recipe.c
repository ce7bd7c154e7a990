// SPDX-License-Identifier: MIT
#include "unwind/recipe.h"
#include "unwind/cfi.h"
#include "unwind/expression.h"

_Static_assert(sizeof(struct unwind_recipe) == 24, "an entry is half a cache line");
_Static_assert(sizeof(struct recipe_set) == 64, "a set is a cache line");

struct recipe_set recipe_sets[RECIPE_SETS];

#define KEY_BUSY 1 // no pc is looked up at 1

static bool fits(int64_t value, unsigned bits)
{
    int64_t limit = INT64_C(1) << (bits - 1);
    return value >= -limit && value < limit;
}

static bool cfa_from_register(struct unwind_recipe *recipe, unsigned reg, int64_t offset)
{
    if (reg >= ARCH_RA || !fits(offset, 32))
        return false;
    recipe->kind = reg == ARCH_SP ? RECIPE_SP : reg == ARCH_FP ? RECIPE_FP : RECIPE_REGISTER;
    recipe->cfa_offset = (int32_t)offset;
    recipe->detail |= (uint8_t)reg;
    return true;
}

static bool cfa_from_expression(struct unwind_recipe *recipe, const struct expression *expression)
{
    struct term term;
    if (!expression_fold(expression, &term))
        return false;
    int64_t outer = (int64_t)term.outer;
    if (term.kind == TERM_REGISTER)
        return cfa_from_register(recipe, term.reg, outer);
    if (term.kind != TERM_LOADED || term.reg >= ARCH_RA || !fits(term.inner, 16) ||
        !fits(outer, 16))
        return false;
    recipe->kind = RECIPE_LOADED;
    recipe->cfa_offset = (int32_t)((uint32_t)(uint16_t)term.inner | (uint32_t)outer << 16);
    recipe->detail |= term.reg;
    return true;
}

static bool fp_from_rule(struct unwind_recipe *recipe, struct rule rule,
                         const struct module_ref *module)
{
    int64_t offset = rule.value;
    unsigned where = FP_AT_CFA;
    struct term term;
    switch (rule.kind) {
    case RULE_SAME:
    case RULE_UNDEFINED: // the caller's value is lost, so nothing will ask for it
        return true;
    case RULE_OFFSET:
        break;
    case RULE_EXPRESSION:
        // Not with the CFA pushed first: the shape that compilers use, fp + offset, drops it.
        if (!expression_fold(&(struct expression){.module = module, .block = (uintptr_t)rule.value},
                             &term) ||
            term.kind != TERM_REGISTER || term.reg != ARCH_FP)
            return false;
        offset = (int64_t)term.outer;
        where = FP_AT_FP;
        break;
    default:
        return false;
    }
    if (offset % 8 || !fits(offset / 8, 16))
        return false;
    recipe->fp_offset = (int16_t)(offset / 8);
    recipe->detail |= (uint8_t)(where << DETAIL_FP_SHIFT);
    return true;
}

// The trampoline that the kernel returns through, met as a return address (the byte after pc is its
// first) or interrupted at one of its two instructions.
static uintptr_t trampoline_at(const struct module_ref *module, uintptr_t pc)
{
    static const int distance[] = {1, 0, -ARCH_SIGRETURN_SECOND};
    for (unsigned i = 0; i < 3; i++) {
        uintptr_t at = pc + (uintptr_t)(intptr_t)distance[i];
        if (at >= module->code_start && at < module->code_end &&
            arch_is_sigreturn((const unsigned char *)at, module->code_end - at))
            return at;
    }
    return 0;
}

static void recipe_from_row(struct unwind_recipe *recipe, const struct cfi_row *row,
                            const struct module_ref *module, const uintptr_t *pc)
{
    struct rule ra = row->rule[ARCH_RA_SLOT];
    recipe->kind = RECIPE_FULL;
    if (ra.kind == RULE_UNDEFINED) {
        recipe->kind = RECIPE_ROOT;
        return;
    }
    if (ra.kind != RULE_OFFSET || ra.value != ARCH_RA_OFFSET ||
        row->rule[ARCH_SP_SLOT].kind != RULE_SAME)
        return;
    uint8_t detail = recipe->detail;
    struct expression expression = {
        .module = module, .block = (uintptr_t)row->cfa_offset, .pc = pc};
    bool simple = row->cfa_is_expression
                      ? cfa_from_expression(recipe, &expression)
                      : cfa_from_register(recipe, row->cfa_register, row->cfa_offset);
    if (!simple || !fp_from_rule(recipe, row->rule[ARCH_FP_SLOT], module)) {
        recipe->kind = RECIPE_FULL;
        recipe->detail = detail;
    }
}

static void recipe_in_module(const struct module_ref *module, uintptr_t pc, bool interrupted,
                             struct unwind_recipe *recipe)
{
    struct cfi_function function;
    struct cfi_row row;
    enum cfi_result result = cfi_find(module, pc, &function, &row);
    if (module->id == MODULE_ANONYMOUS)
        recipe->function = place_make(MODULE_ANONYMOUS, pc);
    else
        recipe->function = place_make(module->id, pc - module->base);
    if (result == CFI_OK && pc - function.start <= INT32_MAX) {
        recipe->distance = (int32_t)(pc - function.start);
        recipe->function -= (uint64_t)(int64_t)recipe->distance;
        if (row.saves_result && !function.signal)
            recipe->detail |= DETAIL_EH_RETURN;
        if (function.signal)
            recipe->detail |= DETAIL_SIGNAL;
        recipe_from_row(recipe, &row, module, interrupted ? &pc : NULL);
    } else {
        recipe->kind = result == CFI_NONE ? RECIPE_NO_TABLE : RECIPE_BAD;
    }
    // Its table is right but slow to interpret, and some C libraries have none. Tables begin one
    // byte early, so that a return address in it minus one is found; its name begins here.
    uintptr_t trampoline =
        recipe->detail & DETAIL_SIGNAL || result == CFI_NONE ? trampoline_at(module, pc) : 0;
    if (trampoline) {
        recipe->kind = RECIPE_SIGNAL;
        recipe->detail |= DETAIL_SIGNAL;
        recipe->function += (uint64_t)recipe->distance;
        recipe->distance = (int32_t)(pc - trampoline);
        recipe->function -= (uint64_t)(int64_t)recipe->distance;
    }
    if (recipe->kind == RECIPE_NO_TABLE && module->code_end &&
        (pc < module->code_start || pc >= module->code_end))
        recipe->kind = RECIPE_NO_CODE;
}

void recipe_make(uintptr_t pc, bool interrupted, struct unwind_recipe *recipe)
{
    struct module_ref module;
    bool unloading;
    *recipe = (struct unwind_recipe){0};
    // Before the module is looked at: knowledge must not be newer than its date.
    uint32_t generation = loadmap_generation();
    loadmap_enter();
    if (loadmap_find(pc, &module, &unloading)) {
        recipe->generation = module.permanent ? 0 : generation;
        recipe_in_module(&module, pc, interrupted, recipe);
    } else {
        recipe->function = place_make(MODULE_ANONYMOUS, pc);
        recipe->kind = unloading                       ? RECIPE_UNLOADING
                       : module.id == MODULE_ANONYMOUS ? RECIPE_ANONYMOUS
                                                       : RECIPE_NO_CODE;
    }
    loadmap_leave();
}

void recipe_remember(uintptr_t pc, const struct unwind_recipe *recipe)
{
    static _Atomic uint32_t turn; // which of two entries goes; any value is right
    struct recipe_set *set = recipe_set_of(pc);
    union {
        uint64_t word[3];
        struct unwind_recipe recipe;
    } copy = {.recipe = *recipe};
    uint64_t first = atomic_load_explicit(&set->entry[0].key, memory_order_relaxed);
    uint64_t second = atomic_load_explicit(&set->entry[1].key, memory_order_relaxed);
    unsigned way = first == pc || (first == 0 && second != pc) ? 0
                   : second == pc || second == 0
                       ? 1
                       : atomic_fetch_add_explicit(&turn, 1, memory_order_relaxed) & 1;
    uint64_t old = way ? second : first;
    struct recipe_entry *entry = &set->entry[way];
    if (pc <= KEY_BUSY || old == KEY_BUSY ||
        !atomic_compare_exchange_strong_explicit(&entry->key, &old, KEY_BUSY, memory_order_acquire,
                                                 memory_order_relaxed))
        return;
    // No word may be seen before "busy" is.
    atomic_thread_fence(memory_order_release);
    for (unsigned i = 0; i < 3; i++)
        __atomic_store_n(&entry->word[i], copy.word[i], __ATOMIC_RELAXED);
    atomic_store_explicit(&entry->key, pc, memory_order_release);
}
