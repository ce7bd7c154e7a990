// SPDX-License-Identifier: MIT
#ifndef CAIRN_ANALYZE_SHOW_ROW_H
#define CAIRN_ANALYZE_SHOW_ROW_H

// The columns that trees and lists have in common.

#include "analyze/show.h"

struct show_row {
    uint64_t total, self, calls, returns;
    uint64_t error; // by how much self may be too large
    const char *name;
    const char *where;
};

struct text_table *show_table(const struct show_options *options, const char *name_head);
void show_row(struct text_table *table, const struct show_options *options,
              const struct show_row *row);

#define SHOW_WHERE_COLUMNS 24 // on a terminal, longer file names lose their beginning
#define SHOW_LEAST_NAME 20

// The columns that a terminal leaves for a name; 0: no limit.
unsigned show_room(const struct show_options *options, const struct text_style *style,
                   unsigned indent);

// Cost per call, with all that the calls cost below; what is called was called at least once. Cost
// and calls may be sums over different numbers of runs.
static inline double show_per_call(const struct show_options *options, unsigned metric,
                                   uint64_t total, uint64_t calls)
{
    return (double)total / options->runs[metric] / ((double)calls / options->runs[options->calls]);
}

// A function's name in at most that many columns (0: any): template arguments go first, then the
// end, but of "module+0x1f00" the module's. To be freed.
char *show_name(const char *name, unsigned width, const struct text_style *style);

// "file.c:12", or the module where no line is known. To be freed.
char *show_where(const struct functions *functions, uint32_t file, uint32_t line, uint32_t module);

#endif
