// SPDX-License-Identifier: MIT
#include "symbol/perf_map.h"
#include "base/memory.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// Of a large program that compiles for hours there are tens of megabytes.
#define MOST_BYTES ((off_t)256 << 20)

static void add_line(struct perfmap *map, char *line, struct text_pool *pool)
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

static enum perfmap_answer judge(int fd, const struct perfmap_trust *trust)
{
    struct stat status;
    if (fstat(fd, &status) || !S_ISREG(status.st_mode))
        return PERFMAP_NONE;
    const uint64_t changed_ns =
        (uint64_t)status.st_mtim.tv_sec * 1000000000 + (uint64_t)status.st_mtim.tv_nsec;
    if (changed_ns < trust->not_before_ns)
        return PERFMAP_NONE;
    if (status.st_uid != 0 && status.st_uid != geteuid() && status.st_uid != trust->owner)
        return PERFMAP_FOREIGN;
    return status.st_size <= MOST_BYTES ? PERFMAP_READ : PERFMAP_TOO_LARGE;
}

enum perfmap_answer perfmap_read(struct perfmap *map, const char *path,
                                 const struct perfmap_trust *trust, struct text_pool *pool)
{
    // No links, nothing that blocks.
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return PERFMAP_NONE;
    const enum perfmap_answer answer = judge(fd, trust);
    FILE *file = answer == PERFMAP_READ ? fdopen(fd, "r") : NULL;
    if (!file) {
        close(fd);
        return answer == PERFMAP_READ ? PERFMAP_NONE : answer;
    }
    char *line = NULL;
    size_t capacity = 0;
    off_t left = MOST_BYTES; // it may grow while it is read
    ssize_t length;
    while (left > 0 && (length = getline(&line, &capacity, file)) > 0) {
        add_line(map, line, pool);
        left -= length;
    }
    free(line);
    fclose(file);
    spans_sort(&map->spans);
    return PERFMAP_READ;
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
