// SPDX-License-Identifier: MIT
#ifndef CAIRN_PATCH_X86_64_DETOUR_CELL_H
#define CAIRN_PATCH_X86_64_DETOUR_CELL_H

// The code of one detour, for detour.c alone. `hooks` is where a struct detour_hooks lies within
// reach, `place` where the cell will.

#include "patch/stubs/detour_hooks.h"
#include "patch/x86_64/decode.h"

#define DETOUR_CELL 64
#define CALL_BYTES 5

enum detour_kind { KIND_DIRECT = 1, KIND_SLOT, KIND_CALL, KIND_JUMP };

// A detour: its code, then what it stands for. Never writable; any thread reads it once it is
// reached.
struct detour_cell {
    unsigned char code[40];
    uintptr_t truth;  // the function, where its address lies, or the site
    uintptr_t target; // of a direct one
    uint8_t kind;
    uint8_t pushed;  // from this offset on the target is on the stack
    uint8_t dropped; // and from this one on no more
    uint8_t back;    // where the hook returns to
    uint8_t lead;    // so many bytes come before the jump, as they are in front of the site
};
_Static_assert(sizeof(struct detour_cell) == DETOUR_CELL, "one line of memory each");

// The distance that an instruction with this end has to a target within reach.
static inline int32_t distance_to(uintptr_t end, uintptr_t target)
{
    return (int32_t)(target - end);
}

// A detour to a function, which stands for another one, mostly itself.
void detour_cell_direct(struct detour_cell *cell, uintptr_t hooks, uintptr_t place,
                        uintptr_t target, uintptr_t function);

// A detour to a function whose address lies in a word. False, as below: it does not fit.
bool detour_cell_slot(struct detour_cell *cell, uintptr_t hooks, uintptr_t place, uintptr_t slot);

// An indirect call or jump, and where it lies.
struct indirect_site {
    uintptr_t address;
    struct instruction in;
};

bool detour_cell_indirect(struct detour_cell *cell, uintptr_t hooks, uintptr_t place,
                          const struct indirect_site *site, enum detour_hook hook);

// Of an indirect jump, with so many bytes before it.
bool detour_cell_tail(struct detour_cell *cell, uintptr_t hooks, uintptr_t place,
                      const struct indirect_site *site, size_t lead);

#endif
