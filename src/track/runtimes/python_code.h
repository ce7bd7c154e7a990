// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_RUNTIMES_PYTHON_CODE_H
#define CAIRN_TRACK_RUNTIMES_PYTHON_CODE_H

// A code object of CPython: its function, its file, and the line of an instruction. The object may
// be gone while it is read: each load is checked, and what it leads to has its type looked at.

#include "base/place.h"
#include <stdbool.h>
#include <stdint.h>

// Where a version of CPython has what.
struct python_code_layout {
    uint32_t first_line, file, name, lines, instructions; // in PyCodeObject
    uint32_t ascii, text; // bytes before the characters of a string of ASCII, and of others
};

// The addresses of the types of objects.
struct python_types {
    uintptr_t code, text, bytes;
};

void python_code_start(const struct python_code_layout *layout, const struct python_types *types);

// The places of a function and of the line of one of its instructions. Tells their names when they
// are new. False: it is no code object. Signal-safe.
bool python_code_places(uintptr_t code, uintptr_t instruction, place_t *function, place_t *line);

// The line of an instruction by a table of locations (PEP 626): `unit` is the number of two bytes
// before it. 0: it has none. For tests, too.
uint32_t python_line(const unsigned char *table, const unsigned char *end, uint32_t first,
                     uint32_t unit);

#endif
