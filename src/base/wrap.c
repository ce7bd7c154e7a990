// SPDX-License-Identifier: MIT
#include "base/wrap.h"
#include "base/memory.h"
#include <string.h>

void wrap_print(FILE *out, const struct text_style *style, enum text_tone tone, const char *text,
                unsigned indent)
{
    const unsigned width = style->width ? style->width : WRAP_USUAL_WIDTH;
    char *words = memory_checked(strdup(text_safe(text))), *rest = words;
    char *line = memory_array(strlen(words) + 1, 1);
    for (char *word; (word = strsep(&rest, " "));) {
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
