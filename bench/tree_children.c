// SPDX-License-Identifier: MIT
// What finding a known child costs, over fan-out and over how the choice jumps between children:
// this decided between plain lists, move-to-front and hashes (src/tree/tree.c).
//
//   cc -O2 -Isrc bench/tree_children.c src/tree/tree.c src/base/arena.c -o tree_children

#include "tree/tree.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

enum { LOOKUPS = 1 << 20, PARENTS = 512 };

static uint64_t random_state = 88172645463325252u;

static uint64_t next_random(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

enum shape { SAME, SKEWED, UNIFORM };

static unsigned choose(enum shape shape, unsigned children, unsigned before)
{
    if (shape == SAME) // the sample before took the same path, seven times of eight
        return next_random() % 8 ? before : (unsigned)(next_random() % children);
    unsigned pick = (unsigned)(next_random() % children);
    if (shape == SKEWED) // a few children take most, and they were not the first ones made
        pick = children - 1 -
               (unsigned)((uint64_t)pick * (next_random() % children) / children *
                          (next_random() % children) / children);
    return pick;
}

static double nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static double measure(enum shape shape, unsigned children)
{
    const size_t bytes = 256 << 20;
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct arena arena;
    arena_init(&arena, base, sizeof(struct arena_head), bytes);
    ref_t tree = tree_new(&arena, &(struct tree_options){.metrics = 1});
    static ref_t parents[PARENTS], edges[4096], parent_of[LOOKUPS], edge_of[LOOKUPS];
    for (unsigned i = 0; i < PARENTS; i++)
        parents[i] =
            tree_child(&arena, tree, tree_root(&arena, tree), tree_edge(&arena, tree, i + 1, 1));
    for (unsigned c = 0; c < children; c++) {
        edges[c] = tree_edge(&arena, tree, c + 1, 2);
        for (unsigned i = 0; i < PARENTS; i++)
            tree_child(&arena, tree, parents[i], edges[c]);
    }
    unsigned before[PARENTS] = {0};
    for (unsigned i = 0; i < LOOKUPS; i++) {
        unsigned parent = (unsigned)(next_random() % PARENTS);
        before[parent] = choose(shape, children, before[parent]);
        parent_of[i] = parents[parent];
        edge_of[i] = edges[before[parent]];
    }
    double best = 1e99;
    for (unsigned round = 0; round < 3; round++) {
        double start = nanoseconds();
        for (unsigned i = 0; i < LOOKUPS; i++)
            tree_add(&arena, tree_child(&arena, tree, parent_of[i], edge_of[i]), 0, 1);
        double each = (nanoseconds() - start) / LOOKUPS;
        best = each < best ? each : best;
    }
    munmap(base, bytes);
    return best;
}

int main(void)
{
    static const unsigned fan_outs[] = {1, 2, 4, 8, 12, 16, 24, 32, 64, 256};
    printf("%8s %8s %8s %8s   ns per lookup\n", "children", "same", "skewed", "uniform");
    for (unsigned i = 0; i < sizeof fan_outs / sizeof *fan_outs; i++)
        printf("%8u %8.1f %8.1f %8.1f\n", fan_outs[i], measure(SAME, fan_outs[i]),
               measure(SKEWED, fan_outs[i]), measure(UNIFORM, fan_outs[i]));
}
