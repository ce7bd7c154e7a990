// SPDX-License-Identifier: MIT
#ifndef CAIRN_PROFILE_OUTPUT_H
#define CAIRN_PROFILE_OUTPUT_H

// Files that are replaced as a whole or not at all: a new one is written beside the old one and
// takes its name at the end, so a full disk or a crash leaves the old one as it was.

#include "profile/bytes.h"

// 0 or -errno. Follows symbolic links: what a link names is replaced, not the link.
int output_replace(const char *path, const struct bytes *content);

// The same, but the new file stays open for appending, locked (see output_is_locked) before it gets
// its name. The descriptor, or -errno.
int output_replace_and_open(const char *path, const struct bytes *content);

// Writes all of it at the file's end, or takes back what was written of it. 0 or -errno.
int output_append(int fd, const struct bytes *content);

// Whether the profile that fd has open is being recorded right now.
bool output_is_locked(int fd);

#endif
