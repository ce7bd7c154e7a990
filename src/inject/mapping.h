// SPDX-License-Identifier: MIT
#ifndef CAIRN_INJECT_MAPPING_H
#define CAIRN_INJECT_MAPPING_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

// A line of /proc/PID/maps.
struct mapping {
    uint64_t start, end, offset, inode;
    bool executable;
    char path[PATH_MAX];
};

// False: it is no such line.
bool mapping_read(const char *line, struct mapping *mapping);

// Whether the file's name begins so, without its folder.
bool mapping_is_named(const struct mapping *mapping, const char *prefix);

#endif
