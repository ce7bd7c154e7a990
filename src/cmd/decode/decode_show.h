// SPDX-License-Identifier: MIT
#ifndef CAIRN_CMD_DECODE_DECODE_SHOW_H
#define CAIRN_CMD_DECODE_DECODE_SHOW_H

// The output of `cairn decode`. Contexts recur in a log: each is decoded once, and kept as text.

#include "analyze/decoding.h"
#include "base/text/json.h"
#include "encode/codebook/context_text.h"
#include "symbol/symbol.h"

enum decode_style { DECODE_BELOW, DECODE_FOLDED, DECODE_JSON };

// A context, where it stands.
struct decode_item {
    const char *text;
    size_t length;
    enum context_text_verdict verdict;
    struct context_text value;
    uint32_t process; // index; DECODING_NONE: not in the profile
    uint64_t line;    // of the input; 0: an argument
};

struct decode_kept;

struct decode_show {
    const struct profile *profile;
    struct decoding *decoding;
    struct symbols *symbols;
    enum decode_style style;
    bool resolved; // names are known: from now on it prints
    uint64_t failed;
    struct json json;
    struct decode_kept *kept;
    uint32_t kept_count, kept_slots;
};

void decode_show_open(struct decode_show *show, const struct profile *profile,
                      enum decode_style style, bool debuginfod);
uint64_t decode_show_close(struct decode_show *show); // how many could not be decoded

// The process of a value that names it.
void decode_show_find(const struct decode_show *show, struct decode_item *item);

// Before names are known it only notes which are wanted; for all that there could be in the second
// form.
void decode_show_argument(struct decode_show *show, const struct decode_item *item);
void decode_show_resolve(struct decode_show *show);
void decode_show_all(struct decode_show *show);

// Copies lines, with the contexts in them.
void decode_show_lines(struct decode_show *show, FILE *in);

#endif
