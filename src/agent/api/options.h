// SPDX-License-Identifier: MIT
#ifndef CAIRN_AGENT_API_OPTIONS_H
#define CAIRN_AGENT_API_OPTIONS_H

// The words of cairn_start(). In whole numbers: the agent has no floating point.

#include "live/live.h"
#include <stddef.h>

// One line that says what is wrong; may have no room at all.
struct api_error {
    char *text;
    size_t bytes;
};

// Always returns -EINVAL. `word` may not end where it should: `length` of it is quoted.
int api_refuse(struct api_error *error, const char *before, const char *word, size_t length,
               const char *after);

// The session of one process that the words ask for. 0 or -EINVAL.
int api_parse_options(const char *words, struct live_session *session, struct api_error *error);

#endif
