// SPDX-License-Identifier: MIT
#include "base/text/wrap.h"
#include "base/memory.h"
#include <string.h>

// The next word of *rest. A number stays with its percent sign.
static char *next_word(char **rest)
{
    char *word = strsep(rest, " ");
    while (*rest && **rest == '%') {
        (*rest)[-1] = ' ';
        strsep(rest, " ");
    }
    return word;
}

void wrap_print(FILE *out, const struct text_style *style, enum text_tone tone, const char *text,
                unsigned indent)
{
    const unsigned width = style->width ? style->width : WRAP_USUAL_WIDTH;
    char *words = memory_checked(strdup(text_safe(text))), *rest = words;
    char *line = memory_array(strlen(words) + 1, 1);
    for (char *word; (word = next_word(&rest));) {
        if (*line && indent + text_width(line) + 1 + text_width(word) > width) {
            text_put(out, style, tone, line);
            fprintf(out, "\n%*s", (int)indent, "");
            *line = 0;
        }
        if (*line)
            strcat(line, " ");
        strcat(line, word);
    }
    text_put(out, style, tone, line);
    putc('\n', out);
    free(line);
    free(words);
}

static void put_wrapped_line(FILE *out, const struct text_style *style, enum text_tone tone,
                             const char *line)
{
    char *words = memory_text(line), *rest = words;
    unsigned used = 0;
    for (const char *word; (word = next_word(&rest));) {
        const unsigned width = text_width(text_safe(word));
        if (used > 0 && style->width && used + 1 + width > style->width) {
            fputs("\n  ", out);
            used = 2;
        } else if (used > 0) {
            fputc(' ', out);
            used++;
        }
        text_put(out, style, tone, word);
        used += width;
    }
    fputc('\n', out);
    free(words);
}

void wrap_lines(FILE *out, const struct text_style *style, enum text_tone tone, const char *text)
{
    char *copy = memory_text(text), *rest = copy;
    for (const char *line; (line = strsep(&rest, "\n"));)
        if (rest || *line) // the last line has an end, too
            put_wrapped_line(out, style, tone, line);
    free(copy);
}
