// SPDX-License-Identifier: MIT
#ifndef CAIRN_SYMBOL_GO_LINES_H
#define CAIRN_SYMBOL_GO_LINES_H

// Functions, files, lines and inlined calls of a Go program, out of the table for its own stack
// traces (base/gotable.h): stripped programs have it, too.

#include "symbol/dwarf/lines.h"

struct golines;

// NULL if the object has no such table, or none that can be read. The object must stay open.
struct golines *golines_open(const struct object *object, struct text_pool *pool);
void golines_close(struct golines *golines);

// The function that holds an offset; its name as people write it, and where it begins.
const char *golines_function(const struct golines *golines, uint64_t offset, uint64_t *start);

// Answers a query. frames, count and function stay as they are if the table does not know it.
void golines_resolve(const struct golines *golines, struct lines_query *query);

#endif
