// SPDX-License-Identifier: MIT
#ifndef CAIRN_IMPORT_LINES_H
#define CAIRN_IMPORT_LINES_H

// The lines of a text file, one after the other. Each ends with a byte 0 in the place of its break.

#include "import/import.h"

struct text_lines {
    char *at, *end;
    unsigned number; // of the line that was read last, from 1
};

static inline struct text_lines text_lines(const struct import_file *file)
{
    return (struct text_lines){.at = file->data, .end = file->data + file->size};
}

// NULL: there are no more.
static inline char *text_line(struct text_lines *lines)
{
    if (lines->at >= lines->end)
        return NULL;
    char *line = lines->at, *end = memchr(line, '\n', (size_t)(lines->end - line));
    if (!end)
        end = lines->end;
    lines->at = end + 1;
    lines->number++;
    if (end > line && end[-1] == '\r')
        end[-1] = '\0';
    *end = '\0';
    return line;
}

#endif
