// SPDX-License-Identifier: MIT
#ifndef CAIRN_SYMBOL_PLT_H
#define CAIRN_SYMBOL_PLT_H

// The stubs through which a module calls others have no symbols: they are named after what they
// jump to.

#include "symbol/names/pool.h"
#include "symbol/symtab.h"

// Adds "puts@plt" for each stub with a known target; names live in the pool.
void plt_add(struct symtab *table, const struct object *object, struct text_pool *pool);

#endif
