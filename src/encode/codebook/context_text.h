// SPDX-License-Identifier: MIT
#ifndef CAIRN_ENCODE_CODEBOOK_CONTEXT_TEXT_H
#define CAIRN_ENCODE_CODEBOOK_CONTEXT_TEXT_H

// A context as text, for logs:
//
//   c:9f3a01c2.1a.3.7.5e      process . id . stamp . node . sum, in hexadecimal digits
//   c:?                       one that is not known
//
// The process is a hash of its pid and start. The sum is there because logs are cut off, and
// copied by hand.

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CONTEXT_TEXT_BYTES = 56 }; // bytes that are enough

struct context_text {
    uint32_t process; // as live_process_key() has it
    uint64_t id, handle;
};

// Cut off where there is no room. Signal-safe.
void context_text_format(const struct context_text *value, char *text, size_t bytes);

enum context_text_verdict {
    CONTEXT_TEXT_SOUND,
    CONTEXT_TEXT_UNKNOWN, // it says that the context was not known
    CONTEXT_TEXT_DAMAGED, // it begins like one, but its sum is another
    CONTEXT_TEXT_NONE,
};

// Reads one at the beginning of text; *length is how much of it that is.
enum context_text_verdict context_text_parse(const char *text, size_t bytes,
                                             struct context_text *value, size_t *length);

#endif
