// SPDX-License-Identifier: MIT
#ifndef CAIRN_SYMBOL_PERFMAP_H
#define CAIRN_SYMBOL_PERFMAP_H

// The names that a JIT compiler writes for its code: /tmp/perf-PID.map, lines of "START SIZE NAME"
// in hex.

#include "symbol/pool.h"
#include "symbol/spans.h"
#include <stdbool.h>

struct perfmap {
    struct spans spans;
    const char **names; // by item of span
    size_t count, capacity;
};

// False if there is no such file, or it is older than not_before_ns: left there by another process
// that had the number before.
bool perfmap_read(struct perfmap *map, const char *path, uint64_t not_before_ns, struct pool *pool);
// NULL if nothing is known at the address; *start: where that code begins.
const char *perfmap_find(const struct perfmap *map, uint64_t address, uint64_t *start);
void perfmap_free(struct perfmap *map);

#endif
