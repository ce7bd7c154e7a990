// SPDX-License-Identifier: MIT
#include "base/text/nearest.h"
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

enum { LONGEST = 63 };

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

unsigned word_distance(const char *a, const char *b)
{
    // Three rows of the usual table: a swap looks two rows back.
    unsigned rows[3][LONGEST + 1];
    const size_t length = strlen(a), columns = strlen(b);
    if (length > LONGEST || columns > LONGEST)
        return LONGEST;
    for (unsigned j = 0; j <= columns; j++)
        rows[0][j] = j;
    for (unsigned i = 1; i <= length; i++) {
        unsigned *row = rows[i % 3];
        const unsigned *above = rows[(i + 2) % 3], *second_above = rows[(i + 1) % 3];
        row[0] = i;
        for (unsigned j = 1; j <= columns; j++) {
            row[j] = least(above[j - 1] + (a[i - 1] != b[j - 1]), least(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], second_above[j - 2] + 1);
        }
    }
    return rows[length % 3][columns];
}

// More edits than these are no typing error: "wall" is not "calls". Words that begin alike may
// differ by one more: "traks" is "track".
static unsigned most_edits(const char *word, const char *other)
{
    const size_t length = strlen(word);
    return length < 4   ? 1
           : length < 6 ? (strncmp(word, other, 2) == 0 ? 2 : 1)
                        : (length < 12 ? 2 : 3);
}

const char *nearest_word(const char *word, const char *const *words)
{
    const char *nearest = NULL;
    unsigned smallest = UINT_MAX;
    const size_t length = strlen(word);
    for (; *words; words++) {
        unsigned edits = word_distance(word, *words);
        // "rep" is three edits from "report", and yet clear.
        if (length >= 3 && !strncmp(word, *words, length))
            edits = least(edits, 1);
        if (edits < smallest && edits < length && edits <= most_edits(word, *words)) {
            smallest = edits;
            nearest = *words;
        }
    }
    return nearest;
}
