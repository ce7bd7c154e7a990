// SPDX-License-Identifier: MIT
#include "base/gc_hidden.h"
#include "unwind/arch.h"
#include "unwind/go.h"
#include "unwind/recipe.h"
#include "unwind/shortcut.h"
#include "unwind/slow_steps.h"
#include "unwind/stack.h"

#define SCAN_WORDS 64
#define WORD sizeof(uintptr_t)
#define PAGE 4096
#define FP_OFFSET (-2)      // words from the CFA to the frame pointer, below the return address
#define FUNCTION_MOST 65536 // bytes from an assembly function's first instruction to one of its own

extern void *__libc_stack_end __attribute__((weak));

// The module at pc. If there is none, room->id says what is there. A module that stays is known by
// a short list already.
static const struct module_ref *module_at(uintptr_t pc, struct module_ref *room)
{
    const struct shortcut *shortcut = shortcut_at(pc);
    if (shortcut)
        return &shortcut->module;
    return loadmap_peek(pc, room) ? room : NULL;
}

bool guess_is_code(uintptr_t pc)
{
    struct module_ref module;
    if (shortcut_at(pc))
        return true;
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

// In generated code, or a file that the program has mapped, as found lately. Reading takes system
// calls, since the code may be gone at any time. A remembered answer is a guess like the rest.
#define CALLS 256
#define CALL_TURN_BITS 16

static bool follows_passing_call(uintptr_t ra)
{
    // Address, turn and answer in one word, each for itself: relaxed.
    static _Atomic uint64_t calls[CALLS] GC_HIDDEN;
    const uint64_t turn = loadmap_turn() & ((1u << CALL_TURN_BITS) - 1);
    const uint64_t word = (uint64_t)ra << (CALL_TURN_BITS + 1) | turn << 1;
    _Atomic uint64_t *entry = &calls[(ra ^ ra >> 8) % CALLS];
    const uint64_t found = atomic_load_explicit(entry, memory_order_relaxed);
    if (ra >> 47 || found >> 1 != word >> 1) {
        const bool follows = guess_follows_call_anywhere(ra);
        atomic_store_explicit(entry, word | follows, memory_order_relaxed);
        return follows;
    }
    return found & 1;
}

// In a module that is there, and known to the end of its code.
static bool follows_call_in_code(uintptr_t ra, const struct module_ref *module)
{
    if (ra <= module->code_start || ra > module->code_end)
        return false;
    uintptr_t from =
        ra - module->code_start > ARCH_CALL_MOST ? ra - ARCH_CALL_MOST : module->code_start;
    return arch_follows_call((const unsigned char *)from, (const unsigned char *)ra);
}

static bool follows_call_in(uintptr_t ra, const struct module_ref *module)
{
    return module->code_end ? follows_call_in_code(ra, module) : follows_passing_call(ra);
}

static bool follows_call(uintptr_t ra)
{
    struct module_ref room;
    const struct module_ref *module = module_at(ra - 1, &room);
    return module ? follows_call_in(ra, module)
                  : room.id == MODULE_ANONYMOUS && follows_passing_call(ra);
}

bool unwind_follows_call(uintptr_t ra)
{
    // A module that stays: known already, and it cannot be unloaded meanwhile.
    const struct shortcut *shortcut = shortcut_at(ra - 1);
    if (shortcut)
        return follows_call_in(ra, &shortcut->module);
    loadmap_enter();
    bool follows = follows_call(ra);
    loadmap_leave();
    return follows;
}

bool unwind_may_follow_call(uintptr_t ra)
{
    return shortcut_at(ra - 1) || unwind_follows_call(ra);
}

bool unwind_still_follows_call(uintptr_t ra)
{
    const struct shortcut *shortcut = shortcut_at(ra - 1);
    return !shortcut || follows_call_in_code(ra, &shortcut->module);
}

static bool starts_process(const struct unwind_cursor *cursor)
{
    // The loader starts the process with the arguments right above its frame; alignment may cost
    // some.
    uintptr_t end = &__libc_stack_end ? (uintptr_t)__libc_stack_end : 0;
    return end && cursor->sp + 64 >= end && cursor->sp <= end &&
           stack_holds(&cursor->bounds, cursor->sp);
}

bool guess_is_planted(const struct unwind_cursor *cursor)
{
    union unwind_recipe recipe;
    if (cursor->frame.flags & FRAME_INTERRUPTED || cursor->guesses != 0)
        return false;
    recipe_make(cursor->frame.pc, true, &recipe);
    return recipe.kind <= RECIPE_ROOT && recipe.distance == 0 &&
           !unwind_follows_call(cursor->frame.pc);
}

// Where Go's own table is not at hand: its code keeps frame pointers. The first function of a stack
// has no caller, so the word that it has saved is no frame pointer.
static bool ends_chain(const struct unwind_cursor *cursor)
{
    struct module_ref module;
    if (cursor->bp != 0 || cursor->frame.flags & FRAME_INTERRUPTED)
        return false;
    loadmap_enter();
    bool go = loadmap_peek(cursor->frame.pc - 1, &module) && module.runtime == RUNTIME_GO;
    loadmap_leave();
    return go;
}

bool guess_is_root(const struct unwind_cursor *cursor)
{
    return starts_process(cursor) || ends_chain(cursor);
}

static void set_caller(struct frame_caller *caller, uintptr_t slot, uintptr_t ra)
{
    caller->pc = ra;
    caller->slot = slot;
    caller->cfa = caller->sp = slot + WORD;
    caller->interrupted = false;
}

// Most words on a stack are small numbers, or point into it.
static bool may_be_return(const struct unwind_cursor *cursor, uintptr_t word)
{
    return word >= 65536 && word >> 47 == 0 && !stack_in_region(cursor, word);
}

// Calls that are led elsewhere return to code that is in no module.
static bool is_led_back(uintptr_t ra)
{
    uintptr_t pc = ra, sp = 0;
    bool interrupted = false;
    return unwind_truth && unwind_truth(&pc, &sp, &interrupted) == UNWIND_ELSEWHERE;
}

static bool take_slot(struct unwind_cursor *cursor, uintptr_t slot, struct frame_caller *caller)
{
    uintptr_t word;
    if (!stack_load(cursor, slot, &word) || !may_be_return(cursor, word) ||
        !(follows_call(word) || is_led_back(word)) || !go_may_have_called(cursor->frame.pc, word))
        return false;
    set_caller(caller, slot, word);
    return true;
}

// Interrupted where the instructions themselves show where the return address is.
static bool from_code(struct unwind_cursor *cursor, struct frame_caller *caller)
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
        start = pc & ~(uintptr_t)(PAGE - 1);
        end = start + PAGE;
        if (!loadmap_readable(pc & ~(uintptr_t)7))
            return false;
    }
    bool saved_fp;
    int slot = arch_guess_slot((const unsigned char *)start, (const unsigned char *)pc,
                               (const unsigned char *)end, &saved_fp);
    if (slot < 0 || !take_slot(cursor, cursor->sp + (uintptr_t)slot * WORD, caller))
        return false;
    caller->proven = true;
    return !saved_fp || stack_load(cursor, cursor->sp, &caller->fp);
}

