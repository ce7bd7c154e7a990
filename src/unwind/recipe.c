// SPDX-License-Identifier: MIT
#include "unwind/recipe.h"
#include "base/gc_hidden.h"
#include "base/system/huge.h"
#include "unwind/cfi.h"
#include "unwind/common_cfi.h"
#include "unwind/expression.h"
#include "unwind/go.h"
#include "unwind/shortcut.h"

_Static_assert(sizeof(union unwind_recipe) == 24, "an entry is half a cache line");
_Static_assert(offsetof(union unwind_recipe, distance) == 12 &&
                   offsetof(union unwind_recipe, kind) == 18 &&
                   offsetof(union unwind_recipe, detail) == 19 &&
                   offsetof(union unwind_recipe, generation) == 20,
               "recipe.h takes the words apart");
_Static_assert(sizeof(struct recipe_set) == 64, "a set is a cache line");

struct recipe_set recipe_sets[RECIPE_SETS] GC_HIDDEN;

#define KEY_BUSY 1 // no pc is looked up at 1

static bool fits(int64_t value, unsigned bits)
{
    int64_t limit = INT64_C(1) << (bits - 1);
    return value >= -limit && value < limit;
}

static bool cfa_from_register(union unwind_recipe *recipe, unsigned reg, int64_t offset)
{
    if (reg >= ARCH_RA || !fits(offset, 32))
        return false;
    recipe->kind = RECIPE_REGISTER;
    recipe->cfa_offset = (int32_t)offset;
    recipe->detail |= (uint8_t)(reg << DETAIL_REGISTER_SHIFT);
    return true;
}

static bool cfa_from_expression(union unwind_recipe *recipe, const struct expression *expression)
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
    recipe->detail |= (uint8_t)(term.reg << DETAIL_REGISTER_SHIFT);
    return true;
}

static bool fp_from_rule(union unwind_recipe *recipe, struct rule rule,
                         const struct module_ref *module)
{
    int64_t offset = rule.value;
    struct term term;
    switch (rule.kind) {
    case RULE_SAME:
    case RULE_UNDEFINED: // the caller's value is lost, so nothing will ask for it
        return true;
    case RULE_OFFSET:
        if (offset == 0) // would mean "not saved"
            return false;
        break;
    case RULE_EXPRESSION:
        // Not with the CFA pushed first: the shape that compilers use, fp + offset, drops it.
        if (!expression_fold(&(struct expression){.module = module, .block = (uintptr_t)rule.value},
                             &term) ||
            term.kind != TERM_REGISTER || term.reg != ARCH_FP)
            return false;
        offset = (int64_t)term.outer;
        recipe->detail |= DETAIL_FP_AT_FP;
        break;
    default:
        return false;
    }
    recipe->fp_offset = (int16_t)(offset / 8);
    return offset % 8 == 0 && fits(offset / 8, 16);
}

