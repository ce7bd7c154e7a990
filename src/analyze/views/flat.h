// SPDX-License-Identifier: MIT
#ifndef CAIRN_ANALYZE_VIEWS_FLAT_H
#define CAIRN_ANALYZE_VIEWS_FLAT_H

// A tree seen as a list: cost by function, line, module, thread, process, program, or
// file that is read and written. `total` counts
// every sample once for each function (line, ...) on its path, however often that recurs.

#include "analyze/tree/calltree.h"

enum flat_by {
    FLAT_FUNCTION,
    FLAT_LINE,
    FLAT_MODULE,
    FLAT_THREAD,
    FLAT_PROCESS,
    FLAT_PROGRAM,
    FLAT_FILE
};

// Its rows are no functions: all their cost is their own.
static inline bool flat_is_by_owner(enum flat_by by)
{
    return by == FLAT_THREAD || by == FLAT_PROCESS || by == FLAT_PROGRAM;
}

struct flat_row {
    uint32_t function; // FUNCTION_NONE where a row is no function (a module)
    uint32_t module;
    uint32_t file, line;
    bool inlined; // wherever it was met
    uint64_t returns;
};

struct flat {
    enum flat_by by;
    unsigned metrics;
    struct flat_row *rows;
    uint64_t *self, *total; // metrics a row
    size_t count;
    size_t row_capacity, self_capacity, total_capacity;
    struct hash_index by_key;
    uint32_t *order; // rows, the most costly first
};

// The tree must be ordered. By line, it must keep lines and separate sites; by thread or process,
// it must be split by these.
struct flat *flat_new(const struct calltree *tree, enum flat_by by);

void flat_order(struct flat *flat, const struct functions *functions, unsigned metric,
                enum call_order order);
void flat_free(struct flat *flat);

#endif
