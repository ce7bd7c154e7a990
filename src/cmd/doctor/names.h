// SPDX-License-Identifier: MIT
#ifndef CAIRN_CMD_DOCTOR_NAMES_H
#define CAIRN_CMD_DOCTOR_NAMES_H

// Which names the functions of a file will have in a report.

#include <stddef.h>

enum file_names {
    NAMES_NONE,     // it cannot be read
    NAMES_EXPORTED, // stripped: those that other files can call
    NAMES_ALL,      // all functions, no lines
    NAMES_AND_LINES,
};

enum file_names file_names(const char *path);

// The Debian packages that hold the debug files of these, each after a blank; "" if none is known.
// To be freed.
char *packages_with_names(const char *const *paths, size_t count);

#endif
