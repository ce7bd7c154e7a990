// SPDX-License-Identifier: MIT

#include "import/json_reader.h"
#include "base/memory.h"
#include <string.h>

struct json_reader json_reader(const char *text, size_t size)
{
    return (struct json_reader){.begin = text, .at = text, .end = text + size};
}

char json_peek(struct json_reader *json)
{
    while (json->at < json->end &&
           (*json->at == ' ' || *json->at == '\n' || *json->at == '\r' || *json->at == '\t'))
        json->at++;
    return json->at < json->end && !json->failed ? *json->at : '\0';
}

static bool take(struct json_reader *json, char wanted)
{
    if (json_peek(json) != wanted)
        json->failed = true;
    else
        json->at++;
    return !json->failed;
}

bool json_enter(struct json_reader *json, char bracket)
{
    if (json_peek(json) != bracket) {
        json_skip(json);
        return false;
    }
    json->at++;
    json->first = true;
    json->failed |= ++json->depth > JSON_READ_DEPTH;
    return !json->failed;
}

// To the next member; false: the closing bracket was there instead.
static bool next_member(struct json_reader *json, char closing)
{
    const bool first = json->first;
    json->first = false;
    if (json_peek(json) == closing) {
        json->at++;
        json->depth--;
        return false;
    }
    if (!first)
        take(json, ',');
    json->failed |= !json_peek(json);
    return !json->failed;
}

bool json_next(struct json_reader *json)
{
    return next_member(json, ']');
}

static unsigned hex(const char *at)
{
    unsigned value = 0;
    for (unsigned i = 0; i < 4; i++) {
        const char digit = at[i];
        const unsigned nibble = digit >= '0' && digit <= '9'   ? (unsigned)(digit - '0')
                                : digit >= 'a' && digit <= 'f' ? (unsigned)(digit - 'a' + 10)
                                : digit >= 'A' && digit <= 'F' ? (unsigned)(digit - 'A' + 10)
                                                               : 0x10000u;
        value = value << 4 | nibble;
    }
    return value;
}

static char *put_character(char *to, unsigned code)
{
    if (code == 0 || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
        code = 0xfffd;
    if (code < 0x80) {
        *to++ = (char)code;
        return to;
    }
    if (code < 0x800) {
        *to++ = (char)(0xc0 | code >> 6);
    } else {
        if (code < 0x10000) {
            *to++ = (char)(0xe0 | code >> 12);
        } else {
            *to++ = (char)(0xf0 | code >> 18);
            *to++ = (char)(0x80 | (code >> 12 & 0x3f));
        }
        *to++ = (char)(0x80 | (code >> 6 & 0x3f));
    }
    *to++ = (char)(0x80 | (code & 0x3f));
    return to;
}

// An escape behind its backslash, as far as the text reaches: as many bytes as it has characters at
// most.
static char *put_escape(struct json_reader *json, const char *end, char *to)
{
    static const char letters[] = "bfnrt", meanings[] = "\b\f\n\r\t";
    const char letter = json->at < end ? *json->at++ : '\0';
    const char *known = letter ? strchr(letters, letter) : NULL;
    if (letter != 'u') {
        *to++ = known ? meanings[known - letters] : letter;
        json->failed |= !letter;
        return to;
    }
    if (end - json->at < 4) {
        json->failed = true;
        return to;
    }
    unsigned code = hex(json->at);
    json->at += 4;
    if (code >= 0xd800 && code < 0xdc00 && end - json->at >= 6 && json->at[0] == '\\' &&
        json->at[1] == 'u') {
        const unsigned low = hex(json->at + 2);
        if (low >= 0xdc00 && low < 0xe000) {
            code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
            json->at += 6;
        }
    }
    return put_character(to, code);
}

static const char *closing_quote(const struct json_reader *json)
{
    const char *at = json->at;
    while (at < json->end && *at != '"')
        at += *at == '\\' && at + 1 < json->end ? 2 : 1;
    return at < json->end ? at : NULL;
}

char *json_text(struct json_reader *json)
{
    if (json_peek(json) != '"') {
        json_skip(json);
        return NULL;
    }
    json->at++;
    const char *end = closing_quote(json);
    if (!end) {
        json->failed = true;
        return NULL;
    }
    char *text = memory_checked(malloc((size_t)(end - json->at) + 1)), *to = text;
    while (json->at < end) {
        const char letter = *json->at++;
        if (letter == '\\')
            to = put_escape(json, end, to);
        else
            *to++ = letter ? letter : ' ';
    }
    *to = '\0';
    json->at = end + 1;
    return text;
}

const char *json_next_key(struct json_reader *json, char buffer[JSON_KEY_BYTES])
{
    if (!next_member(json, '}'))
        return NULL;
    char *key = json_text(json);
    json->failed |= !key;
    snprintf(buffer, JSON_KEY_BYTES, "%s", key ? key : "");
    free(key);
    return take(json, ':') ? buffer : NULL;
}

double json_number(struct json_reader *json)
{
    const char first = json_peek(json);
    if (first != '-' && (first < '0' || first > '9')) {
        json_skip(json);
        return 0;
    }
    char *end; // a byte 0 stands behind the text
    const double value = strtod(json->at, &end);
    json->failed |= end == json->at || end > json->end;
    json->at = end;
    return value;
}

// Of anything but texts, brackets alone matter.
void json_skip(struct json_reader *json)
{
    unsigned depth = 0;
    do {
        const char next = json_peek(json);
        if (next == '"') {
            json->at++;
            const char *end = closing_quote(json);
            json->failed |= !end;
            json->at = end ? end + 1 : json->end;
        } else if (next == '{' || next == '[') {
            json->at++;
            depth++;
        } else if (next == '}' || next == ']') {
            if (depth == 0)
                json->failed = true;
            else
                depth--;
            json->at++;
        } else if (next == ',' || next == ':') {
            json->failed |= depth == 0;
            json->at++;
        } else if (next) {
            while (json->at < json->end && !strchr(" \t\r\n,:]}", *json->at))
                json->at++;
        } else {
            json->failed = true;
        }
    } while (depth && !json->failed);
}
