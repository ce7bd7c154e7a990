// SPDX-License-Identifier: MIT
#ifndef CAIRN_ANALYZE_ANNOTATE_CODE_LINES_H
#define CAIRN_ANALYZE_ANNOTATE_CODE_LINES_H

// The instructions of a piece of code with what each of them costs, where it comes from, and which
// function it calls.

#include "analyze/annotate/annotate.h"

struct code_line {
    uint64_t self, total;
    const char *file; // NULL: not known
    unsigned line;
    const char *target; // the function that it calls or jumps to; NULL: none, or its own
};

struct code_lines {
    struct disassembly code;
    struct code_line *lines; // by instruction
};

// 0, or -1 and one line in *error, to be freed.
int code_lines_open(struct code_lines *lines, struct analysis *analysis,
                    const struct annotated_code *piece, char **error);
void code_lines_close(struct code_lines *lines);

// "call 0x1a20 <parse>  parse.c:12": the line where it differs from that of the one before. To be
// freed.
char *code_line_text(const struct code_lines *lines, size_t number);

#endif
