// SPDX-License-Identifier: MIT
#ifndef CAIRN_PROFILE_CHUNKS_OUTPUT_H
#define CAIRN_PROFILE_CHUNKS_OUTPUT_H

// Profiles as files: replaced as a whole (base/new_file.h), then appended to. Only their owner may
// read them, unless the file that is replaced says otherwise.

#include "profile/chunks/bytes.h"

// 0 or -errno, for which new_file_error() has words.
int output_replace(const char *path, const struct bytes *content);

// The same, but the new file stays open for appending, locked (see output_is_locked) before it gets
// its name. The descriptor, or -errno.
int output_replace_and_open(const char *path, const struct bytes *content);

// Before a recording replaces the profile of that name: keeps it as PATH.old, where an older one
// may be. Links, files that are no profiles and profiles that are being recorded stay as they are,
// at either name; so does the profile itself until it is replaced.
void output_keep_previous(const char *path);

// Writes all of it at the file's end, or takes back what was written of it. 0 or -errno.
int output_append(int fd, const struct bytes *content);

// Whether the profile that fd has open is being recorded right now.
bool output_is_locked(int fd);

#endif
