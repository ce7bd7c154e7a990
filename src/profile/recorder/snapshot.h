// SPDX-License-Identifier: MIT
#ifndef CAIRN_PROFILE_RECORDER_SNAPSHOT_H
#define CAIRN_PROFILE_RECORDER_SNAPSHOT_H

// A snapshot that a program took of itself (cairn_snapshot() in include/cairn.h) is live memory in
// a file. It is read as the recorder reads live memory, and comes out as a profile.

#include "profile/profile.h"

bool snapshot_is_one(const uint8_t *data, size_t size);

// name: of the file, for messages. NULL and one line in *error, to be freed.
struct profile *snapshot_parse(const uint8_t *data, size_t size, const char *name, char **error);

#endif
