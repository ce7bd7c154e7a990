// SPDX-License-Identifier: MIT
#ifndef CAIRN_BASE_TEXT_TEXT_H
#define CAIRN_BASE_TEXT_TEXT_H

// Text for people: numbers as one says them, names cut to fit, tables that know the width of the
// terminal. Nothing here is for machines: they get JSON.

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

// Returned by value, so that `text_count(n).text` can stand in an argument list.
struct text_number {
    char text[32];
};

struct text_number text_count(uint64_t count);              // 1,234,567
struct text_number text_duration(uint64_t ns);              // 2.51 s
struct text_number text_bytes(uint64_t bytes);              // 13.2 MB
struct text_number text_percent(double part, double whole); // 12.3 %
// By the unit of a metric: "ns", "s" and "bytes" are known, anything else is counted.
struct text_number text_amount(uint64_t amount, const char *unit);

struct text_style {
    bool colour;
    bool unicode;
    unsigned width; // columns; 0: no limit
};

// The style for a stream: colours on a terminal only, unless NO_COLOR is set, or anywhere with
// CLICOLOR_FORCE; lines and dots in ASCII unless the locale says UTF-8; as wide as COLUMNS says, or
// as the terminal is, or without limit where there is neither.
struct text_style text_style(FILE *out);

// Reads a number of columns: 0 (no limit), or from the narrowest that is readable. False: it is
// none.
enum { TEXT_NARROWEST = 40, TEXT_WIDEST = 10000 };
bool text_parse_width(const char *text, unsigned *width);

// Whether the stream is a terminal where lines can be overwritten.
bool text_can_rewrite(FILE *out);

// Text that others wrote (names, arguments, notes), as it may be shown: control characters, those
// that change the direction of text or cannot be seen, and what is no UTF-8 become \x1b or \u202e.
// All foreign text goes through this on its way out; the functions below and tables do it
// themselves. The text itself, if it is harmless; else it holds for as many calls as are named.
const char *text_safe(const char *text);
enum { TEXT_SAFE_KEPT = 16 };

// Of a path: the part behind the last slash; all of it, if there is none.
static inline const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

// The ending of a noun that is counted: "1 sample", "2 samples".
static inline const char *text_plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}

unsigned text_width(const char *text);                   // columns on a screen
const char *text_skip(const char *text, unsigned width); // behind so many columns, or one more

// Copies text (to be freed), cut to `width` columns with an ellipsis at the end. 0: not cut.
char *text_cut(const char *text, unsigned width, const struct text_style *style);

enum text_tone { TEXT_PLAIN, TEXT_DIM, TEXT_BOLD, TEXT_HOT, TEXT_WARM, TEXT_COOL };

void text_put(FILE *out, const struct text_style *style, enum text_tone tone, const char *text);

enum text_align {
    TEXT_LEFT,
    TEXT_RIGHT,
    TEXT_FLEX, // left; gives way when the line is too long
};

#define TEXT_FLEX_LEAST 16 // columns that are left of it: a name that is cut below says nothing

// A table is filled row by row, cell by cell, and printed at the end. Columns without any text in
// their cells (the head does not count) are left out.
struct text_table;

struct text_table *text_table_new(unsigned columns, const enum text_align *align,
                                  const char *const *head); // head may be NULL
void text_table_cell(struct text_table *table, enum text_tone tone, const char *text);
void text_table_format(struct text_table *table, enum text_tone tone, const char *format,
                       va_list arguments);
void text_table_print(const struct text_table *table, FILE *out, const struct text_style *style);
void text_table_free(struct text_table *table);

#endif
