// SPDX-License-Identifier: MIT
#ifndef CAIRN_BASE_TEXT_UNICODE_H
#define CAIRN_BASE_TEXT_UNICODE_H

// Characters in text that others wrote: which of them are harmless on a terminal, and how wide.

#include <stdbool.h>
#include <stdint.h>

// Reads one character of UTF-8. Its length in bytes; 0: malformed.
unsigned unicode_read(const char *text, uint32_t *code);

// False for control characters (C0, C1), for those that break lines, change the direction of text
// or take no room of their own to be seen by, and for what is no character.
bool unicode_is_visible(uint32_t code);

unsigned unicode_columns(uint32_t code); // on a screen: 0, 1 or 2

#endif
