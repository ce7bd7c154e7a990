// SPDX-License-Identifier: MIT
#ifndef CAIRN_UNWIND_GO_H
#define CAIRN_UNWIND_GO_H

// Go code has no unwind tables, but one that says how far the stack pointer is from the return
// address, for each pc: as good. All signal-safe.

#include "loadmap/loadmap.h"
#include "unwind/slow_steps.h"

// Between loadmap_enter() and loadmap_leave(). False: not code that a table of Go's knows. *start:
// where its function begins.
bool go_recipe(const struct module_ref *module, uintptr_t pc, bool interrupted,
               union unwind_recipe *recipe, uintptr_t *start);

// Whether a return address can be that of the code at a pc, as far as Go is concerned: its code
// calls that of other languages from few functions, all of which change the stack. Between
// loadmap_enter() and loadmap_leave().
bool go_may_have_called(uintptr_t pc, uintptr_t ra);

// The caller of a function that went to another stack before it called (RECIPE_SWITCHED).
bool go_switch_step(struct unwind_cursor *cursor, struct frame_caller *caller);

#endif
