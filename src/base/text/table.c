// SPDX-License-Identifier: MIT

#include "base/memory.h"
#include "base/text/text.h"
#include <assert.h>

#define COLUMNS_LIMIT 20
#define GAP 2         // columns of space between columns
#define FLEX_USUAL 64 // without a limit, longer names do not push the next column away

struct cell {
    size_t text; // offset in the table's text: the text moves when it grows
    unsigned width;
    enum text_tone tone;
};

struct text_table {
    unsigned columns;
    enum text_align align[COLUMNS_LIMIT];
    unsigned widest[COLUMNS_LIMIT]; // of the cells, without the head
    const char *head[COLUMNS_LIMIT];
    bool headed;
    struct cell *cells;
    size_t count, capacity;
    char *text;
    size_t text_bytes, text_capacity;
};

struct text_table *text_table_new(unsigned columns, const enum text_align *align,
                                  const char *const *head)
{
    assert(columns <= COLUMNS_LIMIT);
    struct text_table *table = memory_array(1, sizeof *table);
    table->columns = columns;
    table->headed = head != NULL;
    for (unsigned i = 0; i < columns; i++) {
        table->align[i] = align[i];
        table->head[i] = head ? head[i] : "";
    }
    return table;
}

void text_table_format(struct text_table *table, enum text_tone tone, const char *format,
                       va_list arguments)
{
    char *text = NULL;
    if (vasprintf(&text, format, arguments) < 0)
        memory_checked(NULL);
    text_table_cell(table, tone, text);
    free(text);
}

void text_table_cell(struct text_table *table, enum text_tone tone, const char *text)
{
    text = text_safe(text);
    size_t bytes = strlen(text) + 1;
    table->cells =
        memory_grown(table->cells, &table->capacity, table->count + 1, sizeof *table->cells);
    table->text = memory_grown(table->text, &table->text_capacity, table->text_bytes + bytes, 1);
    unsigned column = table->count % table->columns;
    struct cell *cell = &table->cells[table->count++];
    *cell = (struct cell){.text = table->text_bytes, .width = text_width(text), .tone = tone};
    memcpy(table->text + table->text_bytes, text, bytes);
    table->text_bytes += bytes;
    if (cell->width > table->widest[column])
        table->widest[column] = cell->width;
}

// The width of each column; 0: left out.
static void lay_out(const struct text_table *table, const struct text_style *style,
                    unsigned widths[COLUMNS_LIMIT])
{
    unsigned rest = 0;
    for (unsigned i = 0; i < table->columns; i++) {
        widths[i] = table->widest[i];
        unsigned head = text_width(table->head[i]);
        if (widths[i] > 0 && widths[i] < head)
            widths[i] = head;
        if (table->align[i] != TEXT_FLEX && widths[i] > 0)
            rest += widths[i] + GAP;
    }
    for (unsigned i = 0; i < table->columns; i++) {
        if (table->align[i] != TEXT_FLEX || widths[i] == 0)
            continue;
        unsigned most = style->width == 0                       ? FLEX_USUAL
                        : style->width > rest + TEXT_FLEX_LEAST ? style->width - rest
                                                                : TEXT_FLEX_LEAST;
        if (widths[i] > most)
            widths[i] = most;
    }
}

static void put_spaces(FILE *out, unsigned count)
{
    while (count--)
        putc_unlocked(' ', out);
}

// Where a cell stands.
struct column {
    enum text_align align;
    unsigned width;
    bool last; // of the line
};

static void put_cell(FILE *out, const struct text_style *style, const struct column *column,
                     enum text_tone tone, const char *text)
{
    const unsigned columns = text_width(text), width = column->width;
    const unsigned space = columns < width ? width - columns : 0;
    if (column->align == TEXT_RIGHT)
        put_spaces(out, space);
    if (column->align == TEXT_FLEX && style->width && columns > width) {
        char *cut = text_cut(text, width, style);
        text_put(out, style, tone, cut);
        free(cut);
    } else {
        text_put(out, style, tone, text);
    }
    if (column->align != TEXT_RIGHT && !column->last)
        put_spaces(out, space);
}

static void put_row(const struct text_table *table, FILE *out, const struct text_style *style,
                    const unsigned widths[COLUMNS_LIMIT], const struct cell *cells)
{
    unsigned last = 0; // no spaces at the end of a line
    for (unsigned i = 0; i < table->columns; i++)
        if (widths[i] && (cells ? cells[i].width > 0 : table->head[i][0] != '\0'))
            last = i;
    bool first = true;
    for (unsigned i = 0; i <= last; i++) {
        if (!widths[i])
            continue;
        if (!first)
            put_spaces(out, GAP);
        first = false;
        const char *text = cells ? table->text + cells[i].text : table->head[i];
        put_cell(out, style, &(struct column){table->align[i], widths[i], i == last},
                 cells ? cells[i].tone : TEXT_DIM, text);
    }
    putc_unlocked('\n', out);
}

void text_table_print(const struct text_table *table, FILE *out, const struct text_style *style)
{
    unsigned widths[COLUMNS_LIMIT];
    lay_out(table, style, widths);
    if (table->headed && table->count > 0)
        put_row(table, out, style, widths, NULL);
    for (size_t row = 0; row + table->columns <= table->count; row += table->columns)
        put_row(table, out, style, widths, table->cells + row);
}

void text_table_free(struct text_table *table)
{
    if (!table)
        return;
    free(table->cells);
    free(table->text);
    free(table);
}
