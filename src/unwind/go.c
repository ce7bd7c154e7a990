// SPDX-License-Identifier: MIT
#include "unwind/go.h"
#include "loadmap/gomodules.h"
#include "unwind/arch.h"
#include "unwind/recipe.h"
#include "unwind/shortcut.h"
#include "unwind/stack.h"
#include <string.h>

#define WORD ((int)sizeof(uintptr_t))
#define FRAME_MOST 65536 // bytes of a frame that is searched for a return address
#define CALL_BYTES 5     // of a direct call
#define CALL_OPCODE 0xe8

enum role {
    ROLE_PLAIN,
    ROLE_TOP,      // it has no caller, or that is no longer there
    ROLE_SWITCHES, // calls on the stack of the thread, and leaves the frame pointer as it is
    ROLE_HANDLER,  // called by the kernel: the interrupted code is below
};

// By name: properties that the flags of the table do not have, or had not in earlier versions.
static enum role role_of(const struct gotable *table, uint32_t name)
{
    static const struct {
        const char *name;
        enum role role;
    } known[] = {
        {"runtime.goexit", ROLE_TOP},          {"runtime.mstart", ROLE_TOP},
        {"runtime.rt0_go", ROLE_TOP},          {"runtime.mcall", ROLE_TOP},
        {"runtime.morestack", ROLE_TOP},       {"runtime.systemstack", ROLE_SWITCHES},
        {"runtime.asmcgocall", ROLE_SWITCHES}, {"runtime.sigtramp", ROLE_HANDLER},
        {"runtime.cgoSigtramp", ROLE_HANDLER},
    };
    for (unsigned i = 0; i < sizeof known / sizeof *known; i++)
        if (gotable_is_named(table, name, known[i].name))
            return known[i].role;
    return ROLE_PLAIN;
}

// How far the return address is above the stack pointer.
static bool find_depth(const struct gotable *table, const struct gotable_function *function,
                       uint64_t pc, int32_t *depth)
{
    return gotable_value(table, function, function->stack_list, pc, depth) && *depth >= 0 &&
           *depth % WORD == 0 && *depth <= INT32_MAX - 2 * WORD;
}

static void leave_by_depth(union unwind_recipe *recipe, int32_t depth, bool moves_stack)
{
    // A function with a frame has saved the frame pointer right below the return address. One that
    // moves the stack pointer as it likes has it to find back by.
    bool by_fp = moves_stack && depth > 0;
    recipe->kind = by_fp ? RECIPE_FP : RECIPE_SP;
    recipe->cfa_offset = by_fp ? 2 * WORD : depth + WORD;
    recipe->fp_offset = depth > 0 ? -2 : 0;
    recipe->detail = FRAME_CFI | (by_fp ? ARCH_FP : ARCH_SP) << DETAIL_REGISTER_SHIFT;
}

bool go_recipe(const struct module_ref *module, uintptr_t pc, bool interrupted,
               union unwind_recipe *recipe, uintptr_t *start)
{
    struct gotable_function function;
    const struct gotable *table = gomodules_find(module);
    int32_t depth;
    if (!table || !gotable_find(table, pc - table->text, &function) ||
        !find_depth(table, &function, pc - table->text, &depth))
        return false;
    *start = table->text + function.start;
    enum role role = role_of(table, function.name);
    leave_by_depth(recipe, depth, function.flags & GOTABLE_MOVES_STACK);
    // Interrupted, it is on the stack that it was called on, but for a few instructions.
    if ((function.flags & GOTABLE_TOP && role != ROLE_HANDLER) ||
        (role == ROLE_TOP && !interrupted))
        recipe->kind = RECIPE_ROOT;
    else if (role == ROLE_SWITCHES && !interrupted)
        recipe->kind = RECIPE_SWITCHED;
    return true;
}

// Go's linker has other code in the table, too, but knows nothing of its frames.
static bool is_go(const struct gotable *table, uintptr_t pc, struct gotable_function *function)
{
    return gotable_find(table, pc - table->text, function) && function->stack_list != 0;
}

bool go_may_have_called(uintptr_t pc, uintptr_t ra)
{
    struct module_ref module;
    struct gotable_function function;
    const struct shortcut *shortcut = shortcut_at(pc);
    if (shortcut && shortcut->module.runtime != RUNTIME_GO)
        return true;
    const struct gotable *table =
        loadmap_peek(pc, &module) && module.runtime == RUNTIME_GO ? gomodules_find(&module) : NULL;
    if (!table || is_go(table, pc, &function) || !is_go(table, ra - 1, &function))
        return true;
    return function.flags & GOTABLE_MOVES_STACK || role_of(table, function.name) != ROLE_PLAIN;
}

// The word is where a direct call of the function returns to, from a frame of just that depth.
static bool returns_from(const struct module_ref *module, const struct gotable *table,
                         uintptr_t word, uintptr_t callee, uintptr_t depth)
{
    struct gotable_function caller;
    int32_t distance, found;
    if (word < module->code_start + CALL_BYTES || word > module->code_end)
        return false;
    const unsigned char *call = (const unsigned char *)word - CALL_BYTES;
    memcpy(&distance, call + 1, sizeof distance);
    return *call == CALL_OPCODE && word + (uintptr_t)(intptr_t)distance == callee &&
           gotable_find(table, word - 1 - table->text, &caller) &&
           find_depth(table, &caller, word - 1 - table->text, &found) && (uintptr_t)found == depth;
}

static bool search_frame(struct unwind_cursor *cursor, const struct module_ref *module,
                         const struct gotable *table, struct frame_caller *caller)
{
    struct gotable_function callee;
    const uintptr_t fp = cursor->bp;
    if (!gotable_find(table, cursor->frame.pc - 1 - table->text, &callee))
        return false;
    // The frame pointer is that of the caller, which has saved its own caller's there, and was at
    // some depth below it when it called.
    for (uintptr_t depth = WORD; depth <= FRAME_MOST && depth < fp; depth += WORD) {
        uintptr_t word;
        if (!stack_load(cursor, fp - depth, &word))
            return false;
        if (returns_from(module, table, word, table->text + callee.start, depth)) {
            *caller = (struct frame_caller){.pc = word,
                                            .slot = fp - depth,
                                            .cfa = fp - depth + WORD,
                                            .sp = fp - depth + WORD,
                                            .fp = fp};
            return true;
        }
    }
    return false;
}

bool go_switch_step(struct unwind_cursor *cursor, struct frame_caller *caller)
{
    struct module_ref module;
    if (cursor->bp % WORD || cursor->frame.flags & FRAME_INTERRUPTED)
        return false;
    loadmap_enter();
    const struct gotable *table =
        loadmap_peek(cursor->frame.pc - 1, &module) ? gomodules_find(&module) : NULL;
    bool found = table && search_frame(cursor, &module, table, caller);
    loadmap_leave();
    return found;
}
