// SPDX-License-Identifier: MIT
#ifndef CAIRN_SYMBOL_DWARF_DIE_NAMES_H
#define CAIRN_SYMBOL_DWARF_DIE_NAMES_H

// The name of a function of the DWARF tree, with the namespaces and classes around it.

#include "symbol/dwarf/die_scopes.h"
#include "symbol/names/pool.h"
#include <elfutils/libdw.h>

struct dienames {
    struct text_pool *pool;
    struct diename *slots; // by the function's declaration: an inlined function is met many times
    size_t count, capacity;
    struct diescopes scopes;
};

// NULL if it has no name. Lives in the pool.
const char *dienames_get(struct dienames *names, Dwarf_Die *function);
void dienames_free(struct dienames *names);

#endif
