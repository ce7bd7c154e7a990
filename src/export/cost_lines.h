// SPDX-License-Identifier: MIT
#ifndef CAIRN_EXPORT_COST_LINES_H
#define CAIRN_EXPORT_COST_LINES_H

// Functions and the calls between two of them, with all paths added up: each line of a function has
// a cost of its own, and for each call to another function a count and an inclusive cost.
//
// Recursion: a call of a function that is running already costs nothing, for its cost is a part of
// the outer call's. So the calls of a function add up to its inclusive cost.
//
//   a 1 ── b 2 ── a 4 ── c 8      a calls b: 14     b calls a: 0      a calls c: 8

#include "export/export.h"

struct cost_line {
    uint32_t function; // that of the tree's root calls those that threads begin in
    uint32_t file, line;
    uint32_t callee; // FUNCTION_NONE: the function's own cost
    uint64_t calls;  // 0: not counted
    size_t values;   // where they are
};

struct cost_lines {
    const struct export_input *input;
    struct cost_line *list; // by function, file, line, callee
    uint64_t *values;       // metric_count a line
    size_t count, capacity, value_capacity;
    struct hash_index by_place;
    uint32_t *files; // by function: where it is defined, else where a line of it is
};

// Of a tree with EXPORT_LINES.
void cost_lines_open(struct cost_lines *lines, const struct export_input *input);
void cost_lines_close(struct cost_lines *lines);

#endif
