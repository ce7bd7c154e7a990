// SPDX-License-Identifier: MIT
#ifndef CAIRN_PATCH_FUNCTIONS_FUNCTIONS_H
#define CAIRN_PATCH_FUNCTIONS_FUNCTIONS_H

// Modules and functions as patching sees them: bounds from unwind tables, targets of PLT entries,
// and functions that use their return address. In a transaction.

#include "loadmap/loadmap.h"
#include "patch/stubs/site.h"
#include "patch/x86_64/decode.h"

struct patch_range {
    uintptr_t start, end;
};

struct patch_module {
    struct module_ref ref;
    bool refused; // the loader, ourselves, the kernel's, with a runtime of its own
    unsigned kept_count;
    uintptr_t *kept; // words of the GOT that lead to functions by name that calls of must stay
    // The GOT, as far as the loader binds it to functions: of the table of relocations, and of
    // those for linkage.
    struct patch_range got[2];
    uintptr_t readable[2];            // the page of each that was found to be readable
    struct patch_function *functions; // that were met
};

enum return_read { RETURN_NOT_KNOWN, RETURN_NOT_READ, RETURN_READ };

#define EXITS_MOST 8

// Where a function may go, as far as its code says it.
struct patch_exits {
    bool anywhere;                 // to where it does not say, or to too many places
    uint8_t count, calls, through; // calls, through: bit i, exit i is a call, an indirect jump
    uintptr_t to[EXITS_MOST];      // of an indirect jump: where that stands
};

// The facts about a function; made when first asked for, kept in an index by `start`.
struct patch_function {
    uintptr_t start, end;
    struct patch_module *module;
    struct patch_function *next; // of the module
    bool whole;           // begins as called functions do: the return address on top of the stack
    bool named;           // one that calls of must stay, by its name
    uint8_t thunk;        // of a retpoline: one more than the register it goes by; or 0
    uint8_t reads_return; // enum return_read
    uintptr_t slot;       // functions_plt_slot() of its start
    uintptr_t examined;   // up to here; the next ones are known when that is the end
    bool goes_on;         // what was examined leads to what follows
    bool leaves;          // by a direct jump: to another function, or a part of this one
    bool restarts;        // by a direct jump to its own first instruction; known if decoded
    uintptr_t inside;     // it jumps into the middle of the function that begins here: a part of it
    uintptr_t falls_into; // the function that begins where this one ends without a jump; 0: none
    struct patch_exits exits;
    // leaf_functions.h; no leaf with fewer calls below it than no_leaf_below
    uint8_t leaf, height, no_leaf_below;
    bool told;
    bool searched; // the sites are known
    bool decoded;
    struct site_list sites;
};

struct patch_module *functions_module(uintptr_t pc); // NULL: none
struct patch_function *functions_at(uintptr_t pc);   // that covers pc; NULL: none
// Forgets the modules that have code in a range, with their functions. Calls `each` for every site.
void functions_forget(uintptr_t start, uintptr_t end, void (*each)(struct site *site));

// The stack pointer is one word below the CFA at pc: as a function finds it, and a tail call
// leaves.
bool functions_stack_is_empty(const struct patch_function *function, uintptr_t pc);

// Decodes the function for `leaves`, `inside`, `falls_into` and `exits`, from where that ended the
// last time: to its end, or until it has exit number `exit`. False: it has no such exit.
void functions_examine(struct patch_function *function);
bool functions_examine_exit(struct patch_function *function, unsigned exit);

// The same for callers that decode it anyway, in order and before it is patched: they report each
// instruction except plain ones (decode_plain_length()), or that the rest is no code.
void functions_examine_one(struct patch_function *function, uintptr_t pc,
                           const struct instruction *in);
void functions_examine_no_more(struct patch_function *function);

// Whether the first jump of it that leads into the middle of a function leads into this one.
bool functions_is_part_of(struct patch_function *function, const struct patch_function *whole);

// True if no call of it may be patched; *why says which of the reasons.
bool functions_must_stay(uintptr_t address, enum site_stays *why);
bool functions_slot_must_stay(const struct patch_module *module, uintptr_t slot);

// Whether a word is one of the GOT, which is bound once: all others are the program's variables,
// and may lead elsewhere the next time.
bool functions_is_bound(const struct patch_module *module, uintptr_t slot);
// The word of the GOT that the PLT entry at `address` jumps through; 0 if it is none.
uintptr_t functions_plt_slot(const struct patch_module *module, uintptr_t address);
// A section of PLT entries has one table entry, and looks like one function of jumps.
bool functions_is_linkage(const struct patch_function *function);
// The function that the word points to; 0 if that is no start of a function (not bound yet,
// perhaps).
uintptr_t functions_slot_target(uintptr_t slot);
#endif
