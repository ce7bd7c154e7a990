// SPDX-License-Identifier: MIT
#ifndef CAIRN_AGENT_ATTACH_IMPORTS_H
#define CAIRN_AGENT_ATTACH_IMPORTS_H

// The words through which modules call each other, found by their dynamic sections.
//
//   module: call read@plt ─► jmp *slot          slot: theirs (libc's read), or not bound yet
//                                               ─► ours, and back to theirs
//
// A slot that leads anywhere else is none of our business and stays.

#include <stddef.h>
#include <stdint.h>

#define IMPORTS_MOST 256

enum import_scope {
    IMPORT_BESIDE_LIBC, // libc's own calls of it stay
    IMPORT_EVERYWHERE,
};

struct import {
    const char *name;
    uintptr_t theirs, ours;
    enum import_scope scope;
};

struct imports {
    struct import list[IMPORTS_MOST]; // by name, once they are prepared
    size_t count;
};

// Where calls of that name lead: the definition of the first module that has one, as the loader
// finds it. 0: there is none, or it cannot be told. Not signal-safe.
uintptr_t imports_definition(const char *name);

// Leaves those out that another library interposes already, and sorts the rest.
void imports_prepare(struct imports *imports);

// In all modules that are loaded. Other threads may be calling, and the loader may be binding.
enum imports_direction { IMPORTS_TAKE, IMPORTS_GIVE_BACK };
void imports_change(const struct imports *imports, enum imports_direction direction);

#endif
