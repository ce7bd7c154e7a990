// SPDX-License-Identifier: MIT
#ifndef CAIRN_SYMBOL_NAMES_NAMES_H
#define CAIRN_SYMBOL_NAMES_NAMES_H

// From the linker's names to those that people read: demangled (C++, Rust, D), without parameters,
// without the suffixes that compilers give to clones and parts, without symbol versions.

#include "symbol/names/pool.h"
#include <stdbool.h>

// How much of a raw name is the function's own: "foo.isra.0.cold" gives 3. *cold: it is the
// unlikely part of another function and never entered by a call; *parent: the length of that
// function's own raw name ("foo.isra.0").
size_t names_base_length(const char *raw, bool *cold, size_t *parent);

enum names_dialect {
    NAMES_CLONES, // dots after a name are suffixes of clones
    NAMES_DOTTED, // dots are part of names (Go)
};

// The name to show; lives in the pool.
const char *names_display(struct text_pool *pool, const char *raw, enum names_dialect dialect);

// "std::string" for what the library really calls it; lives in the pool.
const char *names_shortened(struct text_pool *pool, const char *name);

#endif
