// SPDX-License-Identifier: MIT
#ifndef CAIRN_ANALYZE_DIFF_DIFF_SHOW_H
#define CAIRN_ANALYZE_DIFF_DIFF_SHOW_H

// A diff on paper: as text that says what got slower and why, and as JSON.

#include "analyze/diff/diff_rows.h"
#include "base/text/json.h"
#include "base/text/text.h"

struct diff_shown {
    const struct diff *diff;
    const struct diff_rows *rows;
    double confidence; // per cent
};

void diff_print(FILE *out, const struct text_style *style, const struct diff_shown *shown);
// The first sentences of that: the change of all, the row that changed most, and why. To be freed.
char *diff_sentence(const struct diff_shown *shown, const struct text_style *style);
void diff_print_json(FILE *out, const struct diff_shown *shown);

// The members of a row's object.
void diff_row_json(struct json *json, const struct diff_shown *shown, const struct diff_row *row);

// The next note about a file of a run that has no names, NULL after the last; *at is 0 at first. A
// file that has changed since has none, and its functions seem gone.
const char *diff_problem(const struct diff *diff, unsigned run, unsigned *at);
// All of them, each once, for people. Returns whether there was any.
bool diff_print_problems(FILE *out, const struct text_style *style, const struct diff *diff);
void diff_problems_json(struct json *json, const struct diff *diff); // the member "notes"

// The names on the path to a context, start-up code left out, in at most `width` columns (0: any):
// "main → parse → lookup". To be freed.
char *diff_path_text(const struct diff *diff, uint32_t node, unsigned width,
                     const struct text_style *style);

#endif
