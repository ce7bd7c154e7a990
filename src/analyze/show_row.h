// SPDX-License-Identifier: MIT
#ifndef CAIRN_ANALYZE_SHOW_ROW_H
#define CAIRN_ANALYZE_SHOW_ROW_H

// The columns that trees and lists have in common.

#include "analyze/show.h"

struct show_row {
    uint64_t total, self, passes;
    const char *name;
    const char *where;
};

struct text_table *show_table(const struct show_options *options, const char *name_head);
void show_row(struct text_table *table, const struct show_options *options,
              const struct show_row *row);

// "file.c:12", or the module where no line is known. To be freed.
char *show_where(const struct functions *functions, uint32_t file, uint32_t line, uint32_t module);

#endif
