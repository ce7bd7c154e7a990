// SPDX-License-Identifier: MIT
#ifndef CAIRN_IMPORT_JSON_READER_H
#define CAIRN_IMPORT_JSON_READER_H

// Reads JSON as a stream: nothing of it is kept, so a large file takes no more than itself. Errors
// are sticky.
//
//   json_enter(&json, '{');
//   while ((key = json_next_key(&json, buffer)))   or json_next() in an array
//       if (...) value = json_number(&json);
//       else json_skip(&json);

#include <stdbool.h>
#include <stddef.h>

enum { JSON_KEY_BYTES = 64, JSON_READ_DEPTH = 64 };

struct json_reader {
    const char *begin, *at, *end;
    unsigned depth;
    bool first; // of the members of what was entered last
    bool failed;
};

struct json_reader json_reader(const char *text, size_t size);

char json_peek(struct json_reader *json); // the first character of the next value; 0: none

// Into an object '{' or an array '['. False: the next value is something else, and was skipped.
bool json_enter(struct json_reader *json, char bracket);

// The key of the next member, cut to the buffer's size; NULL: the object is over.
const char *json_next_key(struct json_reader *json, char buffer[JSON_KEY_BYTES]);
bool json_next(struct json_reader *json); // whether the array has another member

char *json_text(struct json_reader *json); // to be freed; NULL: the value is no text, and skipped
double json_number(struct json_reader *json); // 0: the value is no number, and skipped
void json_skip(struct json_reader *json);

#endif
