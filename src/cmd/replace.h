// SPDX-License-Identifier: MIT
#ifndef CAIRN_CMD_REPLACE_H
#define CAIRN_CMD_REPLACE_H

// Writing a file that the user named: beside it, and then in its place, so that an error leaves
// what was there. What is no ordinary file (a terminal, /dev/null, a pipe) is written to as it is.

#include <stdio.h>

// Writes what `write` puts into the stream. `write` returns 0 or -errno, and so does this.
int replace_file(const char *path, int (*write)(FILE *out, const void *content),
                 const void *content);

#endif
