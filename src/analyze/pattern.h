// SPDX-License-Identifier: MIT
#ifndef CAIRN_ANALYZE_PATTERN_H
#define CAIRN_ANALYZE_PATTERN_H

// Regular expressions (POSIX extended) over function names; a part of a name matches as it is, too.
// Each function is matched once.

#include "analyze/functions.h"

struct pattern;

// NULL and one line in *error (to be freed) if it is no regular expression.
struct pattern *pattern_new(const char *expression, char **error);
bool pattern_matches(struct pattern *pattern, const struct functions *functions, uint32_t function);
const char *pattern_text(const struct pattern *pattern);
void pattern_free(struct pattern *pattern);

#endif
