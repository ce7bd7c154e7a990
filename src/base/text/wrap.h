// SPDX-License-Identifier: MIT
#ifndef CAIRN_BASE_TEXT_WRAP_H
#define CAIRN_BASE_TEXT_WRAP_H

// Prose for a terminal: wrapped at words, never inside of one.

#include "base/text/text.h"

enum { WRAP_USUAL_WIDTH = 80 }; // if the width is not known

// Prints text whose first line begins at column `indent`, where the caller has left off; the lines
// below begin there, too. A word that is wider than what is left stands alone. Foreign text is made
// safe. Ends with a newline.
void wrap_print(FILE *out, const struct text_style *style, enum text_tone tone, const char *text,
                unsigned indent);

// Prints lines, of which those that are wider than the terminal are wrapped, with a small indent. A
// stream without a width has them whole.
void wrap_lines(FILE *out, const struct text_style *style, enum text_tone tone, const char *text);

#endif
