// SPDX-License-Identifier: MIT
#ifndef CAIRN_UNWIND_COMMON_CFI_H
#define CAIRN_UNWIND_COMMON_CFI_H

// The unwind tables that compilers write almost everywhere, without the detours that all others
// need. A sample meets two or three pcs that no sample has met before, and runs through code that
// is in no cache: so the number of its cache lines matters.

#include "unwind/fde.h"
#include "unwind/shortcut.h"

// The simple form of almost all rows: the CFA at a distance from a register, the return address
// where a call leaves it, the frame pointer saved or not. A state that fits into registers.
struct plain {
    uint32_t cfa_register, cfa_offset;
    uint32_t fp; // saved at CFA - 8 * fp; 0: not saved
};

#define PLAIN_BEYOND 8 // bytes that must be readable behind a program

// The CFA is rsp + 8, the return address is at CFA - 8, and there is no other rule: functions begin
// so everywhere.
bool common_cfi_begins(const struct cie *cie);

// Interprets the program of an FDE whose CIE begins so, up to a distance from where the function
// starts. False if it is damaged, or has an instruction in it that is not one of the usual.
bool common_cfi_run(const unsigned char *at, const unsigned char *end, uint64_t distance,
                    struct plain *row);

// The CIE of the FDE at pc begins so: the layout of its FDEs is remembered if pc has a short cut.
void common_cfi_note(const struct cie *cie, uintptr_t pc);

// The recipe of a pc whose FDE has a CIE that was noted. False, and nothing in *recipe that counts,
// if this is not enough for it.
bool common_cfi_recipe(const struct shortcut *shortcut, uintptr_t pc, union unwind_recipe *recipe);

#endif
