// SPDX-License-Identifier: MIT
#ifndef CAIRN_EXPORT_GZIP_H
#define CAIRN_EXPORT_GZIP_H

#include "profile/chunks/bytes.h"
#include <stdio.h>

// Writes bytes as a member of a gzip file, which may have several, and forgets them. 0 or -errno.
int gzip_write(FILE *out, struct bytes *bytes);

// The same if there are many: a large file need not be in memory as a whole.
int gzip_write_large(FILE *out, struct bytes *bytes);

#endif
