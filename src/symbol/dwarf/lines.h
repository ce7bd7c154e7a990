// SPDX-License-Identifier: MIT
#ifndef CAIRN_SYMBOL_DWARF_LINES_H
#define CAIRN_SYMBOL_DWARF_LINES_H

// Files, lines and inlined functions out of DWARF. All places of a module are asked for at once;
// each compilation unit that holds one is read once, and of its tree only the branches that lead to
// them.

#include "symbol/files/object.h"
#include "symbol/names/pool.h"
#include "symbol/names/symbol_frame.h"

struct lines;

// A question about one offset, and its answer. frames: innermost first, the function itself last
// (its name may be NULL). count is 0 if DWARF knows nothing of the offset.
struct lines_query {
    uint64_t offset;
    struct symbol_frame *frames;
    unsigned count;
    uint64_t function; // where the function begins
    bool function_known;
};

// NULL if the object has no DWARF. The object must stay open.
struct lines *lines_open(const struct object *object, struct text_pool *pool);
void lines_close(struct lines *lines);
void lines_resolve(struct lines *lines, struct lines_query *queries, size_t count);
// Whether the same questions would have the same answers next time, as far as this file goes:
// nothing was damaged, and nothing was looked for in other files.
bool lines_final(const struct lines *lines);
// Something in there could not be read.
bool lines_damaged(const struct lines *lines);
// A file that the program's DWARF was split into and that was needed, but is not there; else NULL.
const char *lines_missing(const struct lines *lines);

#endif