// How the call before a return address that was found by a search relates to the pc.
enum claim {
    CLAIM_NONE,   // it is none
    CLAIM_DENIED, // its call leads to other code, which may have jumped here
    CLAIM_OPEN,   // its call does not say where it leads
    CLAIM_BACKED, // its call leads to a place shortly before the pc
};

struct return_candidate {
    uintptr_t slot;
    uintptr_t distance; // of the pc from where the call leads
    enum claim claim;
};

// The call that ends at a return address, which lies in a module or in code that may be gone.
static bool is_readable_code(uintptr_t ra)
{
    const uintptr_t first = (ra - ARCH_CALL_MOST) & ~(WORD - 1), last = (ra - 1) & ~(WORD - 1);
    return shortcut_at(ra - 1) ||
           (loadmap_readable(last) && ((first ^ last) < PAGE || loadmap_readable(first)));
}

// A call elsewhere is over, most likely: stacks are full of them.
static struct return_candidate judge(struct unwind_cursor *cursor, uintptr_t slot)
{
    struct return_candidate candidate = {.slot = slot};
    struct frame_caller found;
    if (!take_slot(cursor, slot, &found))
        return candidate;
    candidate.claim = CLAIM_OPEN;
    if (!is_readable_code(found.pc))
        return candidate;
    const uintptr_t target = arch_call_target((const unsigned char *)found.pc);
    candidate.distance = cursor->frame.pc - target;
    if (target)
        candidate.claim = candidate.distance < FUNCTION_MOST ? CLAIM_BACKED : CLAIM_DENIED;
    return candidate;
}

