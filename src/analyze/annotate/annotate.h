// SPDX-License-Identifier: MIT
#ifndef CAIRN_ANALYZE_ANNOTATE_ANNOTATE_H
#define CAIRN_ANALYZE_ANNOTATE_ANNOTATE_H

// The cost of one function, line by line and instruction by instruction, summed up over all its
// contexts. A line's total is its own cost and that of the calls on it; a sample counts once,
// however often the line recurs on its path.

#include "analyze/analysis.h"
#include "base/text/json.h"
#include "base/text/text.h"
#include "symbol/disassembly.h"

struct annotated_line {
    uint32_t file, line; // of the functions; 0: not known
    uint64_t self, total;
};

struct annotated_place {
    uint64_t offset;
    uint64_t self, total;
};

// A piece of machine code: a function may have several, as the one that is seldom executed.
struct annotated_code {
    uint32_t module, process;
    uint64_t begin;
    uint64_t self, total;           // of its places
    struct annotated_place *places; // that cost something, in order
    size_t count, capacity;
};

struct annotated {
    uint32_t function;
    unsigned metric;
    uint64_t whole, self, total; // of the program, of the function
    uint64_t calls;
    bool has_calls;
    struct annotated_line *lines; // by file and line
    size_t line_count;
    bool without_lines;          // it has costs, and no line is known: then the code is collected
    struct annotated_code *code; // the most costly first
    size_t code_count, code_capacity;
    char *others; // other functions that match; NULL: none
};

struct annotate_options {
    const char *function; // a name, with or without parameters, or a regular expression
    const char *metric;   // NULL: the first
    const char *folder;   // of sources; NULL: not said
    bool code;            // machine code is wanted
};

// 0, or -1 and one line in *error, to be freed.
int annotate(struct annotated *annotated, struct analysis *analysis,
             const struct annotate_options *options, char **error);
void annotated_free(struct annotated *annotated);

void annotate_print(FILE *out, const struct text_style *style, struct analysis *analysis,
                    const struct annotated *annotated, const struct annotate_options *options);
void annotate_print_json(FILE *out, struct analysis *analysis, const struct annotated *annotated,
                         const struct annotate_options *options);

#endif
