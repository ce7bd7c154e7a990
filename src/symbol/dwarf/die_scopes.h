// SPDX-License-Identifier: MIT
#ifndef CAIRN_SYMBOL_DWARF_DIE_SCOPES_H
#define CAIRN_SYMBOL_DWARF_DIE_SCOPES_H

// The namespaces, classes and functions around a function of the DWARF tree.
//
// DWARF has no way up from an entry to its parent. Entries stand in the order of their addresses,
// though, so the way down to one is known: at each level the last child that begins at or before
// it. A level is listed when a search first enters it; all others are never read.

#include "symbol/names/pool.h"
#include <elfutils/libdw.h>

struct diescopes {
    struct diescope **units;
    size_t count, capacity;
};

// Follows an inlined copy to its abstract function, and a definition to its declaration.
Dwarf_Die diescopes_declaration(const Dwarf_Die *function);
// "outer::Inner::name" for a function that is declared there; lives in the pool.
const char *diescopes_qualify(struct diescopes *scopes, Dwarf_Die *declaration, const char *name,
                              struct text_pool *pool);
void diescopes_free(struct diescopes *scopes);

#endif
