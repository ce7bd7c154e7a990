// SPDX-License-Identifier: MIT
#ifndef CAIRN_SYMBOL_DWARF_BOUNDS_H
#define CAIRN_SYMBOL_DWARF_BOUNDS_H

// Where functions begin that have no symbol: unwind tables know it in stripped programs too.

#include "base/spans.h"
#include "symbol/files/object.h"

struct bounds {
    struct spans functions; // offsets of places
};

void bounds_read(struct bounds *bounds, const struct object *object);
void bounds_free(struct bounds *bounds);

struct bounds_function {
    uint64_t start, end;
    bool signal; // it is not called: the kernel returns to it from a signal handler
};

// The function that holds the offset.
bool bounds_find(const struct bounds *bounds, uint64_t offset, struct bounds_function *function);

#endif
