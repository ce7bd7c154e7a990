// SPDX-License-Identifier: MIT
#ifndef CAIRN_ANALYZE_TREE_SUPPRESSIONS_H
#define CAIRN_ANALYZE_TREE_SUPPRESSIONS_H

// Known leaks, which a report leaves out: a file as that of LeakSanitizer.
//
//   # a comment
//   leak:cache_new          paths through a function, a source file or a module whose name has this
//   leak:^libfoo*.so$       * is any text; ^ and $ are the ends of a name
//
// "startup" instead of a file: what the loader and the constructors of libraries allocate.

#include "analyze/tree/pattern.h"

// A pattern that matches all of them. NULL and one line in *error, to be freed.
struct pattern *suppressions_read(const char *path, char **error);

#endif
