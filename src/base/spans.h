// SPDX-License-Identifier: MIT
#ifndef CAIRN_BASE_SPANS_H
#define CAIRN_BASE_SPANS_H

// Half-open ranges of addresses that may nest and overlap, and the question which of them hold an
// address. The ranges are sorted by start, and each knows the furthest end of all up to it: a
// search goes back from the last range that starts at or before the address, and stops where
// nothing can reach it.

#include <stddef.h>
#include <stdint.h>

struct span {
    uint64_t start, end;
    uint64_t reach; // the furthest end up to here
    uint32_t item;
};

struct spans {
    struct span *list;
    size_t count, capacity;
};

#define SPANS_NONE SIZE_MAX

void spans_add(struct spans *spans, uint64_t start, uint64_t end, uint32_t item);
// Of ranges with the same start the one added last comes last, and so is found first.
void spans_sort(struct spans *spans);
// The index of the nearest range that holds the address; spans_outer(): the next one around or
// before it.
size_t spans_find(const struct spans *spans, uint64_t address);
size_t spans_outer(const struct spans *spans, size_t index, uint64_t address);
void spans_free(struct spans *spans);

#endif
