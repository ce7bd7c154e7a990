// SPDX-License-Identifier: MIT
#ifndef CAIRN_PROFILE_READER_H
#define CAIRN_PROFILE_READER_H

// profile_read() on bytes that are in memory already. The files are read by
// recorder/read_profile.c, which knows live memory, too.

#include "profile/profile.h"

enum profile_writer {
    WRITER_NONE,   // a profile without an end was cut off
    WRITER_OTHER,  // a recording writes to it
    WRITER_MYSELF, // the recorder reads its own file: it knows that there is no end yet
};

// name: of the file, for messages.
struct profile *profile_parse(const uint8_t *data, size_t size, enum profile_writer writer,
                              const char *name, char **error);

#define PROFILE_FOREIGN "%s is not a cairn profile"

// Leaves a message in *error. NULL.
void *profile_fail(char **error, const char *format, ...) __attribute__((format(printf, 2, 3)));

// All that a file holds now. NULL and errno.
uint8_t *profile_load_file(int fd, size_t *size);

#endif
