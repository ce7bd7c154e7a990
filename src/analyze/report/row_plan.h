// SPDX-License-Identifier: MIT
#ifndef CAIRN_ANALYZE_REPORT_ROW_PLAN_H
#define CAIRN_ANALYZE_REPORT_ROW_PLAN_H

// Which rows the text of a tree has. Only branches indent: a chain of calls that goes nowhere else
// takes one row, so that what lies 300 calls deep is still on the screen. Start-up code, which is
// the same in every program, can be left out: its callees take its place.
//
//   _start ── __libc_start_main ── main ── run ┬─ parse        main › run
//                                             └─ print        ├─ parse
//                                                             └─ print
//
// Only nodes that are shown are looked at, however many the tree has.

#include "analyze/report/show.h"

// By default a report has no more rows than this, which is two screens.
#define PLAN_ROWS 40

struct plan_link {
    uint32_t node;
    unsigned times; // the same function again and again
};

struct plan_row {
    uint32_t first_link, links; // in plan->links: the chain, outermost first
    uint32_t node;              // the last of the chain: the row shows its cost
    uint32_t line;              // a line of `node`, rather than itself; CALL_NONE: no
    uint32_t level;
    bool last;    // no sibling follows
    bool goes_on; // as the first row with the chain's last function does
};

struct row_plan {
    struct plan_row *rows;
    size_t row_count, row_capacity;
    struct plan_link *links;
    size_t link_count, link_capacity;
    struct show_hidden hidden;
    bool raised; // the least cost of a row, as there were too many
};

// The tree must be ordered. If the options leave the least cost of a row open, it is raised until
// the rows are no more than PLAN_ROWS.
struct row_plan *row_plan_new(const struct calltree *tree, const struct show_options *options);
void row_plan_free(struct row_plan *plan);

// Whether recursion takes so many rows that others have no place.
bool row_plan_is_recursive(const struct row_plan *plan);

// The least shares that a report without --min tries, one after the other: those that one would
// say. Returns `percent` after the last.
double plan_next_percent(double percent);

#endif
