// SPDX-License-Identifier: MIT
#ifndef CAIRN_UNWIND_EXPRESSION_H
#define CAIRN_UNWIND_EXPRESSION_H

// DWARF expressions, in two ways. With all registers at hand they are computed. If only the pc is
// known, they are folded into one of the few shapes that compilers and linkers really use, so that
// a recipe can keep them.

#include "loadmap/loadmap.h"
#include "unwind/unwind.h"

enum term_kind {
    TERM_CONSTANT, // outer
    TERM_REGISTER, // reg + outer
    TERM_LOADED,   // *(reg + inner) + outer
};

struct term {
    uint64_t outer;
    int32_t inner;
    uint8_t kind, reg;
};

struct expression {
    const struct module_ref *module;
    uintptr_t block;         // in the module's tables
    const uint64_t *initial; // pushed first, or NULL
    const uintptr_t *pc;     // for folding: the value of the return address register, or NULL
};

// False if it has another shape, or is damaged.
bool expression_fold(const struct expression *expression, struct term *result);

// With cursor->registers; loads go through the cursor's stack. False if it cannot be computed.
bool expression_compute(const struct expression *expression, struct unwind_cursor *cursor,
                        uintptr_t *result);

#endif
