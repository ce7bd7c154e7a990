// SPDX-License-Identifier: MIT
#include "base/spans.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

void spans_add(struct spans *spans, uint64_t start, uint64_t end, uint32_t item)
{
    if (start >= end)
        return;
    spans->list =
        memory_grown(spans->list, &spans->capacity, spans->count + 1, sizeof *spans->list);
    // reach holds the order of adding until the list is sorted.
    spans->list[spans->count] =
        (struct span){.start = start, .end = end, .reach = spans->count, .item = item};
    spans->count++;
}

static int by_start(const void *left, const void *right)
{
    const struct span *a = left, *b = right;
    if (a->start != b->start)
        return a->start < b->start ? -1 : 1;
    return a->reach < b->reach ? -1 : a->reach > b->reach;
}

void spans_sort(struct spans *spans)
{
    if (spans->count == 0)
        return;
    qsort(spans->list, spans->count, sizeof *spans->list, by_start);
    uint64_t reach = 0;
    for (size_t i = 0; i < spans->count; i++) {
        if (spans->list[i].end > reach)
            reach = spans->list[i].end;
        spans->list[i].reach = reach;
    }
}

static size_t search_back(const struct spans *spans, size_t count, uint64_t address)
{
    while (count > 0 && spans->list[count - 1].reach > address) {
        if (spans->list[count - 1].end > address)
            return count - 1;
        count--;
    }
    return SPANS_NONE;
}

size_t spans_find(const struct spans *spans, uint64_t address)
{
    size_t low = 0, high = spans->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (spans->list[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return search_back(spans, low, address);
}

size_t spans_outer(const struct spans *spans, size_t index, uint64_t address)
{
    return search_back(spans, index, address);
}

void spans_free(struct spans *spans)
{
    free(spans->list);
    memset(spans, 0, sizeof *spans);
}
