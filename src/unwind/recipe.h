// SPDX-License-Identifier: MIT
#ifndef CAIRN_UNWIND_RECIPE_H
#define CAIRN_UNWIND_RECIPE_H

// How to leave the frame of a pc, in 24 bytes, and the cache of what was found out.
//
//   set of 64 bytes:  [ key | recipe ][ key | recipe ]      key = the pc that was looked up
//
// A reader takes the recipe if it finds the key before and after copying; a writer first replaces
// the key by "busy" with a compare-exchange, so one entry has one writer, and a torn recipe never
// matches. A pc's recipe in one generation is always the same, so it does not matter who writes it.

#include "loadmap/loadmap.h"
#include "unwind/unwind.h"
#include <stdatomic.h>

enum recipe_kind {
    RECIPE_SP,       // CFA = sp + offset; the return address lies where a call leaves it
    RECIPE_FP,       // CFA = fp + offset
    RECIPE_REGISTER, // CFA = another register + offset
    RECIPE_LOADED,   // CFA = *(register + inner) + outer
    RECIPE_FULL,     // a table that says something else: interpret it each time, with all registers
    RECIPE_ROOT,     // no caller
    RECIPE_SIGNAL,   // a signal trampoline: the registers are in the ucontext on the stack
    RECIPE_NO_TABLE, // in a module, but no FDE covers it
    RECIPE_BAD,      // there is a table, but it cannot be used
    RECIPE_ANONYMOUS, // never cached from here on
    RECIPE_UNLOADING,
    RECIPE_NO_CODE,
};

enum { FP_SAME, FP_AT_CFA, FP_AT_FP }; // where the caller's frame pointer is

enum {
    DETAIL_REGISTER = 0x0f,
    DETAIL_FP = 0x30,
    DETAIL_FP_SHIFT = 4,
    DETAIL_EH_RETURN = 0x40,
    DETAIL_SIGNAL = 0x80, // the table says so; the caller of such a frame was interrupted
};

// Finds out, without the cache. `interrupted`: pc is an instruction, else it is inside of a call.
void recipe_make(uintptr_t pc, bool interrupted, struct unwind_recipe *recipe);

void recipe_remember(uintptr_t pc, const struct unwind_recipe *recipe);

#define RECIPE_SETS 8192

struct recipe_entry {
    _Atomic uint64_t key;
    uint64_t word[3];
};

struct recipe_set {
    struct recipe_entry entry[2];
} __attribute__((aligned(64)));

extern struct recipe_set recipe_sets[RECIPE_SETS];

static inline struct recipe_set *recipe_set_of(uintptr_t pc)
{
    return &recipe_sets[(uint64_t)pc * UINT64_C(0x9e3779b97f4a7c15) >> (64 - 13)];
}

// One entry, if it is this pc's and still holds.
static inline bool recipe_take(struct recipe_entry *entry, uintptr_t pc,
                               struct unwind_recipe *recipe)
{
    union {
        uint64_t word[3];
        struct unwind_recipe recipe;
    } copy;
    if (atomic_load_explicit(&entry->key, memory_order_acquire) != pc)
        return false;
    for (unsigned i = 0; i < 3; i++)
        copy.word[i] = __atomic_load_n(&entry->word[i], __ATOMIC_RELAXED);
    atomic_thread_fence(memory_order_acquire);
    if (atomic_load_explicit(&entry->key, memory_order_relaxed) != pc ||
        (copy.recipe.generation != 0 && copy.recipe.generation != loadmap_generation()))
        return false;
    *recipe = copy.recipe;
    return true;
}

static inline bool recipe_recall(uintptr_t pc, struct unwind_recipe *recipe)
{
    struct recipe_set *set = recipe_set_of(pc);
    return recipe_take(&set->entry[0], pc, recipe) || recipe_take(&set->entry[1], pc, recipe);
}

#endif
