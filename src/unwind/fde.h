// SPDX-License-Identifier: MIT
#ifndef CAIRN_UNWIND_FDE_H
#define CAIRN_UNWIND_FDE_H

// Finding the table entry (FDE) of a pc, and taking it and its common part (CIE) apart.

#include "unwind/cfi.h"
#include "unwind/tables.h"

struct shortcut;

struct cie {
    uint64_t code_factor;
    int64_t data_factor;
    uint64_t ra_register;
    uint8_t encoding; // of pointers in its FDEs
    bool signal, augmented;
    struct reader program;
    uintptr_t at;
};

struct fde {
    struct reader program;
    struct cie cie;
};

enum cfi_result fde_find(const struct module_ref *module, uintptr_t pc, struct fde *fde,
                         struct cfi_function *function);

// Where the FDE of a pc is, by its short cut; 0: there is none. It may turn out not to cover the
// pc.
uintptr_t fde_by_shortcut(const struct shortcut *shortcut, uintptr_t pc);

// Asks the processor to have at hand what a search for this pc begins with.
void fde_expect(uintptr_t pc);

// The same later, when that has come: first the entries that the search reads, then its result.
void fde_expect_entries(uintptr_t pc);
void fde_expect_program(uintptr_t pc);

// A pointer as tables write it. Indirect ones (personalities) are skipped, never followed.
uintptr_t fde_pointer(struct reader *reader, uint8_t encoding, const struct module_ref *module);

// Bytes of static memory.
uint64_t fde_bytes(void);

#endif
