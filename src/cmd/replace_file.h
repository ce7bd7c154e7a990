// SPDX-License-Identifier: MIT
#ifndef CAIRN_CMD_REPLACE_FILE_H
#define CAIRN_CMD_REPLACE_FILE_H

// Writing a file that the user named, as base/new_file.h does it. Files that are not ordinary (a
// terminal, /dev/null, a pipe), and stdout under another name, are written to as they are.

#include <stdbool.h>
#include <stdio.h>

// Writes what `write` puts into the stream. `write` returns 0 or -errno, and so does this;
// new_file_error() has words for it.
int replace_file(const char *path, int (*write)(FILE *out, const void *content),
                 const void *content);

// Whether two paths are the same file, which exists.
bool replace_file_is_same(const char *path, const char *other);

#endif
