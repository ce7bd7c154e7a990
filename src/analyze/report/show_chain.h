// SPDX-License-Identifier: MIT
#ifndef CAIRN_ANALYZE_REPORT_SHOW_CHAIN_H
#define CAIRN_ANALYZE_REPORT_SHOW_CHAIN_H

// A chain of calls in one row: "main › run › … › parse". Where there is no room for all, names get
// shorter, then functions of libraries are left out, and those of the program last.

#include "analyze/report/name_set.h"
#include "analyze/report/show.h"

struct chain_link {
    uint32_t function;
    unsigned times;     // one after the other
    unsigned recursion; // folded: on a path this often at most
    bool inlined;
    bool own; // code of the program itself
};

// In at most `room` columns, unless several lines are allowed (options->to_roots): then these are
// what is between newlines. 0: any number of columns. To be freed.
char *chain_text(struct name_set *names, const struct chain_link *links, size_t count,
                 unsigned room, const struct show_options *options);

// The sign between two callers, and for callers that are left out.
const char *chain_arrow(const struct show_options *options);
const char *chain_gap(const struct show_options *options);

// Columns that the chain would like to have.
unsigned chain_width(struct name_set *names, const struct chain_link *links, size_t count);

#endif
