// SPDX-License-Identifier: MIT
#ifndef CAIRN_UNWIND_RECIPE_H
#define CAIRN_UNWIND_RECIPE_H

// How to leave the frame of a pc, in 24 bytes, and the cache of what was found out.
//
//   set of 64 bytes:  [ key | recipe ][ key | recipe ]      key = the pc looked up, plus 1
//
// A reader takes the recipe if it finds the key before and after copying. A writer first replaces
// the key by "busy" with a compare-exchange. So one entry has one writer, and a torn recipe never
// matches. A pc's recipe in one generation is always the same, so it does not matter who writes it.

#include "loadmap/loadmap.h"
#include "unwind/unwind.h"
#include <stdatomic.h>

enum recipe_kind {
    // The fast ones: the return address lies where a call leaves it, the frame pointer is saved at
    // a distance from the CFA or not at all, and the caller is calling.
    RECIPE_SP,       // CFA = sp + offset
    RECIPE_FP,       // CFA = fp + offset
    RECIPE_REGISTER, // CFA = any register + offset
    RECIPE_LOADED,   // CFA = *(register + inner) + outer
    RECIPE_FULL,     // a table that says something else: interpret it each time, with all registers
    RECIPE_ROOT,     // no caller
    RECIPE_SWITCHED, // Go code that has gone to another stack: its caller's frame is searched
    RECIPE_SIGNAL,   // a signal trampoline: the registers are in the ucontext on the stack
    RECIPE_NO_TABLE, // in a module, but no FDE covers it
    RECIPE_BAD,      // there is a table, but it cannot be used
    RECIPE_ANONYMOUS, // never cached from here on
    RECIPE_UNLOADING,
    RECIPE_NO_CODE,
};

enum {
    DETAIL_FLAGS = FRAME_CFI | FRAME_SIGNAL | FRAME_EH_RETURN, // as frames have them
    DETAIL_FP_AT_FP = 0x08, // the caller's frame pointer is at fp + fp_offset, not CFA + fp_offset
    DETAIL_REGISTER_SHIFT = 4,
};

// Finds out, without the cache. `interrupted`: pc is an instruction, else it is inside of a call.
void recipe_make(uintptr_t pc, bool interrupted, union unwind_recipe *recipe);

#define RECIPE_SETS 8192

struct recipe_entry {
    _Atomic uint64_t key;
    uint64_t word[3];
};

struct recipe_set {
    struct recipe_entry entry[2];
} __attribute__((aligned(64)));

void recipe_remember(struct recipe_set *set, uint64_t key, const union unwind_recipe *recipe);

extern struct recipe_set recipe_sets[RECIPE_SETS] __attribute__((visibility("hidden")));

// Return addresses are a call instruction apart, so one set for each eight bytes of code is enough.
// Finding it is one instruction: each cycle between the loads of a return address and of its recipe
// is a cycle of each step. It also keeps the recipes of neighbours on one page.
static inline struct recipe_set *recipe_set_of_call(uint64_t key)
{
    return (struct recipe_set *)((char *)recipe_sets + (key & (RECIPE_SETS - 1) * 8) * 8);
}

// Interrupted instructions lie closer.
static inline struct recipe_set *recipe_set_of_instruction(uint64_t key)
{
    uint64_t offset = (key << 6 ^ key >> 7) & (RECIPE_SETS - 1) * sizeof(struct recipe_set);
    return (struct recipe_set *)((char *)recipe_sets + offset);
}

// One entry, if it is this key's and still holds. After a failure, *recipe means nothing.
static inline __attribute__((always_inline)) bool
recipe_take(struct recipe_entry *entry, uint64_t key, union unwind_recipe *recipe)
{
    if (atomic_load_explicit(&entry->key, memory_order_acquire) != key)
        return false;
    for (unsigned i = 0; i < 3; i++)
        recipe->word[i] = __atomic_load_n(&entry->word[i], __ATOMIC_RELAXED);
    atomic_thread_fence(memory_order_acquire);
    if (atomic_load_explicit(&entry->key, memory_order_relaxed) != key)
        return false;
    uint32_t generation = (uint32_t)(recipe->word[2] >> 32);
    return generation == 0 || generation == loadmap_generation();
}

static inline __attribute__((always_inline)) bool
recipe_recall(struct recipe_set *set, uint64_t key, union unwind_recipe *recipe)
{
    return recipe_take(&set->entry[0], key, recipe) || recipe_take(&set->entry[1], key, recipe);
}

static inline bool recipe_is_known(const struct recipe_set *set, uint64_t key)
{
    return atomic_load_explicit(&set->entry[0].key, memory_order_relaxed) == key ||
           atomic_load_explicit(&set->entry[1].key, memory_order_relaxed) == key;
}

// The fields that a step needs at once, from the words.
static inline int64_t recipe_distance(const union unwind_recipe *recipe)
{
    return (int64_t)recipe->word[1] >> 32;
}

static inline unsigned recipe_kind(const union unwind_recipe *recipe)
{
    return recipe->word[2] >> 16 & 0xff;
}

static inline unsigned recipe_detail(const union unwind_recipe *recipe)
{
    return recipe->word[2] >> 24 & 0xff;
}

#endif
