// SPDX-License-Identifier: MIT
#include "unwind/arch.h"
#include "unwind/recipe.h"
#include "unwind/stack.h"
#include "unwind/walk.h"

#define SCAN_WORDS 64
#define WORD sizeof(uintptr_t)

extern void *__libc_stack_end __attribute__((weak));

bool guess_is_code(uintptr_t pc)
{
    struct module_ref module;
    loadmap_enter();
    bool code = loadmap_peek(pc, &module) || module.id == MODULE_ANONYMOUS;
    loadmap_leave();
    return code;
}

bool guess_follows_call_anywhere(uintptr_t ra)
{
    uintptr_t last = (ra - 1) & ~(uintptr_t)7, first = (ra - ARCH_CALL_MOST) & ~(uintptr_t)7;
    if (ra < 4096 || !loadmap_readable(last))
        return false;
    uintptr_t from = first == last || loadmap_readable(first) ? ra - ARCH_CALL_MOST : last;
    return arch_follows_call((const unsigned char *)from, (const unsigned char *)ra);
}

static bool follows_call(uintptr_t ra)
{
    struct module_ref module;
    if (!loadmap_peek(ra - 1, &module))
        return module.id == MODULE_ANONYMOUS && guess_follows_call_anywhere(ra);
    if (module.code_end == 0)
        return guess_follows_call_anywhere(ra);
    if (ra <= module.code_start || ra > module.code_end)
        return false;
    uintptr_t from =
        ra - module.code_start > ARCH_CALL_MOST ? ra - ARCH_CALL_MOST : module.code_start;
    return arch_follows_call((const unsigned char *)from, (const unsigned char *)ra);
}

bool unwind_follows_call(uintptr_t ra)
{
    loadmap_enter();
    bool follows = follows_call(ra);
    loadmap_leave();
    return follows;
}

static bool starts_process(const struct unwind_cursor *cursor)
{
    // The loader starts the process with the arguments right above its frame; alignment may cost
    // some.
    uintptr_t end = &__libc_stack_end ? (uintptr_t)__libc_stack_end : 0;
    return end && cursor->sp + 64 >= end && cursor->sp <= end &&
           stack_holds(&cursor->bounds, cursor->sp);
}

static bool is_planted(const struct unwind_cursor *cursor)
{
    union unwind_recipe recipe;
    if (cursor->frame.flags & FRAME_INTERRUPTED || cursor->guesses != 0)
        return false;
    recipe_make(cursor->frame.pc, true, &recipe);
    return recipe.kind <= RECIPE_ROOT && recipe.distance == 0 &&
           !unwind_follows_call(cursor->frame.pc);
}

bool guess_is_root(const struct unwind_cursor *cursor)
{
    return starts_process(cursor) || is_planted(cursor);
}

static void set_caller(struct caller *caller, uintptr_t slot, uintptr_t ra)
{
    caller->pc = ra;
    caller->slot = slot;
    caller->cfa = caller->sp = slot + WORD;
    caller->interrupted = false;
}

static bool take_slot(struct unwind_cursor *cursor, uintptr_t slot, struct caller *caller)
{
    uintptr_t word;
    // Most words on a stack are small numbers, or point into it.
    if (!stack_load(cursor, slot, &word) || word < 65536 || word >> 47 != 0 ||
        stack_in_region(cursor, word) || !follows_call(word))
        return false;
    set_caller(caller, slot, word);
    return true;
}

// Interrupted where the instructions themselves tell where the return address is.
static bool from_code(struct unwind_cursor *cursor, struct caller *caller)
{
    struct module_ref module;
    uintptr_t pc = cursor->frame.pc, start, end;
    bool in_module = loadmap_peek(pc, &module);
    if (in_module && module.code_end) {
        if (pc < module.code_start || pc >= module.code_end)
            return false;
        start = module.code_start;
        end = module.code_end;
    } else {
        // It is being executed, so its page can be read; the neighbours may not be.
        start = pc & ~(uintptr_t)4095;
        end = start + 4096;
        if (!loadmap_readable(pc & ~(uintptr_t)7))
            return false;
    }
    bool saved_fp;
    int slot = arch_guess_slot((const unsigned char *)start, (const unsigned char *)pc,
                               (const unsigned char *)end, &saved_fp);
    if (slot < 0 || !take_slot(cursor, cursor->sp + (uintptr_t)slot * WORD, caller))
        return false;
    return !saved_fp || stack_load(cursor, cursor->sp, &caller->fp);
}

// Small assembly functions, and linkage stubs made by linkers that write no tables for them, have
// pushed nothing or next to nothing. Generated code has values of its own there.
static bool near_top(struct unwind_cursor *cursor, struct caller *caller)
{
    unsigned words = cursor->recipe.kind == RECIPE_NO_TABLE ? 3 : 1;
    for (unsigned i = 0; i < words; i++)
        if (take_slot(cursor, cursor->sp + i * WORD, caller))
            return true;
    return false;
}

// A saved frame pointer below a return address, the older frame's above the younger one's: that is
// proof enough where code is generated. Interpreters push return addresses without a call.
static bool from_frame_pointer(struct unwind_cursor *cursor, struct caller *caller)
{
    uintptr_t fp = cursor->bp, saved, ra;
    struct module_ref module;
    if (fp % WORD || fp < cursor->sp || !stack_in_region(cursor, fp) ||
        !stack_load(cursor, fp, &saved) || !stack_load(cursor, fp + WORD, &ra))
        return false;
    bool chained = saved > fp && saved % WORD == 0 && stack_in_region(cursor, saved);
    bool generated = !loadmap_peek(ra - 1, &module) && module.id == MODULE_ANONYMOUS;
    if (!(chained && generated) && !take_slot(cursor, fp + WORD, caller))
        return false;
    set_caller(caller, fp + WORD, ra);
    caller->fp = saved;
    return true;
}

static bool from_scan(struct unwind_cursor *cursor, struct caller *caller)
{
    uintptr_t slot = (cursor->sp + WORD - 1) & ~(uintptr_t)(WORD - 1);
    for (unsigned i = 0; i < SCAN_WORDS; i++, slot += WORD)
        if (take_slot(cursor, slot, caller))
            return true;
    return false;
}

static bool guess(struct unwind_cursor *cursor, struct caller *caller)
{
    uintptr_t word;
    caller->fp = cursor->bp;
    if (!stack_load(cursor, cursor->sp & ~(uintptr_t)7, &word)) // makes the region that of sp
        return false;
    if ((cursor->frame.flags & FRAME_INTERRUPTED) &&
        (from_code(cursor, caller) || near_top(cursor, caller)))
        return true;
    return from_frame_pointer(cursor, caller) || from_scan(cursor, caller);
}

bool guess_step(struct unwind_cursor *cursor, struct caller *caller)
{
    loadmap_enter();
    bool found = guess(cursor, caller);
    loadmap_leave();
    return found;
}