// Small assembly functions, and linkage stubs made by linkers that write no tables for them, have
// pushed nothing or next to nothing. Generated code has values of its own there.
static bool near_top(struct unwind_cursor *cursor, struct frame_caller *caller)
{
    const bool generated = cursor->recipe.kind != RECIPE_NO_TABLE;
    const unsigned words = generated ? 1 : 3;
    for (unsigned i = 0; i < words; i++) {
        const struct return_candidate top = judge(cursor, cursor->sp + i * WORD);
        if (top.claim == CLAIM_NONE || (generated && top.claim == CLAIM_DENIED))
            continue;
        caller->proven = !generated && top.claim == CLAIM_BACKED;
        return take_slot(cursor, top.slot, caller);
    }
    return false;
}

// A saved frame pointer below a return address, the older frame's above the younger one's: that is
// proof enough where code is generated. Interpreters push return addresses without a call.
static bool from_frame_pointer(struct unwind_cursor *cursor, struct frame_caller *caller)
{
    uintptr_t fp = cursor->bp, saved, ra;
    struct module_ref module;
    if (fp % WORD || fp < cursor->sp || !stack_in_region(cursor, fp) ||
        !stack_load(cursor, fp, &saved) || !stack_load(cursor, fp + WORD, &ra))
        return false;
    bool chained = saved > fp && saved % WORD == 0 && stack_in_region(cursor, saved);
    bool generated = !module_at(ra - 1, &module) && module.id == MODULE_ANONYMOUS;
    if (!(chained && generated) && !take_slot(cursor, fp + WORD, caller))
        return false;
    set_caller(caller, fp + WORD, ra);
    caller->fp = saved;
    caller->by_words = true;
    caller->fp_offset = FP_OFFSET;
    return true;
}

// Calls that lead to the function are better than others; the function begins at the nearest.
static bool is_better(const struct return_candidate *one, const struct return_candidate *best)
{
    return one->claim > best->claim || (one->claim == CLAIM_BACKED && best->claim == CLAIM_BACKED &&
                                        one->distance < best->distance);
}

// A function that keeps no frame pointer saves it below the return address, if it uses the
// register, or passes it on.
static void restore_frame_pointer(struct unwind_cursor *cursor, struct frame_caller *caller)
{
    uintptr_t saved;
    if (caller->slot >= cursor->sp + WORD && stack_load(cursor, caller->slot - WORD, &saved) &&
        saved > caller->slot && saved % WORD == 0 && stack_in_region(cursor, saved))
        caller->fp = saved;
}

// The loader is not asked about the many words that point to data, unless there is nothing else:
// the wanted word may point into a library that was loaded since the last sample.
static struct return_candidate best_likely(struct unwind_cursor *cursor, uintptr_t slot)
{
    struct return_candidate best = {.claim = CLAIM_NONE};
    uintptr_t word;
    for (unsigned i = 0; i < SCAN_WORDS && stack_load(cursor, slot + i * WORD, &word); i++) {
        if (!may_be_return(cursor, word) || !loadmap_is_likely(word))
            continue;
        const struct return_candidate one = judge(cursor, slot + i * WORD);
        if (is_better(&one, &best))
            best = one;
    }
    return best;
}

static bool from_scan(struct unwind_cursor *cursor, struct frame_caller *caller)
{
    const uintptr_t slot = (cursor->sp + WORD - 1) & ~(uintptr_t)(WORD - 1);
    const struct return_candidate best = best_likely(cursor, slot);
    bool found = best.claim != CLAIM_NONE && take_slot(cursor, best.slot, caller);
    for (unsigned i = 0; i < SCAN_WORDS && !found; i++)
        found = take_slot(cursor, slot + i * WORD, caller);
    if (found)
        restore_frame_pointer(cursor, caller);
    return found;
}

static bool guess(struct unwind_cursor *cursor, struct frame_caller *caller)
{
    uintptr_t word;
    caller->fp = cursor->bp;
    if (!stack_load(cursor, cursor->sp & ~(uintptr_t)7, &word)) // makes the region that of sp
        return false;
    if ((cursor->frame.flags & FRAME_INTERRUPTED) &&
        (from_code(cursor, caller) || near_top(cursor, caller)))
        return true;
    if (from_frame_pointer(cursor, caller))
        return true;
    cursor->scanned = true;
    return from_scan(cursor, caller);
}

bool guess_step(struct unwind_cursor *cursor, struct frame_caller *caller)
{
    loadmap_enter();
    bool found = guess(cursor, caller);
    loadmap_leave();
    return found;
}
