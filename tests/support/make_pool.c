// SPDX-License-Identifier: MIT
#include "make_pool.h"
#include <limits.h>
#include <stdlib.h>

struct piece {
    struct piece *before, *after;
};

static struct piece all = {&all, &all};
static unsigned maps_left = UINT_MAX;

static void *map(size_t bytes)
{
    if (maps_left == 0)
        return NULL;
    if (maps_left != UINT_MAX)
        maps_left--;
    struct piece *piece = calloc(1, sizeof *piece + bytes);
    if (!piece)
        abort();
    *piece = (struct piece){&all, all.after};
    all.after->before = piece;
    all.after = piece;
    return piece + 1;
}

static void unmap(void *memory, size_t bytes)
{
    (void)bytes;
    struct piece *piece = (struct piece *)memory - 1;
    piece->before->after = piece->after;
    piece->after->before = piece->before;
    free(piece);
}

struct pool test_pool = {.map = map, .unmap = unmap};

struct pool make_pool(void)
{
    return (struct pool){.map = map, .unmap = unmap};
}

void test_pool_fail_after(unsigned maps)
{
    maps_left = maps;
}

void test_pool_free(void)
{
    while (all.after != &all)
        unmap(all.after + 1, 0);
    test_pool = make_pool();
}
