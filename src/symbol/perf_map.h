// SPDX-License-Identifier: MIT
#ifndef CAIRN_SYMBOL_PERF_MAP_H
#define CAIRN_SYMBOL_PERF_MAP_H

// The names that a JIT compiler writes for its code: /tmp/perf-PID.map, lines of "START SIZE NAME"
// in hex.

#include "base/spans.h"
#include "symbol/names/pool.h"
#include <stdbool.h>
#include <sys/types.h>

struct perfmap {
    struct spans spans;
    const char **names; // by item of span
    size_t count, capacity;
};

// Which file is believed: all users can write to /tmp.
struct perfmap_trust {
    uint64_t not_before_ns; // an older one was left there by a process that had the number before
    uid_t owner;            // of the profile. Our own files and root's are believed, too
};

enum perfmap_answer { PERFMAP_READ, PERFMAP_NONE, PERFMAP_FOREIGN, PERFMAP_TOO_LARGE };

enum perfmap_answer perfmap_read(struct perfmap *map, const char *path,
                                 const struct perfmap_trust *trust, struct text_pool *pool);
// NULL if nothing is known at the address; *start: where that code begins.
const char *perfmap_find(const struct perfmap *map, uint64_t address, uint64_t *start);
void perfmap_free(struct perfmap *map);

#endif
