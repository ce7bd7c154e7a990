// SPDX-License-Identifier: MIT

#include "base/json.h"
#include "base/unicode.h"
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

// Harmless characters stand for themselves; others would be harmless to programs, but not on the
// terminal of somebody who looks at the JSON.
static void write_escaped(FILE *out, uint32_t code)
{
    static const char shorthand[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    const char *found = code && code < 0x80 ? strchr(shorthand, (int)code) : NULL;
    if (found)
        fprintf(out, "\\%c", letters[found - shorthand]);
    else if (code < 0x10000)
        fprintf(out, "\\u%04x", code);
    else
        fprintf(out, "\\u%04x\\u%04x", 0xd7c0 + (code >> 10), 0xdc00 + (code & 0x3ff));
}

static void write_quoted(FILE *out, const char *text)
{
    putc_unlocked('"', out);
    const char *plain = text;
    while (*text) {
        const unsigned char byte = (unsigned char)*text;
        if (byte >= ' ' && byte < 0x7f && byte != '"' && byte != '\\') {
            text++; // most of all text
            continue;
        }
        uint32_t code;
        const unsigned length = unicode_read(text, &code);
        if (length && code != '"' && code != '\\' && unicode_is_visible(code)) {
            text += length;
            continue;
        }
        fwrite_unlocked(plain, 1, (size_t)(text - plain), out);
        if (length == 0)
            fputs("\xef\xbf\xbd", out); // a byte that is no UTF-8: the replacement character
        else
            write_escaped(out, code);
        plain = text += length ? length : 1;
    }
    fwrite_unlocked(plain, 1, (size_t)(text - plain), out);
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
