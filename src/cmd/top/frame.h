// SPDX-License-Identifier: MIT
#ifndef CAIRN_CMD_TOP_FRAME_H
#define CAIRN_CMD_TOP_FRAME_H

// A frame of `cairn top`: lines of text, for a terminal or for a pipe.

#include "base/text/text.h"
#include "cmd/top/rows.h"
#include <stdio.h>

enum top_tone { TOP_PLAIN, TOP_BOLD, TOP_DIM, TOP_HEAD, TOP_CHOSEN };

struct top_line {
    char *text;
    enum top_tone tone;
};

struct top_frame {
    struct top_line *lines;
    size_t count, capacity;
    size_t first_row; // the line of the first row
};

// The part of the rows that a frame shows, and what stands beside it.
struct top_shown {
    const struct top_model *model;
    const struct top_view *view;
    const struct top_rows *rows;
    size_t from, count; // rows
    size_t chosen;      // SIZE_MAX: none
    bool paused;
    const char *message; // in the last line; NULL: the keys
};

enum { TOP_LINES = 6 }; // of a frame that are no rows

struct top_frame top_frame_make(const struct top_shown *shown, const struct text_style *style);
void top_frame_free(struct top_frame *frame);

// The meaning of the keys.
struct top_frame top_help(void);

void top_print_json(FILE *out, const struct top_model *model);

#endif
