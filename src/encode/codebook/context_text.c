// SPDX-License-Identifier: MIT
#include "encode/codebook/context_text.h"

static const char digits[] = "0123456789abcdef";

struct writer {
    char *text;
    size_t at, bytes;
};

static void put(struct writer *out, char letter)
{
    if (out->at + 1 < out->bytes)
        out->text[out->at++] = letter;
}

static void put_number(struct writer *out, uint64_t number, unsigned least)
{
    unsigned count = number ? (67 - (unsigned)__builtin_clzll(number)) / 4 : 1;
    for (count = count < least ? least : count; count-- > 0;)
        put(out, digits[number >> 4 * count & 15]);
}

static uint8_t sum_of(const struct context_text *value)
{
    uint64_t hash = (value->id ^ (uint64_t)value->process << 17) * UINT64_C(0x9e3779b97f4a7c15);
    hash = (hash ^ hash >> 31 ^ value->handle) * UINT64_C(0xff51afd7ed558ccd);
    return (uint8_t)(hash >> 56);
}

void context_text_format(const struct context_text *value, char *text, size_t bytes)
{
    struct writer out = {text, 0, bytes};
    if (!bytes)
        return;
    put(&out, 'c');
    put(&out, ':');
    if (!value->handle) {
        put(&out, '?');
    } else {
        put_number(&out, value->process, 8);
        put(&out, '.');
        put_number(&out, value->id, 1);
        put(&out, '.');
        put_number(&out, value->handle >> 32, 1);
        put(&out, '.');
        put_number(&out, value->handle & UINT32_MAX, 1);
        put(&out, '.');
        put_number(&out, sum_of(value), 2);
    }
    text[out.at] = 0;
}

static int digit_of(char letter)
{
    return letter >= '0' && letter <= '9'   ? letter - '0'
           : letter >= 'a' && letter <= 'f' ? letter - 'a' + 10
                                            : -1;
}

// A number of `least` to `most` digits, at *at, which moves behind it.
static bool take_number(const char **at, const char *end, unsigned least, unsigned most,
                        uint64_t *number)
{
    unsigned count = 0;
    *number = 0;
    for (; *at < end && digit_of(**at) >= 0; (*at)++) {
        if (++count > most)
            return false;
        *number = *number << 4 | (unsigned)digit_of(**at);
    }
    return count >= least;
}

static bool take_dot(const char **at, const char *end)
{
    return *at < end && *(*at)++ == '.';
}

enum context_text_verdict context_text_parse(const char *text, size_t bytes,
                                             struct context_text *value, size_t *length)
{
    const char *at = text + 2, *end = text + bytes;
    uint64_t process, id, stamp, node, sum;
    if (bytes < 3 || text[0] != 'c' || text[1] != ':')
        return CONTEXT_TEXT_NONE;
    if (*at == '?') {
        *length = 3;
        return CONTEXT_TEXT_UNKNOWN;
    }
    if (!take_number(&at, end, 8, 8, &process) || !take_dot(&at, end))
        return CONTEXT_TEXT_NONE;
    bool whole = take_number(&at, end, 1, 16, &id) && take_dot(&at, end) &&
                 take_number(&at, end, 1, 8, &stamp) && take_dot(&at, end) &&
                 take_number(&at, end, 1, 8, &node) && take_dot(&at, end) &&
                 take_number(&at, end, 2, 2, &sum);
    *length = (size_t)(at - text);
    if (!whole)
        return CONTEXT_TEXT_DAMAGED;
    *value = (struct context_text){(uint32_t)process, id, stamp << 32 | node};
    return sum == sum_of(value) && node ? CONTEXT_TEXT_SOUND : CONTEXT_TEXT_DAMAGED;
}
