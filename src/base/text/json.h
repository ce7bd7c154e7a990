// SPDX-License-Identifier: MIT
#ifndef CAIRN_BASE_TEXT_JSON_H
#define CAIRN_BASE_TEXT_JSON_H

// Writes JSON as a stream: commas, quotes and escapes are taken care of, and what comes out is
// valid whatever bytes a file name or a symbol holds. Every value inside of an object follows a
// json_key().

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum {
    JSON_DEPTH = 16,
    JSON_BUFFER = 16 << 10,
};

struct json {
    FILE *out;
    size_t used; // of the buffer
    unsigned depth;
    bool after_key;
    bool filled[JSON_DEPTH];  // something stands at this level already
    bool spread[JSON_DEPTH];  // each member of this level on a line of its own
    char buffer[JSON_BUFFER]; // not yet in `out`: calls of stdio take longer than what they do here
};

// Lines make the two outer levels readable and let line tools look at one member at a time. Nothing
// else may write to `out` in between.
void json_start(struct json *json, FILE *out);
void json_finish(struct json *json); // the last newline

void json_object(struct json *json);
void json_end_object(struct json *json);
void json_array(struct json *json);
void json_spread_array(struct json *json); // one member a line
void json_end_array(struct json *json);

void json_key(struct json *json, const char *key);
void json_string(struct json *json, const char *text); // NULL becomes null
void json_unsigned(struct json *json, uint64_t value);
void json_real(struct json *json,
               double value); // NaN and infinity become null
void json_bool(struct json *json, bool value);
void json_null(struct json *json);

// A key and its value in one.
void json_put_string(struct json *json, const char *key, const char *text);
void json_put_unsigned(struct json *json, const char *key, uint64_t value);
void json_put_real(struct json *json, const char *key, double value);
void json_put_bool(struct json *json, const char *key, bool value);
void json_put_words(struct json *json, const char *key, char *const *words); // ends with NULL

// Members of an object that a writer of their own has put, which has no other level.
void json_put_members(struct json *json, const char *members, size_t bytes);

#endif
