// SPDX-License-Identifier: MIT

#include "base/json.h"
#include <assert.h>
#include <math.h>
#include <string.h>

void json_start(struct json *json, FILE *out)
{
    *json = (struct json){.out = out};
}

void json_finish(struct json *json)
{
    assert(json->depth == 0);
    putc_unlocked('\n', json->out);
}

static void new_line(struct json *json)
{
    putc_unlocked('\n', json->out);
    for (unsigned i = 0; i < json->depth; i++)
        fputs("  ", json->out);
}

// What stands before a value: nothing after a key, a comma after another value.
static void before_value(struct json *json)
{
    if (json->after_key) {
        json->after_key = false;
        return;
    }
    if (json->filled[json->depth])
        putc_unlocked(',', json->out);
    if (json->spread[json->depth])
        new_line(json);
    else if (json->filled[json->depth])
        putc_unlocked(' ', json->out);
    json->filled[json->depth] = true;
}

static void open_level(struct json *json, char bracket, bool spread)
{
    before_value(json);
    putc_unlocked(bracket, json->out);
    assert(json->depth + 1 < JSON_DEPTH);
    json->depth++;
    json->filled[json->depth] = false;
    json->spread[json->depth] = spread;
}

static void close_level(struct json *json, char bracket)
{
    assert(json->depth > 0 && !json->after_key);
    bool lines = json->filled[json->depth] && json->spread[json->depth];
    json->depth--;
    if (lines)
        new_line(json);
    putc_unlocked(bracket, json->out);
}

void json_object(struct json *json)
{
    open_level(json, '{', json->depth == 0);
}

void json_end_object(struct json *json)
{
    close_level(json, '}');
}

void json_array(struct json *json)
{
    open_level(json, '[', false);
}

void json_spread_array(struct json *json)
{
    open_level(json, '[', true);
}

void json_end_array(struct json *json)
{
    close_level(json, ']');
}

// The length of the well-formed UTF-8 sequence at text, 0 if there is none.
static unsigned sequence_length(const unsigned char *text)
{
    unsigned length = text[0] < 0x80                      ? 1
                      : text[0] >= 0xc2 && text[0] < 0xe0 ? 2
                      : text[0] >= 0xe0 && text[0] < 0xf0 ? 3
                      : text[0] >= 0xf0 && text[0] < 0xf5 ? 4
                                                          : 0;
    for (unsigned i = 1; i < length; i++)
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    bool overlong = (text[0] == 0xe0 && text[1] < 0xa0) || (text[0] == 0xf0 && text[1] < 0x90);
    bool surrogate = text[0] == 0xed && text[1] >= 0xa0;
    bool beyond = text[0] == 0xf4 && text[1] >= 0x90;
    return overlong || surrogate || beyond ? 0 : length;
}

static void write_escaped(FILE *out, unsigned char byte)
{
    static const char shorthand[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    const char *found = strchr(shorthand, byte);
    if (found && byte)
        fprintf(out, "\\%c", letters[found - shorthand]);
    else
        fprintf(out, "\\u%04x", byte);
}

static void write_quoted(FILE *out, const char *text)
{
    putc_unlocked('"', out);
    const unsigned char *at = (const unsigned char *)text, *plain = at;
    while (*at) {
        unsigned length = sequence_length(at);
        if (length > 1 ||
            (length == 1 && *at >= 0x20 && *at != '"' && *at != '\\' && *at != 0x7f)) {
            at += length;
            continue;
        }
        fwrite_unlocked(plain, 1, (size_t)(at - plain), out);
        if (length == 0)
            fputs("\xef\xbf\xbd", out); // a byte that is no UTF-8: the replacement character
        else
            write_escaped(out, *at);
        plain = ++at;
    }
    fwrite_unlocked(plain, 1, (size_t)(at - plain), out);
    putc_unlocked('"', out);
}

void json_key(struct json *json, const char *key)
{
    before_value(json);
    write_quoted(json->out, key);
    fputs_unlocked(": ", json->out);
    json->after_key = true;
}

void json_string(struct json *json, const char *text)
{
    if (!text) {
        json_null(json);
        return;
    }
    before_value(json);
    write_quoted(json->out, text);
}

void json_unsigned(struct json *json, uint64_t value)
{
    // By hand: a report of a million nodes writes ten million numbers.
    char digits[20];
    unsigned length = 0;
    do
        digits[sizeof digits - ++length] = (char)('0' + value % 10);
    while (value /= 10);
    before_value(json);
    fwrite_unlocked(digits + sizeof digits - length, 1, length, json->out);
}

void json_real(struct json *json, double value)
{
    if (!isfinite(value)) {
        json_null(json);
        return;
    }
    before_value(json);
    fprintf(json->out, "%.10g", value);
}

void json_bool(struct json *json, bool value)
{
    before_value(json);
    fputs_unlocked(value ? "true" : "false", json->out);
}

void json_null(struct json *json)
{
    before_value(json);
    fputs_unlocked("null", json->out);
}

void json_put_string(struct json *json, const char *key, const char *text)
{
    json_key(json, key);
    json_string(json, text);
}

void json_put_unsigned(struct json *json, const char *key, uint64_t value)
{
    json_key(json, key);
    json_unsigned(json, value);
}

void json_put_real(struct json *json, const char *key, double value)
{
    json_key(json, key);
    json_real(json, value);
}

void json_put_bool(struct json *json, const char *key, bool value)
{
    json_key(json, key);
    json_bool(json, value);
}

void json_put_words(struct json *json, const char *key, char *const *words)
{
    json_key(json, key);
    json_array(json);
    for (; words && *words; words++)
        json_string(json, *words);
    json_end_array(json);
}
