// SPDX-License-Identifier: MIT
#ifndef CAIRN_ANALYZE_TREE_PATTERN_H
#define CAIRN_ANALYZE_TREE_PATTERN_H

// Regular expressions (POSIX extended) over function names; a part of a name matches as it is, too.
// Each function is matched once.

#include "analyze/tree/functions.h"

struct pattern;

// NULL and one line in *error (to be freed) if it is no regular expression.
struct pattern *pattern_new(const char *expression, char **error);
// The same over functions, source files and modules; it is called `title`.
struct pattern *pattern_new_of_places(const char *expression, const char *title, char **error);
bool pattern_matches(struct pattern *pattern, const struct functions *functions, uint32_t function);
const char *pattern_text(const struct pattern *pattern);
void pattern_free(struct pattern *pattern);

#endif
