// SPDX-License-Identifier: MIT
#ifndef CAIRN_SYMBOL_FILES_EMBEDDED_H
#define CAIRN_SYMBOL_FILES_EMBEDDED_H

// The symbol table that distributions leave in stripped programs: a whole ELF file of its own,
// compressed, in .gnu_debugdata.

#include "symbol/files/object.h"

struct embedded {
    struct object object; // its addresses are those of the program
    void *image;
};

// False if there is none, or it is damaged, or it would become too large.
bool embedded_open(struct embedded *embedded, const struct object *program);
void embedded_close(struct embedded *embedded);

#endif
