// SPDX-License-Identifier: MIT
#include "inject/mapping.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool mapping_read(const char *line, struct mapping *mapping)
{
    char rights[8];
    int at = 0;
    if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %" SCNx64 " %*s %" SCNu64 " %n", &mapping->start,
               &mapping->end, rights, &mapping->offset, &mapping->inode, &at) < 5)
        return false;
    snprintf(mapping->path, sizeof mapping->path, "%.*s", (int)strcspn(line + at, "\n"), line + at);
    mapping->executable = rights[2] == 'x';
    return true;
}

bool mapping_is_named(const struct mapping *mapping, const char *prefix)
{
    const char *slash = strrchr(mapping->path, '/');
    return slash && !strncmp(slash + 1, prefix, strlen(prefix));
}
