// SPDX-License-Identifier: MIT
#ifndef CAIRN_EXPORT_PAGE_PAGE_COLUMNS_H
#define CAIRN_EXPORT_PAGE_PAGE_COLUMNS_H

// The parts of page_data() share this: the numbers that rows of the page have, and its sections.

#include "export/page/page_input.h"
#include "profile/chunks/bytes.h"

enum { LINE_UNKNOWN = 0, LINE_MANY = 1, LINE_FIRST = 2 }; // of a call, in a column

// Numbers given in the order of being met, from 1; 0 is none.
struct renumbering {
    uint32_t *new_of; // by the old number
    uint32_t *old_of; // by the new number less 1
    uint32_t count;
};

struct page_columns {
    const struct page_input *input;
    const struct calltree *tree;
    const struct functions *functions;
    uint32_t *order, *id; // nodes in the order of the page, and back
    uint32_t *line_order; // lines whose file is known, in the order of their nodes
    uint32_t *line_begin; // by row of a node: its first line in that order; one more at the end
    uint32_t line_count;
    uint32_t **address_of; // by tree and node of the profile: its row in ADDR and 1; NULL: no code
    struct renumbering function, module, file;
    struct bytes out;
};

// The numbers that the page has for a function and a file, given when they are new.
uint32_t page_function(struct page_columns *page, uint32_t number);
uint32_t page_file(struct page_columns *page, uint32_t number);

// The row and 1 of a line (a number for functions_line()) among those of a node; 0: it has none.
uint32_t page_line_row(const struct page_columns *page, uint32_t node, uint32_t number);

size_t page_section_begin(struct bytes *out, const char *name);
void page_section_end(struct bytes *out, size_t begin);
void page_put_bytes(struct page_columns *page, struct bytes *from); // frees them

void page_put_meta(struct page_columns *page);     // META
void page_put_code(struct page_columns *page);     // CODE, CTXT, ADDR, SRCF, SRCT
void page_put_locks(struct page_columns *page);    // LOCK
void page_put_timeline(struct page_columns *page); // TIME

#endif
