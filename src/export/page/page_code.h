// SPDX-License-Identifier: MIT
#ifndef CAIRN_EXPORT_PAGE_PAGE_CODE_H
#define CAIRN_EXPORT_PAGE_PAGE_CODE_H

// The machine code of the costliest functions, and what each instruction cost in each context.

#include "analyze/annotate/code_lines.h"
#include "export/page/page_input.h"

// The code of one function. Its instructions have numbers from `first` on.
struct page_piece {
    uint32_t function; // of the functions
    struct annotated_code code;
    struct code_lines lines;
    uint32_t first;
};

// A cost of an instruction in a node of the call tree.
struct page_address {
    uint32_t node, instruction;
    uint32_t line; // where that is in the source: a number for functions_line()
    const uint64_t *values;
    uint32_t tree, from; // the node of the profile
};

struct page_code {
    struct page_piece *pieces; // by module and beginning
    size_t piece_count, piece_capacity;
    struct page_address *addresses;
    size_t address_count, address_capacity;
    uint32_t instructions;
};

// Finds names of what is called, too.
struct page_code page_code_collect(struct analysis *analysis, const struct build_image *images);
void page_code_free(struct page_code *code);

#endif
