// SPDX-License-Identifier: MIT
#ifndef CAIRN_PATCH_FUNCTIONS_H
#define CAIRN_PATCH_FUNCTIONS_H

// Modules and functions as patching sees them: bounds from unwind tables, what a PLT entry leads
// to, and functions that care about their return address. Under the lock of sites.h and between
// loadmap_enter and loadmap_leave, but for functions_start().

#include "patch/return_load.h"
#include "patch/sites.h"
#include "unwind/cfi.h"

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
    struct patch_function *functions; // that were met
};

#define EXITS_MOST 8

// Where a function may go, as far as its code says it.
struct patch_exits {
    bool anywhere;                 // to where it does not say, or to too many places
    uint8_t count, calls, through; // calls, through: bit i, exit i is a call, an indirect jump
    uintptr_t to[EXITS_MOST];      // of an indirect jump: where that stands
};

// What is known of a function; made when first asked for, kept in an index by `start`.
struct patch_function {
    uintptr_t start, end;
    struct patch_module *module;
    struct patch_function *next; // of the module
    bool whole;           // begins as called functions do: the return address on top of the stack
    bool examined;        // the next ones are known
    bool reads_return;    // loads its own return address
    bool leaves;          // by a direct jump: to another function, or a part of this one
    bool restarts;        // by a direct jump to its own first instruction; known if decoded
    uintptr_t inside;     // it jumps into the middle of the function that begins here: a part of it
    uintptr_t falls_into; // the function that begins where this one ends without a jump; 0: none
    struct patch_exits exits;
    uint8_t quiet, height; // quiet.h
    bool told;
    bool searched; // the sites are known
    bool decoded;
    struct site_list sites;
};

void functions_start(void);
struct patch_module *functions_module(uintptr_t pc); // NULL: none
struct patch_function *functions_at(uintptr_t pc);   // that covers pc; NULL: none
// Forgets modules with their functions: those that have code in a range, and those that were loaded
// after the program had begun. Calls `each` for every site.
void functions_forget(uintptr_t start, uintptr_t end, void (*each)(struct site *site));
void functions_forget_later(void (*each)(struct site *site));

// The stack pointer is one word below the CFA at pc: as a function finds it, and a tail call
// leaves.
bool functions_stack_is_empty(const struct patch_function *function, uintptr_t pc);

// Decodes the function for `reads_return`, `leaves`, `inside`, `falls_into` and `exits`.
void functions_examine(struct patch_function *function);

// The same for somebody who decodes it anyway: from the first instruction on, each, in their order;
// or up to one that is none.
struct examination {
    struct patch_function *function; // NULL: it was examined before
    struct return_search search;
    bool goes_on; // the last instruction leads to the one behind it
};
struct examination functions_examine_from_start(struct patch_function *function);
void functions_examine_one(struct examination *examination, uintptr_t pc,
                           const struct instruction *in);
void functions_examine_no_more(const struct examination *examination);

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
// What the word holds, if that is the start of a function; 0 if not (not bound yet, perhaps).
uintptr_t functions_slot_target(uintptr_t slot);
// A retpoline calls itself past a loop, puts a register in the place of that return address, and
// returns: one more than the register's number; 0: it is none.
uint8_t functions_thunk(const struct patch_function *function);

#endif
