// SPDX-License-Identifier: MIT
#ifndef CAIRN_EXPORT_LOCATIONS_H
#define CAIRN_EXPORT_LOCATIONS_H

// The tables that pprof has invented and others have taken over: a stack is a list of locations, a
// location is an address in a mapping with a line for each function inlined there, and all text is
// numbered.
//
//   stack ── location ─┬─ mapping        /usr/lib/libfoo.so, build id
//                      ├─ line ── function   inlined(), its file, line
//                      └─ line ── function   outer(), its file, line
//
// Number 0 of each table stands for nothing.

#include "analyze/analysis.h"

struct location_mapping {
    uint32_t module; // of the profile
    uint64_t start, limit;
};

struct location_function {
    uint32_t name, file; // strings
    uint32_t line;
};

struct location_line {
    uint32_t function, line;
};

struct location {
    uint64_t address;
    uint32_t mapping;
    uint32_t first_line, line_count; // innermost inlined function first
};

struct locations {
    const struct analysis *analysis;
    const struct calltree *tree;
    uint32_t *callers; // by node of the tree: where it is called; 0: not looked up yet
    uint32_t *stack;
    size_t stack_capacity;

    char **strings;
    size_t string_count, string_capacity;
    struct location_mapping *mappings;
    size_t mapping_count, mapping_capacity;
    struct location_function *functions;
    size_t function_count, function_capacity;
    struct location_line *lines;
    size_t line_count, line_capacity;
    struct location *list;
    size_t count, capacity;

    uint32_t *mapping_of; // by module
    struct {
        uint32_t function, file;
    } * function_keys;
    size_t key_capacity;
    struct hash_index by_text, by_function, by_location;
};

void locations_open(struct locations *locations, const struct analysis *analysis);
void locations_close(struct locations *locations);

// The number of a text, as it may be shown.
uint32_t locations_string(struct locations *locations, const char *text);

// From now on, stacks are those of this tree, which was built with places.
void locations_of_tree(struct locations *locations, const struct calltree *tree);

// The stack of a line of the tree, innermost location first. It holds until the next call.
const uint32_t *locations_stack(struct locations *locations, const struct call_line *line,
                                size_t *count);

// Whether a line has any of the values.
bool locations_has_cost(const struct calltree *tree, size_t line, const unsigned *metrics,
                        unsigned count);

// A build id in hex, of a module. Empty if it is not known.
struct location_id {
    char text[65];
};
struct location_id locations_build_id(const struct locations *locations, uint32_t module);

// The name of a mapping's file.
const char *locations_file(const struct locations *locations, uint32_t module);

#endif
