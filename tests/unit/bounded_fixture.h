// SPDX-License-Identifier: MIT
#ifndef CAIRN_TESTS_BOUNDED_FIXTURE_H
#define CAIRN_TESTS_BOUNDED_FIXTURE_H

// A thread whose calls and samples are made by hand, and its bounded tree.

// The bounded tree, fed by a model of a sampled thread: a stack of activations, of which those that
// a sample has visited are marked, as in the paper (Whaley, "A Portable Sampling-Based Profiler for
// Java Virtual Machines", Figure 7).

#include "../random.h"
#include "tree/bounded/bounded.h"
#include "tree/stable.h"
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

enum { ARENA_BYTES = 8 << 20, DEEPEST = 4096 };

struct activation {
    place_t site, function;
    ref_t node; // 0: not visited by a sample
};

// A thread and its tree.
struct thread {
    struct arena arena;
    ref_t tree;
    unsigned limit; // K
    struct activation stack[DEEPEST];
    unsigned depth;
    unsigned emptied, detached;
    uint64_t charged;
    uint32_t ended; // for a reader
};

static inline struct thread *new_thread(uint32_t kind, unsigned limit, uint64_t bytes,
                                        uint32_t purge)
{
    struct thread *thread = calloc(1, sizeof *thread);
    // What lies behind the arena must not be touched.
    char *base = mmap(NULL, ARENA_BYTES + 4096, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_ptr_not_equal(base, MAP_FAILED);
    mprotect(base + ARENA_BYTES, 4096, PROT_NONE);
    arena_init(&thread->arena, base, sizeof(struct arena_head), ARENA_BYTES);
    thread->limit = limit;
    thread->tree =
        tree_new(&thread->arena,
                 &(struct tree_options){
                     .kind = kind, .start = place_make(3, 1), .bytes = bytes, .purge = purge});
    assert_true(thread->tree);
    assert_int_equal(tree_kind(&thread->arena, thread->tree), kind);
    return thread;
}

static inline void free_thread(struct thread *thread)
{
    munmap(thread->arena.base, ARENA_BYTES + 4096);
    free(thread);
}

static inline uint64_t used(const struct thread *thread)
{
    return atomic_load(&arena_head(&thread->arena)->used);
}

static inline ref_t root_of(const struct thread *thread)
{
    return tree_root(&thread->arena, thread->tree);
}

static inline struct node *node_at(const struct thread *thread, ref_t ref)
{
    return arena_at(&thread->arena, ref);
}

// Functions are letters; a function calls from one site, unless a test says otherwise.
static inline place_t letter(char name)
{
    return place_make(4, (uint64_t)(unsigned char)name << 8);
}

static inline void call_from(struct thread *thread, place_t site, place_t function)
{
    assert_true(thread->depth < DEEPEST);
    thread->stack[thread->depth++] = (struct activation){site, function, 0};
}

static inline void call(struct thread *thread, char name)
{
    const place_t caller = thread->depth ? thread->stack[thread->depth - 1].function : letter('0');
    call_from(thread, caller + 5, letter(name));
}

static inline void back(struct thread *thread, unsigned frames)
{
    assert_true(frames <= thread->depth);
    thread->depth -= frames;
}

static inline void forget_marks(struct thread *thread)
{
    for (unsigned i = 0; i < thread->depth; i++)
        thread->stack[i].node = 0;
    thread->emptied++;
}

static inline ref_t descend(struct thread *thread, unsigned known, uint64_t cost)
{
    const bool detached = known > 0 && !thread->stack[known - 1].node;
    ref_t node = known && !detached ? thread->stack[known - 1].node : root_of(thread);
    for (unsigned i = known; i < thread->depth && node; i++) {
        struct activation *at = &thread->stack[i];
        node = at->node =
            bounded_enter(&thread->arena, thread->tree, node,
                          &(struct bounded_call){detached && i == known ? PLACE_UNKNOWN : at->site,
                                                 at->function, cost, 0});
    }
    thread->detached += detached;
    return node;
}

// One sample: up to a marked frame, the root, or K frames; then down.
static inline ref_t sample(struct thread *thread, uint64_t cost)
{
    assert_true(bounded_begin(&thread->arena, thread->tree));
    unsigned known = thread->depth, walked = 0;
    while (known > 0 && walked < thread->limit && !thread->stack[known - 1].node) {
        known--;
        walked++;
    }
    ref_t node = descend(thread, known, cost);
    if (!node) {
        bounded_empty(&thread->arena, thread->tree);
        forget_marks(thread);
        node = descend(thread, known, cost);
    }
    assert_true(node);
    tree_charge(&thread->arena, thread->tree, node, cost);
    thread->charged += cost;
    return node;
}

// The search for the child of a node by its edge.
struct child_search {
    const struct thread *thread;
    ref_t parent;
    struct edge edge;
    ref_t found; // 0: there is none
};

static inline bool is_searched(void *context, ref_t ref, const struct node *node)
{
    struct child_search *search = context;
    struct edge edge;
    assert_true(tree_edge_read(&search->thread->arena, used(search->thread), node->edge, &edge));
    if (node->parent == search->parent && edge.site == search->edge.site &&
        edge.function == search->edge.function)
        search->found = ref;
    return !search->found;
}

static inline ref_t child_of(const struct thread *thread, ref_t parent, place_t site,
                             place_t function)
{
    struct child_search search = {thread, parent, {site, function}, 0};
    assert_true(tree_scan(&thread->arena, used(thread), thread->tree, is_searched, &search) > 0);
    return search.found;
}

// The node that a path of letters leads to, each called from its caller's one site; a path that
// begins with '-' hangs from a detached root. Asserts that it is there.
static inline const struct node *find(struct thread *thread, const char *path)
{
    bool detached = *path == '-';
    ref_t at = root_of(thread);
    place_t caller = letter('0');
    for (path += detached; *path; path++) {
        const place_t site = detached ? PLACE_UNKNOWN : caller + 5;
        const ref_t found = child_of(thread, at, site, letter(*path));
        assert_true(found);
        assert_true(bounded_is(&thread->arena, thread->tree, found, at,
                               &(struct edge){site, letter(*path)}));
        at = found;
        caller = letter(*path);
        detached = false;
    }
    return node_at(thread, at);
}

static inline void expect(struct thread *thread, const char *path, uint64_t own, uint64_t edge)
{
    const struct node *node = find(thread, path);
    assert_int_equal(node->value[0], own);
    assert_int_equal(node->value[1], edge);
}

#endif
