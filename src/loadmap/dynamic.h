// SPDX-License-Identifier: MIT
#ifndef CAIRN_LOADMAP_DYNAMIC_H
#define CAIRN_LOADMAP_DYNAMIC_H

// The dynamic section of a module that the loader has mapped: where its tables lie, and what it
// exports. Signal-safe: reads memory of the module and nothing else.

#include "loadmap/loadmap.h"
#include <link.h>

struct dynamic {
    uintptr_t start, end, bias; // the module
    uintptr_t symbols, strings, hash;
    uintptr_t relocations[2]; // of all kinds, and for linkage
    uintptr_t linkage;        // the words that the latter are of, and three of the loader's before
    size_t string_bytes, bytes[2]; // bytes: of the relocations
    uintptr_t versions;            // that it defines
};

// False if there is none, or none with symbols.
bool dynamic_read(struct dynamic *dynamic, const struct module_ref *ref, uintptr_t bias,
                  const ElfW(Phdr) * headers, unsigned count);

bool dynamic_holds(const struct dynamic *dynamic, uintptr_t start, size_t bytes);

// Where a symbol is that the module itself defines, for others to see. False: it does not.
bool dynamic_find(const struct dynamic *dynamic, const char *name, uintptr_t *address);
bool dynamic_exports(const struct dynamic *dynamic, const char *name);

// True if all versions of symbols that the module defines are glibc's: it is a part of libc,
// whatever its name. (Others define versions of their own, beside these if they replace a part.)
bool dynamic_is_libc(const struct dynamic *dynamic);

#endif