// The commonest by far get kinds of their own.
static void make_fast(union unwind_recipe *recipe)
{
    unsigned reg = recipe->detail >> DETAIL_REGISTER_SHIFT;
    if (recipe->kind == RECIPE_REGISTER && (reg == ARCH_SP || reg == ARCH_FP) &&
        !(recipe->detail & (DETAIL_FP_AT_FP | FRAME_SIGNAL)))
        recipe->kind = reg == ARCH_SP ? RECIPE_SP : RECIPE_FP;
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

static void recipe_from_row(union unwind_recipe *recipe, const struct cfi_row *row,
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
    make_fast(recipe);
}

static void set_function(union unwind_recipe *recipe, place_t place, int64_t distance)
{
    recipe->distance = (int32_t)distance;
    recipe->function = place - (uint64_t)distance;
}

static void recipe_in_module(const struct module_ref *module, uintptr_t pc, bool interrupted,
                             union unwind_recipe *recipe)
{
    struct cfi_function function;
    struct cfi_row row;
    enum cfi_result result = cfi_find_caller(module, pc, &function, &row);
    place_t place = place_make(module->id, pc - module->base);
    uintptr_t start;
    set_function(recipe, place, 0);
    // A function that begins before its module would be named in another one.
    if (result == CFI_OK && function.start >= module->start && pc - function.start <= INT32_MAX) {
        set_function(recipe, place, (int64_t)(pc - function.start));
        recipe->detail = FRAME_CFI;
        if (function.signal)
            recipe->detail |= FRAME_SIGNAL;
        else if (row.saves_result)
            recipe->detail |= FRAME_EH_RETURN;
        recipe_from_row(recipe, &row, module, interrupted ? &pc : NULL);
    } else if (result == CFI_NONE && module->runtime == RUNTIME_GO &&
               go_recipe(module, pc, interrupted, recipe, &start)) {
        set_function(recipe, place, (int64_t)(pc - start));
    } else {
        recipe->kind = result == CFI_NONE ? RECIPE_NO_TABLE : RECIPE_BAD;
    }
    // Its table is right but slow to interpret, and some C libraries have none. Tables begin one
    // byte early, so that a return address in it minus one is found; its name begins here.
    uintptr_t trampoline =
        recipe->detail & FRAME_SIGNAL || result == CFI_NONE ? trampoline_at(module, pc) : 0;
    if (trampoline) {
        recipe->kind = RECIPE_SIGNAL;
        recipe->detail |= FRAME_CFI | FRAME_SIGNAL;
        set_function(recipe, place, (int64_t)(pc - trampoline));
    }
    if (recipe->kind == RECIPE_NO_TABLE && module->code_end &&
        (pc < module->code_start || pc >= module->code_end))
        recipe->kind = RECIPE_NO_CODE;
}

void recipe_make(uintptr_t pc, bool interrupted, union unwind_recipe *recipe)
{
    struct module_ref module;
    bool unloading;
    // A module that stays, with its tables at hand: no question, and no unloading to prevent.
    const struct shortcut *shortcut = shortcut_at(pc);
    if (shortcut && common_cfi_recipe(shortcut, pc, recipe))
        return;
    *recipe = (union unwind_recipe){.word = {0}};
    if (shortcut) {
        recipe_in_module(&shortcut->module, pc, interrupted, recipe);
        return;
    }
    if (unwind_is_generated(pc) || loadmap_is_generated(pc)) {
        recipe->function = place_make(MODULE_ANONYMOUS, pc);
        recipe->kind = RECIPE_ANONYMOUS;
        return;
    }
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

static unsigned way_for(struct recipe_set *set, uint64_t key)
{
    static _Atomic uint32_t turn; // which of two entries goes; any value is right
    uint64_t first = atomic_load_explicit(&set->entry[0].key, memory_order_relaxed);
    uint64_t second = atomic_load_explicit(&set->entry[1].key, memory_order_relaxed);
    if (first == key || (first == 0 && second != key))
        return 0;
    if (second == key || second == 0)
        return 1;
    return atomic_fetch_add_explicit(&turn, 1, memory_order_relaxed) & 1;
}

void recipe_remember(struct recipe_set *set, uint64_t key, const union unwind_recipe *recipe)
{
    struct recipe_entry *entry = &set->entry[way_for(set, key)];
    uint64_t old = atomic_load_explicit(&entry->key, memory_order_relaxed);
    if (key <= KEY_BUSY || old == KEY_BUSY ||
        !atomic_compare_exchange_strong_explicit(&entry->key, &old, KEY_BUSY, memory_order_acquire,
                                                 memory_order_relaxed))
        return;
    // No word may be seen before "busy" is.
    atomic_thread_fence(memory_order_release);
    for (unsigned i = 0; i < 3; i++)
        __atomic_store_n(&entry->word[i], recipe->word[i], __ATOMIC_RELAXED);
    atomic_store_explicit(&entry->key, key, memory_order_release);
}

void unwind_expect_many(void)
{
    // A child begins with none: most are about to exec, and would copy them for nothing.
    huge_wipe_in_child((uintptr_t)recipe_sets, sizeof recipe_sets);
    huge_fill((uintptr_t)recipe_sets, sizeof recipe_sets);
}
