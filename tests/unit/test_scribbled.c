// SPDX-License-Identifier: MIT
// A program that writes over the memory of its trees spoils them. What works on them must come to
// an end all the same: it runs in the program's handlers, with signals blocked.

#include "../random.h"
#include "tree/bounded/bounded.h"
#include "tree/stable.h"
#include "tree/tree.h"
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    BYTES = 1 << 20,
    ROUNDS = 30,
    WORDS = 40,       // that are overwritten each time
    EVENTS = 400,     // that follow
    MOST_SECONDS = 60 // of CPU time: a whole test takes one. Without an end, it takes all
};

// So large that no reference, and no table behind one, leads out of it: the question is whether
// there is an end, not what memory is there.
#define REACH (UINT64_C(160) << 30)

struct forest {
    struct arena arena;
    ref_t tree;
};

static void plant(struct forest *forest, const struct tree_options *options)
{
    void *base = mmap(NULL, REACH, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_ptr_not_equal(base, MAP_FAILED);
    arena_init(&forest->arena, base, sizeof(struct arena_head), BYTES);
    arena_keep_back(&forest->arena, BYTES / 8);
    forest->tree = tree_new(&forest->arena, options);
    assert_true(forest->tree);
}

static place_t some_place(unsigned most)
{
    return place_make(3, 16 * (1 + next_random() % most));
}

// Events at paths of some depth, as trackers bring them in.
static void sample(struct forest *forest, bool by_calls)
{
    struct arena *arena = &forest->arena;
    ref_t node = tree_root(arena, forest->tree);
    const unsigned depth = 1 + next_random() % 12;
    for (unsigned i = 0; i < depth && node; i++) {
        // Many children here and there, so that there are hashes, too.
        const place_t site = some_place(i == 2 ? 400 : 6), function = some_place(5);
        tree_expect_edge_record(arena, forest->tree, site, function);
        const ref_t edge = tree_edge(arena, forest->tree, site, function);
        const ref_t child = by_calls ? tree_call(arena, forest->tree, node, edge, 1)
                                     : tree_child(arena, forest->tree, node, edge);
        if (!child)
            node = tree_unplaced(arena, forest->tree, node);
        else
            node = child;
        if (!child)
            break;
    }
    if (node)
        tree_charge(arena, forest->tree, node, 1 + next_random() % 1000);
    tree_pin(arena, forest->tree, node);
}

static void sample_bounded(struct forest *forest, bool unused)
{
    (void)unused;
    struct arena *arena = &forest->arena;
    ref_t node = tree_root(arena, forest->tree), held = 0;
    if (!bounded_begin(arena, forest->tree))
        return;
    for (unsigned i = 0; i < 6 && node; i++) {
        held = node;
        node = bounded_enter(arena, forest->tree, node,
                             &(struct bounded_call){some_place(200), some_place(50), 1, held});
    }
    if (node)
        tree_charge(arena, forest->tree, node, 1 + next_random() % 1000);
    else
        bounded_empty(arena, forest->tree);
}

static bool look(void *context, ref_t ref, const struct node *node)
{
    (void)context;
    (void)ref;
    (void)node;
    return true;
}

static void read_all(struct forest *forest)
{
    struct stable_tree stable;
    tree_scan(&forest->arena, BYTES, forest->tree, look, NULL);
    const int64_t bytes = stable_bytes(&forest->arena, BYTES, forest->tree);
    void *memory = bytes > 0 ? malloc((size_t)bytes) : NULL;
    if (memory)
        stable_read(&stable, &forest->arena, BYTES, forest->tree, memory, (size_t)bytes);
    free(memory);
}

static uint32_t some_word(const uint32_t *words, size_t count)
{
    switch (next_random() % 8) {
    case 0:
        return 0;
    case 1:
        return UINT32_MAX;
    case 2:
        return (uint32_t)next_random();
    case 3:
        return (uint32_t)(next_random() % 64);
    case 4:
    case 5:
        return words[next_random() % count]; // a reference to something else, as a rule
    default:
        return (uint32_t)(next_random() % (BYTES / 8));
    }
}

// Here a word and there one, or a stretch that is all the same, or the heads of the structures.
static void scribble(struct forest *forest, unsigned round)
{
    uint32_t *words = (uint32_t *)(void *)forest->arena.base;
    const size_t all = BYTES / sizeof *words, head = 256;
    for (unsigned i = 0; i < WORDS; i++) {
        const size_t at = next_random() % (i % 4 ? all : head);
        words[at] = some_word(words, all);
    }
    if (round % 5 == 4) {
        const size_t at = next_random() % (all - 4096);
        memset(&words[at], (int)next_random(), 4096 * sizeof *words);
    }
}

static void live_through(const struct tree_options *options,
                         void (*event)(struct forest *forest, bool by_calls))
{
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct forest forest;
        plant(&forest, options);
        const ref_t tree = forest.tree;
        for (unsigned i = 0; i < 10 * EVENTS; i++)
            event(&forest, round % 2);
        for (unsigned i = 0; i < 5; i++) {
            scribble(&forest, round + i);
            forest.tree = tree;
            for (unsigned k = 0; k < EVENTS; k++)
                event(&forest, round % 2);
            read_all(&forest);
        }
        munmap(forest.arena.base, REACH);
    }
}

// In a process of its own, which is stopped if there is no end.
static void comes_to_an_end(const struct tree_options *options,
                            void (*event)(struct forest *forest, bool by_calls))
{
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const struct rlimit seconds = {MOST_SECONDS, MOST_SECONDS};
        setrlimit(RLIMIT_CPU, &seconds);
        live_through(options, event);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void test_scribbles_in_a_full_tree_do_no_harm(void **state)
{
    (void)state;
    comes_to_an_end(&(struct tree_options){.kind = TREE_FULL, .metrics = 1}, sample);
}

static void test_scribbles_in_a_hot_tree_do_no_harm(void **state)
{
    (void)state;
    for (uint32_t miner = TREE_SPACE_SAVING; miner <= TREE_STICKY_SAMPLING; miner++)
        comes_to_an_end(&(struct tree_options){.kind = TREE_HOT,
                                               .metrics = 1,
                                               .miner = miner,
                                               .counters = 500,
                                               .sticky_items = 2000},
                        sample);
}

static void test_scribbles_in_a_bounded_tree_do_no_harm(void **state)
{
    (void)state;
    for (uint32_t purge = TREE_PURGE_AGE; purge <= TREE_PURGE_ALL; purge++)
        comes_to_an_end(
            &(struct tree_options){
                .kind = TREE_BOUNDED, .metrics = 1, .depth = 6, .purge = purge, .bytes = 1 << 18},
            sample_bounded);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scribbles_in_a_full_tree_do_no_harm),
        cmocka_unit_test(test_scribbles_in_a_hot_tree_do_no_harm),
        cmocka_unit_test(test_scribbles_in_a_bounded_tree_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
