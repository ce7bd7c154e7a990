// SPDX-License-Identifier: MIT
#ifndef CAIRN_PATCH_FUNCTIONS_JUMP_TABLE_H
#define CAIRN_PATCH_FUNCTIONS_JUMP_TABLE_H

// Where the jump of a switch may go, by its table:
//
//     cmp $11, %esi ; ja default                          cmp $11, %esi ; ja default
//     lea table(%rip), %rcx                               jmp *table(,%rsi,8)
//     movslq (%rcx,%rdx,4), %rdx ; add %rcx, %rdx
//     jmp *%rdx

#include <stdbool.h>
#include <stdint.h>

// True if all places that the indirect jump at `jump` goes to lie in its function, or in parts of
// it, for which `each` is called (with their begin). False: it is no such jump, or not understood.
bool jump_table_stays(uintptr_t jump, void (*each)(uintptr_t part, void *context), void *context);

#endif
