// SPDX-License-Identifier: MIT
#ifndef CAIRN_UNWIND_SLOW_STEPS_H
#define CAIRN_UNWIND_SLOW_STEPS_H

// Between the files of the unwinder: the ways to find a caller that are not the fast one.

#include "unwind/unwind.h"

// The caller of the frame that the cursor stands in.
struct frame_caller {
    uintptr_t cfa, fp, pc;
    uintptr_t sp;     // almost always the CFA
    uintptr_t slot;   // where pc was read from, 0 if not from a slot
    bool interrupted; // pc is an instruction, not a return address
    bool at_call;     // of FRAME_AT_CALL
    bool by_words;    // of FRAME_BY_WORDS
    bool proven;      // found without a table, but the instructions leave no doubt
    int16_t fp_offset;
};

// Corrects a place in code that calls are led through (stubs). True: at a call, FRAME_AT_CALL.
static inline bool find_truth(uintptr_t *pc, uintptr_t *sp, bool *interrupted)
{
    return unwind_truth && unwind_truth(pc, sp, interrupted) == UNWIND_AT_CALL;
}

// Where the tables say something that a recipe cannot hold: interprets them with all registers.
// False with the reason in *verdict, VERDICT_COMPLETE if there is no caller.
bool full_cfi_step(struct unwind_cursor *cursor, struct frame_caller *caller,
                   enum verdict *verdict);

// cursor->registers are those of the current frame.
bool full_cfi_is_current(const struct unwind_cursor *cursor);

// Makes them so; where that cannot be done, only those that the cursor follows anyway are known
// afterwards.
void full_cfi_catch_up(struct unwind_cursor *cursor);

// The registers are known anew, or no longer, from the current frame on.
void full_cfi_restart(struct unwind_cursor *cursor, uint32_t known);

// Where there are no tables: the frame pointer, or a search. False if nothing sane is found.
bool guess_step(struct unwind_cursor *cursor, struct frame_caller *caller);

// This frame has no caller and no table: the very first of the process, which is the loader's, or
// the end of a chain of frame pointers in Go code.
bool guess_is_root(const struct unwind_cursor *cursor);

// The return address is the first instruction of a function: it was put there by hand
// (makecontext), and that function, which has no caller, has not begun.
bool guess_is_planted(const struct unwind_cursor *cursor);

// pc is in a module, or in generated code that is known.
bool guess_is_code(uintptr_t pc);

// A call instruction ends at ra, as far as it can be read; also where no code is known to be.
bool guess_follows_call_anywhere(uintptr_t ra);

#endif
