// SPDX-License-Identifier: MIT
#include "base/text/decimal.h"

#define MOST_DIGITS 17

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool decimal_read(const char **at, const char *end, struct decimal *number)
{
    const char *c = *at;
    int count = 0, seen = 0;
    bool point = false;
    *number = (struct decimal){0};
    for (; c < end && (is_digit(*c) || (*c == '.' && !point)); c++) {
        if (*c == '.') {
            point = true;
            continue;
        }
        seen++;
        const bool fits = count < MOST_DIGITS;
        if (fits)
            number->digits = number->digits * 10 + (uint64_t)(*c - '0');
        count += fits && number->digits;
        number->exponent += (!fits && !point) - (fits && point);
    }
    if (!seen)
        return false;
    if (c + 1 < end && (*c == 'e' || *c == 'E')) {
        const char *digit = c + 1 + (c[1] == '-' || c[1] == '+');
        int exponent = 0;
        for (; digit < end && is_digit(*digit); digit++)
            exponent = exponent < 1000 ? exponent * 10 + (*digit - '0') : exponent;
        number->exponent += c[1] == '-' ? -exponent : exponent;
        c = digit;
    }
    *at = c;
    return true;
}

uint64_t decimal_whole(struct decimal number, uint64_t unit)
{
    unsigned __int128 value = (unsigned __int128)number.digits * unit;
    for (; number.exponent > 0 && value; number.exponent--) {
        value *= 10;
        if (value > UINT64_MAX)
            return UINT64_MAX;
    }
    for (; number.exponent < 0 && value; number.exponent++)
        value /= 10;
    return value < UINT64_MAX ? (uint64_t)value : UINT64_MAX;
}

uint64_t decimal_inverse(struct decimal number, uint64_t times)
{
    unsigned __int128 above = times, below = number.digits;
    for (; number.exponent < 0; number.exponent++) {
        above *= 10;
        if (above >> 100)
            return UINT64_MAX;
    }
    for (; number.exponent > 0; number.exponent--) {
        below *= 10;
        if (below >> 100)
            return 0;
    }
    if (!below)
        return UINT64_MAX;
    above = (above + below - 1) / below;
    return above < UINT64_MAX ? (uint64_t)above : UINT64_MAX;
}

char *decimal_write(char *text, uint64_t number)
{
    char digits[20];
    unsigned count = 0;
    do
        digits[count++] = (char)('0' + number % 10);
    while (number /= 10);
    while (count)
        *text++ = digits[--count];
    *text = 0;
    return text;
}
