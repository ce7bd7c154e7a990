// SPDX-License-Identifier: MIT
#ifndef CAIRN_ANALYZE_REPORT_SHOW_ROW_H
#define CAIRN_ANALYZE_REPORT_SHOW_ROW_H

// The rows that trees and lists have in common: numbers, a name, and where that is defined. First
// come all numbers, then the columns are chosen so that names have room, then the names.

#include "analyze/report/show.h"

struct show_row {
    const uint64_t *total, *self; // per metric of the tree, which keeps them; NULL: none are shown
    uint64_t calls, returns;
    const struct spread_row *spread; // over ranks; NULL: it is not shown
    const char *where;
    bool one_value; // self is no other number than total
};

struct show_sheet;

struct show_sheet *show_sheet_new(const struct show_options *options,
                                  const struct text_style *style, const char *name_head);
void show_sheet_add(struct show_sheet *sheet, const struct show_row *row);

// Chooses columns such that a name has `wanted` columns, if that can be: first `returns` goes, then
// `where` gets narrower. Returns the columns for a name; 0: no limit.
unsigned show_sheet_lay_out(struct show_sheet *sheet, unsigned wanted);

// An empty sheet with the same columns, for rows that turned out to take several lines.
struct show_sheet *show_sheet_like(const struct show_sheet *sheet);

// Whether it shows returns, and how many metrics, after the columns were chosen.
void show_sheet_tell(const struct show_sheet *sheet, struct show_hidden *hidden);

// Names the next row, in their order. The sheet frees the name.
void show_sheet_name(struct show_sheet *sheet, char *name);
void show_sheet_print(struct show_sheet *sheet, FILE *out);
void show_sheet_free(struct show_sheet *sheet);

// Cost per call, with all that is called below; `calls` is 1 at least. Cost and calls may be sums
// over different numbers of runs.
static inline double show_per_call(const struct show_options *options, unsigned metric,
                                   uint64_t total, uint64_t calls)
{
    return (double)total / options->runs[metric] / ((double)calls / options->runs[options->calls]);
}

// "file.c:12", or the module where no line is known. To be freed.
char *show_where(const struct functions *functions, uint32_t file, uint32_t line, uint32_t module);

#endif
