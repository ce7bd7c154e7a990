// SPDX-License-Identifier: MIT

#include "base/text/json.h"
#include "base/text/unicode.h"
#include <assert.h>
#include <math.h>
#include <string.h>

void json_start(struct json *json, FILE *out)
{
    json->out = out;
    json->used = json->depth = 0;
    json->after_key = json->filled[0] = json->spread[0] = false;
}

static void flush(struct json *json)
{
    fwrite(json->buffer, 1, json->used, json->out);
    json->used = 0;
}

static void put_bytes(struct json *json, const char *bytes, size_t count)
{
    while (count > JSON_BUFFER - json->used) {
        const size_t part = JSON_BUFFER - json->used;
        memcpy(json->buffer + json->used, bytes, part);
        json->used += part;
        bytes += part;
        count -= part;
        flush(json);
    }
    memcpy(json->buffer + json->used, bytes, count);
    json->used += count;
}

static void put_byte(struct json *json, char byte)
{
    if (json->used == JSON_BUFFER)
        flush(json);
    json->buffer[json->used++] = byte;
}

static void put_text(struct json *json, const char *text)
{
    put_bytes(json, text, strlen(text));
}

void json_finish(struct json *json)
{
    assert(json->depth == 0);
    put_byte(json, '\n');
    flush(json);
}

static void new_line(struct json *json)
{
    put_byte(json, '\n');
    for (unsigned i = 0; i < json->depth; i++)
        put_text(json, "  ");
}

// Separates a value from the one before: nothing after a key, a comma after another value.
static void before_value(struct json *json)
{
    if (json->after_key) {
        json->after_key = false;
        return;
    }
    if (json->filled[json->depth])
        put_byte(json, ',');
    if (json->spread[json->depth])
        new_line(json);
    else if (json->filled[json->depth])
        put_byte(json, ' ');
    json->filled[json->depth] = true;
}

static void open_level(struct json *json, char bracket, bool spread)
{
    before_value(json);
    put_byte(json, bracket);
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
    put_byte(json, bracket);
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

// Harmless characters stand for themselves; others are harmless to programs, but not on a terminal
// that shows the JSON.
static void put_escaped(struct json *json, uint32_t code)
{
    char text[16];
    static const char shorthand[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    const char *found = code && code < 0x80 ? strchr(shorthand, (int)code) : NULL;
    if (found)
        snprintf(text, sizeof text, "\\%c", letters[found - shorthand]);
    else if (code < 0x10000)
        snprintf(text, sizeof text, "\\u%04x", code);
    else
        snprintf(text, sizeof text, "\\u%04x\\u%04x", 0xd7c0 + (code >> 10),
                 0xdc00 + (code & 0x3ff));
    put_text(json, text);
}

static void put_quoted(struct json *json, const char *text)
{
    put_byte(json, '"');
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
        put_bytes(json, plain, (size_t)(text - plain));
        if (length == 0)
            put_text(json, "\xef\xbf\xbd"); // a byte that is no UTF-8: the replacement character
        else
            put_escaped(json, code);
        plain = text += length ? length : 1;
    }
    put_bytes(json, plain, (size_t)(text - plain));
    put_byte(json, '"');
}

void json_key(struct json *json, const char *key)
{
    before_value(json);
    put_quoted(json, key);
    put_text(json, ": ");
    json->after_key = true;
}

void json_string(struct json *json, const char *text)
{
    if (!text) {
        json_null(json);
        return;
    }
    before_value(json);
    put_quoted(json, text);
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
    put_bytes(json, digits + sizeof digits - length, length);
}

void json_real(struct json *json, double value)
{
    if (!isfinite(value)) {
        json_null(json);
        return;
    }
    before_value(json);
    char text[32];
    snprintf(text, sizeof text, "%.10g", value);
    put_text(json, text);
}

void json_bool(struct json *json, bool value)
{
    before_value(json);
    put_text(json, value ? "true" : "false");
}

void json_null(struct json *json)
{
    before_value(json);
    put_text(json, "null");
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

void json_put_members(struct json *json, const char *members, size_t bytes)
{
    before_value(json);
    put_bytes(json, members, bytes);
}
