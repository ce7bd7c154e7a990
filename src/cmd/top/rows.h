// SPDX-License-Identifier: MIT
#ifndef CAIRN_CMD_TOP_ROWS_H
#define CAIRN_CMD_TOP_ROWS_H

// The rows of a view of `cairn top`, as far as they are open.

#include "cmd/top/model.h"

enum top_view_kind { TOP_FUNCTIONS, TOP_TREE, TOP_CALLERS, TOP_VIEWS };

struct top_view {
    enum top_view_kind kind;
    enum top_value order; // by what rows are sorted
    char filter[64];      // a regular expression; empty: all
    uint64_t *toggled;    // keys of rows that the user opened or closed, against the default
    size_t toggled_count, toggled_capacity;
};

struct top_row {
    uint64_t key;
    unsigned depth;
    uint32_t function;
    uint64_t value[TOP_VALUES]; // self of functions, else with all below
    uint64_t other;             // in the order's value: total of functions, else self
    bool has_children, is_open;
};

struct top_rows {
    struct top_row *rows;
    size_t count, capacity;
    uint64_t whole[TOP_VALUES];
};

// The model has been read. *error: one line if the filter is no expression; then all rows are
// there.
struct top_rows top_rows_make(struct top_model *model, const struct top_view *view, char **error);
void top_rows_free(struct top_rows *rows);

void top_view_toggle(struct top_view *view, uint64_t key);
void top_view_free(struct top_view *view);

#endif
