// SPDX-License-Identifier: MIT
#include "symbol/perfmap.h"
#include "base/memory.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void add_line(struct perfmap *map, char *line, struct pool *pool)
{
    char *at = line;
    errno = 0;
    uint64_t start = strtoull(at, &at, 16);
    if (at == line || *at != ' ' || errno)
        return;
    char *size_text = at;
    uint64_t size = strtoull(at, &at, 16);
    if (at == size_text || *at != ' ' || errno || size > UINT64_MAX - start)
        return;
    at++;
    at[strcspn(at, "\r\n")] = '\0';
    if (!*at)
        return;
    map->names = memory_grown(map->names, &map->capacity, map->count + 1, sizeof *map->names);
    map->names[map->count] = pool_string(pool, at);
    spans_add(&map->spans, start, start + size, (uint32_t)map->count);
    map->count++;
}

bool perfmap_read(struct perfmap *map, const char *path, uint64_t not_before_ns, struct pool *pool)
{
    // /tmp is everybody's: no links, nothing that blocks.
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return false;
    struct stat status;
    bool usable = fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
    uint64_t changed_ns =
        usable ? (uint64_t)status.st_mtim.tv_sec * 1000000000 + (uint64_t)status.st_mtim.tv_nsec
               : 0;
    FILE *file = usable && changed_ns >= not_before_ns ? fdopen(fd, "r") : NULL;
    if (!file) {
        close(fd);
        return false;
    }
    char *line = NULL;
    size_t capacity = 0;
    while (map->count < UINT32_MAX && getline(&line, &capacity, file) > 0)
        add_line(map, line, pool);
    free(line);
    fclose(file);
    spans_sort(&map->spans);
    return true;
}

// Code is freed and its place used again: of all that were written for an address, the last one
// counts.
const char *perfmap_find(const struct perfmap *map, uint64_t address, uint64_t *start)
{
    size_t best = SPANS_NONE;
    size_t index = spans_find(&map->spans, address);
    for (; index != SPANS_NONE; index = spans_outer(&map->spans, index, address))
        if (best == SPANS_NONE || map->spans.list[index].item > map->spans.list[best].item)
            best = index;
    if (best == SPANS_NONE)
        return NULL;
    *start = map->spans.list[best].start;
    return map->names[map->spans.list[best].item];
}

void perfmap_free(struct perfmap *map)
{
    spans_free(&map->spans);
    free(map->names);
    memset(map, 0, sizeof *map);
}
