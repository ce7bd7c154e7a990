// SPDX-License-Identifier: MIT
#ifndef CAIRN_UNWIND_CFI_H
#define CAIRN_UNWIND_CFI_H

// From a pc to the row of the call frame table that describes its frame: .eh_frame_hdr, FDE, CIE,
// and the little programs in them. No allocation, some 500 bytes of stack, reads nothing outside of
// the module's table segment. Call between loadmap_enter and loadmap_leave.

#include "loadmap/loadmap.h"
#include "unwind/arch.h"

enum cfi_result {
    CFI_OK,
    CFI_NONE, // no table covers the pc
    CFI_BAD,  // damaged, or something that is not interpreted
};

enum rule_kind {
    RULE_SAME, // keeps its value, as without a rule
    RULE_UNDEFINED,
    RULE_OFFSET,           // saved at CFA + value
    RULE_VALUE_OFFSET,     // is CFA + value
    RULE_REGISTER,         // is in register `value`
    RULE_EXPRESSION,       // saved at the address that the block at `value` computes
    RULE_VALUE_EXPRESSION, // is what the block computes
};

struct rule {
    uint64_t kind : 3;
    int64_t value : 61; // the address of a block: its length in LEB128, then the expression
};

struct cfi_row {
    int64_t cfa_offset; // or the address of an expression block
    uint16_t cfa_register;
    bool cfa_is_expression;
    bool saves_result; // so it may return elsewhere
    struct rule rule[ARCH_TRACKED];
};

struct cfi_function {
    uintptr_t start, end; // the code that the FDE covers
    bool signal;          // a signal trampoline, says the table
};

enum cfi_result cfi_find(const struct module_ref *module, uintptr_t pc,
                         struct cfi_function *function, struct cfi_row *row);

// The same with fewer words: of the rules, only those of the stack pointer, the frame pointer and
// the return address are there.
enum cfi_result cfi_find_caller(const struct module_ref *module, uintptr_t pc,
                                struct cfi_function *function, struct cfi_row *row);

// Calls back for each stretch of the function's code that one row describes, in their order.
// CFI_BAD, too, where that has returned false.
typedef bool cfi_visit(void *context, uintptr_t start, uintptr_t end, const struct cfi_row *row);
enum cfi_result cfi_visit_rows(const struct module_ref *module, uintptr_t pc,
                               struct cfi_function *function, cfi_visit *visit, void *context);

#endif
