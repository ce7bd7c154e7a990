// SPDX-License-Identifier: MIT
#ifndef CAIRN_SYMBOL_ENTRY_H
#define CAIRN_SYMBOL_ENTRY_H

// Where a program begins: `_start`, which the ELF header points to, and `main`, which it hands to
// libc. A stripped program has lost both names.

#include "symbol/dwarf/bounds.h"
#include "symbol/symtab.h"

// Adds what a sorted table lacks, which is then to be sorted again; how many.
unsigned entry_add(struct symtab *table, const struct object *object, const struct bounds *bounds);

#endif
