// SPDX-License-Identifier: MIT
#ifndef CAIRN_BASE_TEXT_DECIMAL_H
#define CAIRN_BASE_TEXT_DECIMAL_H

// Decimal numbers as people write them, without floating point: the agent has none.

#include <stdbool.h>
#include <stdint.h>

// digits * 10^exponent.
struct decimal {
    uint64_t digits;
    int exponent;
};

// Reads a number at *at (before end) and moves on. Digits beyond those that fit are dropped.
bool decimal_read(const char **at, const char *end, struct decimal *number);

// Writes a number at `text`, with a NUL behind it, and returns its end. Signal-safe.
char *decimal_write(char *text, uint64_t number);

// The number times `unit`, rounded down; UINT64_MAX if that is too large.
uint64_t decimal_whole(struct decimal number, uint64_t unit);

// times / number, rounded up; UINT64_MAX if that is too large.
uint64_t decimal_inverse(struct decimal number, uint64_t times);

#endif
