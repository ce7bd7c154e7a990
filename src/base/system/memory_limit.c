// SPDX-License-Identifier: MIT
#include "base/system/memory_limit.h"
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Without a limit, version 1 shows a number of pages that no machine has.
#define NO_LIMIT (UINT64_C(1) << 60)

const struct memory_limit_files memory_limit_files = {"/sys/fs/cgroup", "/proc/self/cgroup"};

static uint64_t smaller(uint64_t one, uint64_t other)
{
    return one < other ? one : other;
}

static uint64_t read_limit(const char *path)
{
    FILE *file = fopen(path, "re");
    unsigned long long limit = 0;
    const int read = file ? fscanf(file, "%llu", &limit) : 0; // "max" is no number
    if (file)
        fclose(file);
    return read == 1 && limit < NO_LIMIT ? limit : UINT64_MAX;
}

// Of the group at `path`, and of those above it up to where the groups are mounted. In a container
// the path may be that of the world outside, where nothing is: then only the last one counts.
static uint64_t least_limit(const char *mount, const char *path, const char *name)
{
    char group[PATH_MAX], file[PATH_MAX + 64];
    uint64_t limit = UINT64_MAX;
    if ((size_t)snprintf(group, sizeof group, "%s", path) >= sizeof group)
        group[0] = 0;
    for (;;) {
        if ((size_t)snprintf(file, sizeof file, "%s%s/%s", mount, group, name) < sizeof file)
            limit = smaller(limit, read_limit(file));
        char *last = strrchr(group, '/');
        if (!last)
            return limit;
        *last = 0;
    }
}

// A line of /proc/self/cgroup: "number:controllers:path"; version 2 has no controllers there.
static uint64_t limit_of_line(const char *groups, char *line)
{
    char *controllers = strchr(line, ':');
    char *path = controllers ? strchr(controllers + 1, ':') : NULL;
    char mount[PATH_MAX];
    uint64_t limit = UINT64_MAX;
    if (!path)
        return limit;
    *controllers++ = *path++ = 0;
    if (!*controllers) {
        limit = least_limit(groups, path, "memory.max");
        snprintf(mount, sizeof mount, "%s/unified", groups); // beside version 1
        return smaller(limit, least_limit(mount, path, "memory.max"));
    }
    for (char *rest = controllers, *one; (one = strsep(&rest, ","));) {
        if (strcmp(one, "memory") != 0)
            continue;
        snprintf(mount, sizeof mount, "%s/memory", groups);
        limit = least_limit(mount, path, "memory.limit_in_bytes");
    }
    return limit;
}

uint64_t memory_limit(const struct memory_limit_files *files)
{
    FILE *own = fopen(files->own, "re");
    char *line = NULL;
    size_t room = 0;
    uint64_t limit = UINT64_MAX;
    while (own && getline(&line, &room, own) > 0) {
        line[strcspn(line, "\n")] = 0;
        limit = smaller(limit, limit_of_line(files->groups, line));
    }
    free(line);
    if (own)
        fclose(own);
    return limit;
}
