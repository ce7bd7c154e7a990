// SPDX-License-Identifier: MIT
#include "tree/tree.h"
#include "tree_nodes.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static struct arena new_arena(size_t bytes)
{
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_ptr_not_equal(base, MAP_FAILED);
    struct arena arena;
    arena_init(&arena, base, sizeof(struct arena_head), bytes);
    return arena;
}

static void free_arena(struct arena *arena, size_t bytes)
{
    munmap(arena->base, bytes);
}

static uint64_t used(const struct arena *arena)
{
    return atomic_load(&arena_head(arena)->used);
}

static ref_t new_tree(struct arena *arena, unsigned metrics, place_t start)
{
    return tree_new(arena, &(struct tree_options){.metrics = metrics, .start = start});
}

static struct node *node_at(const struct arena *arena, ref_t ref)
{
    return arena_at(arena, ref);
}

// A small deterministic generator, the same on every machine.
static uint64_t random_state = 88172645463325252u;
static uint64_t next_random(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

// Arenas of several processes take from one budget, and each has a little without it.
static void test_shared_budget(void **state)
{
    (void)state;
    enum { ARENAS = 4, EACH = 8 << 20, BUDGET = 8 << 20, LITTLE = 512 << 10 };
    struct arena arenas[ARENAS];
    _Atomic int64_t budget = BUDGET;
    uint64_t sum = 0, kept = 0;
    for (unsigned i = 0; i < ARENAS; i++) {
        arenas[i] = new_arena(EACH);
        arena_keep_back(&arenas[i], EACH / 8);
        arena_share(&arenas[i], &budget);
    }
    for (unsigned i = 0; i < ARENAS * EACH / 4096; i++)
        arena_alloc(&arenas[i % ARENAS], 4096);
    for (unsigned i = 0; i < ARENAS; i++) {
        sum += used(&arenas[i]);
        assert_true(used(&arenas[i]) > 64 << 10);
        assert_true(arena_room(&arenas[i]) < 4096);
        while (arena_alloc_kept(&arenas[i], 4096))
            kept += 4096;
    }
    assert_true(kept >= ARENAS * (128 << 10)); // those who forget go on
    assert_true(sum + kept > BUDGET * 3 / 4);
    assert_true(sum + kept <= BUDGET + ARENAS * LITTLE);
    // What one has taken is given to another when it is gone.
    atomic_fetch_add(&budget, (int64_t)atomic_load(&arena_head(&arenas[0])->granted));
    struct arena next = new_arena(EACH);
    arena_share(&next, &budget);
    assert_true(arena_alloc(&next, 1 << 20));
    free_arena(&next, EACH);
    for (unsigned i = 0; i < ARENAS; i++)
        free_arena(&arenas[i], EACH);
}

static void test_a_context_is_one_node(void **state)
{
    (void)state;
    struct arena arena = new_arena(1 << 20);
    ref_t tree = new_tree(&arena, 1, place_make(3, 0x1000));
    assert_true(tree);
    assert_int_equal(tree_metrics(&arena, tree), 1);
    assert_int_equal(tree_nodes(&arena, tree), 2); // the root and its unplaced statement
    ref_t root = tree_root(&arena, tree);
    struct edge edge;
    assert_true(tree_edge_read(&arena, used(&arena), node_at(&arena, root)->edge, &edge));
    assert_true(edge.site == 0 && edge.function == place_make(3, 0x1000));

    ref_t a = tree_edge(&arena, tree, place_make(3, 0x10), place_make(3, 0x2000));
    ref_t b = tree_edge(&arena, tree, place_make(3, 0x10), place_make(4, 0x2000));
    assert_true(a && b && a != b);
    assert_int_equal(tree_edge(&arena, tree, place_make(3, 0x10), place_make(3, 0x2000)), a);

    ref_t child = tree_child(&arena, tree, root, a);
    ref_t grandchild = tree_child(&arena, tree, child, a); // recursion: the same edge, another node
    assert_true(child && grandchild && child != grandchild);
    assert_int_equal(tree_child(&arena, tree, root, a), child);
    assert_int_equal(tree_child(&arena, tree, child, a), grandchild);
    assert_int_equal(node_at(&arena, grandchild)->parent, child);
    assert_int_equal(node_at(&arena, root)->parent, 0);
    assert_int_equal(tree_child(&arena, tree, root, 0), 0);
    // 24 bytes a node with one metric: neighbours in a block are three units apart.
    assert_int_equal(grandchild - child, 3);

    tree_add(&arena, child, 0, 5);
    tree_add(&arena, child, 0, 7);
    assert_int_equal(node_at(&arena, child)->value[0], 12);

    ref_t unplaced = tree_unplaced(&arena, tree, grandchild);
    assert_int_equal(node_at(&arena, unplaced)->parent, grandchild);
    assert_int_equal(tree_unplaced(&arena, tree, grandchild), unplaced);
    assert_int_equal(tree_child(&arena, tree, grandchild, tree_edge(&arena, tree, 0, 0)), unplaced);
    assert_int_equal(tree_nodes(&arena, tree), 5);
    free_arena(&arena, 1 << 20);
}

static void test_small_start(void **state)
{
    (void)state;
    struct arena arena = new_arena(1 << 20);
    uint64_t before = used(&arena);
    assert_true(new_tree(&arena, 1, 0));
    assert_true(used(&arena) - before <= 2048);
    free_arena(&arena, 1 << 20);
}

static void test_metric_limits(void **state)
{
    (void)state;
    struct arena arena = new_arena(1 << 20);
    assert_int_equal(new_tree(&arena, 0, 0), 0);
    assert_int_equal(new_tree(&arena, 1000, 0), 0);
    ref_t tree = new_tree(&arena, 3, 0);
    for (unsigned i = 0; i < 100; i++) {
        ref_t node = tree_child(&arena, tree, tree_root(&arena, tree),
                                tree_edge(&arena, tree, place_make(3, i), place_make(3, 1)));
        for (unsigned metric = 0; metric < 3; metric++)
            tree_add(&arena, node, metric, i * 10 + metric);
    }
    for (unsigned i = 0; i < 100; i++) {
        ref_t node = tree_child(&arena, tree, tree_root(&arena, tree),
                                tree_edge(&arena, tree, place_make(3, i), place_make(3, 1)));
        for (unsigned metric = 0; metric < 3; metric++)
            assert_int_equal(node_at(&arena, node)->value[metric], i * 10 + metric);
    }
    free_arena(&arena, 1 << 20);
}

static void test_large_fan_out(void **state)
{
    (void)state;
    enum { CHILDREN = 100000 };
    const size_t bytes = 64 << 20;
    struct arena arena = new_arena(bytes);
    ref_t tree = new_tree(&arena, 1, 0);
    ref_t root = tree_root(&arena, tree);
    ref_t *children = calloc(CHILDREN, sizeof *children);
    for (unsigned i = 0; i < CHILDREN; i++) {
        ref_t edge = tree_edge(&arena, tree, place_make(3, i * 5), place_make(3, i * 16));
        children[i] = tree_child(&arena, tree, root, edge);
        assert_true(children[i]);
        assert_int_equal(node_at(&arena, children[i])->parent, root);
    }
    assert_int_equal(tree_nodes(&arena, tree), CHILDREN + 2);
    for (unsigned i = CHILDREN; i-- > 0;) {
        ref_t edge = tree_edge(&arena, tree, place_make(3, i * 5), place_make(3, i * 16));
        assert_int_equal(tree_child(&arena, tree, root, edge), children[i]);
    }
    // The statement without an address lives outside of the hash: still the one of before.
    ref_t unplaced = tree_unplaced(&arena, tree, root);
    assert_int_equal(tree_child(&arena, tree, root, tree_edge(&arena, tree, 0, 0)), unplaced);
    assert_int_equal(tree_nodes(&arena, tree), CHILDREN + 2);
    // Waste is geometric: 24 bytes of node, 16 of edge, 22 of hash slots when full (44 when just
    // grown), and as much for the old ones.
    assert_true(used(&arena) < CHILDREN * 140);
    free(children);
    free_arena(&arena, bytes);
}

// What a scan collects, checking each node as it comes.
struct seen {
    const struct arena *arena;
    ref_t *refs; // sorted unless the reserve came in; searched from the end
    size_t count, capacity;
    uint64_t total;
};

static bool was_seen(const struct seen *seen, ref_t ref)
{
    for (size_t i = seen->count; i-- > 0;)
        if (seen->refs[i] == ref)
            return true;
    return false;
}

static bool collect(void *context, ref_t ref, const struct node *node)
{
    struct seen *seen = context;
    assert_false(was_seen(seen, ref));
    assert_true(seen->count == 0 ? node->parent == 0 : was_seen(seen, node->parent));
    struct edge edge;
    assert_true(tree_edge_read(seen->arena, used(seen->arena), node->edge, &edge));
    if (seen->count == seen->capacity) {
        seen->capacity = seen->capacity ? seen->capacity * 2 : 64;
        seen->refs = realloc(seen->refs, seen->capacity * sizeof *seen->refs);
    }
    seen->refs[seen->count++] = ref;
    seen->total += __atomic_load_n(&node->value[0], __ATOMIC_RELAXED);
    return true;
}

// Charges one random path of calls as the tracker does: nothing may be lost whatever is full.
static void charge_random_path(struct arena *arena, ref_t tree, unsigned depth, unsigned width,
                               uint64_t weight)
{
    ref_t frame = tree_root(arena, tree);
    for (unsigned i = 0; i < depth; i++) {
        uint64_t pick = next_random() % width;
        ref_t edge = tree_edge(arena, tree, place_make(3, 0x100 + pick), place_make(3, pick & ~7u));
        ref_t next = tree_child(arena, tree, frame, edge);
        if (!next) {
            tree_add(arena, tree_unplaced(arena, tree, frame), 0, weight);
            return;
        }
        frame = next;
    }
    ref_t edge = tree_edge(arena, tree, place_make(4, next_random() % width), 0);
    ref_t leaf = tree_child(arena, tree, frame, edge);
    tree_add(arena, leaf ? leaf : tree_unplaced(arena, tree, frame), 0, weight);
}

static void test_full_at_every_point(void **state)
{
    (void)state;
    const size_t bytes = 1 << 16;
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned trees = 0;
    for (size_t limit = sizeof(struct arena_head); limit < 24000; limit += 8) {
        memset(base, 0, bytes);
        memset((char *)base + limit, 0xa5, bytes - limit); // whoever writes there is caught
        struct arena arena;
        arena_init(&arena, base, sizeof(struct arena_head), limit);
        ref_t tree = new_tree(&arena, 1, place_make(3, 1));
        if (!tree)
            continue;
        trees++;
        enum { PATHS = 300 };
        for (unsigned i = 0; i < PATHS; i++)
            charge_random_path(&arena, tree, 1 + next_random() % 5, limit % 3 ? 5 : 40, 1);
        assert_true(used(&arena) <= limit);
        for (size_t i = limit; i < bytes; i++)
            if (((unsigned char *)base)[i] != 0xa5)
                fail_msg("byte %zu beyond the limit %zu was written", i, limit);
        struct seen seen = {.arena = &arena};
        int64_t visited = tree_scan(&arena, used(&arena), tree, collect, &seen);
        assert_int_equal(visited, seen.count);
        assert_int_equal(visited, tree_nodes(&arena, tree));
        assert_int_equal(seen.total, PATHS);
        free(seen.refs);
    }
    assert_true(trees > 2000);
    munmap(base, bytes);
}

static void test_samples_find_a_place_in_a_full_arena(void **state)
{
    (void)state;
    struct arena arena = new_arena(1 << 16);
    ref_t tree = new_tree(&arena, 1, 0);
    ref_t frames[64], frame = tree_root(&arena, tree);
    for (unsigned i = 0; i < 64; i++) // a deep path, then the rest of the arena is taken away
        frames[i] = frame = tree_child(&arena, tree, frame, tree_edge(&arena, tree, i + 1, i + 1));
    while (arena_alloc(&arena, 8))
        ;
    ref_t last = frames[63];
    for (unsigned i = 0; i < 10000; i++) { // uses up what is left of blocks
        ref_t next = tree_child(&arena, tree, last, tree_edge(&arena, tree, 1, 1));
        if (!next)
            break;
        last = next;
    }
    unsigned own = 0, inherited = 0;
    for (unsigned i = 0; i < 64; i++) {
        ref_t node = tree_unplaced(&arena, tree, frames[i]);
        assert_true(node);
        assert_int_equal(tree_unplaced(&arena, tree, frames[i]), node);
        if (node_at(&arena, node)->parent == frames[i])
            own++;
        else
            inherited++;
    }
    assert_true(own >= 16);
    assert_true(inherited > 0);
    struct seen seen = {.arena = &arena};
    assert_int_equal(tree_scan(&arena, used(&arena), tree, collect, &seen),
                     tree_nodes(&arena, tree));
    free(seen.refs);
    free_arena(&arena, 1 << 16);
}

// The tool zeroes a slice when its process is dead; if it was wrong, the process must survive it.
static void test_zeroed_under_the_writer(void **state)
{
    (void)state;
    struct arena arena = new_arena(1 << 20);
    ref_t tree = new_tree(&arena, 1, 0), cached = tree_root(&arena, tree);
    for (unsigned i = 0; i < 100; i++)
        cached = tree_child(&arena, tree, cached, tree_edge(&arena, tree, i + 1, 7));
    memset(arena.base, 0, 1 << 20);
    for (unsigned i = 0; i < 100; i++) {
        charge_random_path(&arena, tree, 5, 20, 1);
        ref_t edge = tree_edge(&arena, tree, 3, 4);
        assert_int_equal(edge, 0);
        ref_t node = tree_child(&arena, tree, cached, edge);
        tree_add(&arena, node ? node : tree_unplaced(&arena, tree, cached), 0, 1);
    }
    free_arena(&arena, 1 << 20);
}

// The same insertions into a model too simple to be wrong.
struct model_node {
    size_t parent;
    place_t site, function;
    uint64_t value;
    ref_t ref;
};

static void test_against_model(void **state)
{
    (void)state;
    enum { STEPS = 15000, MOST = STEPS + 1 };
    const size_t bytes = 16 << 20;
    struct arena arena = new_arena(bytes);
    ref_t tree = new_tree(&arena, 1, 0);
    struct model_node *model = calloc(MOST, sizeof *model);
    size_t count = 1;
    model[0].ref = tree_root(&arena, tree);
    for (unsigned step = 0; step < STEPS; step++) {
        // Square the choice so that some nodes get very many children.
        size_t parent = next_random() % count * (next_random() % count) / count;
        place_t site = place_make(3, 1 + next_random() % 64), function = next_random() % 3;
        ref_t ref =
            tree_child(&arena, tree, model[parent].ref, tree_edge(&arena, tree, site, function));
        size_t at = 1;
        while (at < count && (model[at].parent != parent || model[at].site != site ||
                              model[at].function != function))
            at++;
        if (at == count)
            model[count++] = (struct model_node){parent, site, function, 0, ref};
        assert_int_equal(model[at].ref, ref);
        tree_add(&arena, ref, 0, step);
        model[at].value += step;
    }
    assert_int_equal(tree_nodes(&arena, tree), count + 1);
    for (size_t i = 0; i < count; i++) {
        const struct node *node = node_at(&arena, model[i].ref);
        assert_int_equal(node->value[0], model[i].value);
        assert_int_equal(node->parent, i ? model[model[i].parent].ref : 0);
    }
    free(model);
    free_arena(&arena, bytes);
}

// A reader in another process sees parents first and values that never go down.
static bool check_growth(void *context, ref_t ref, const struct node *node)
{
    struct seen *seen = context;
    uint64_t *last = (uint64_t *)seen->refs; // value by reference
    if (node->parent && last[node->parent] == 0)
        _exit(3);
    uint64_t value = __atomic_load_n(&node->value[0], __ATOMIC_RELAXED) + 1;
    if (value < last[ref])
        _exit(4);
    last[ref] = value;
    struct edge edge;
    if (!tree_edge_read(seen->arena, seen->capacity, node->edge, &edge))
        _exit(5);
    if (node->parent && edge.site == 0 && edge.function != 0)
        _exit(6);
    seen->count++;
    return true;
}

static void test_reader_in_another_process(void **state)
{
    (void)state;
    const size_t bytes = 32 << 20;
    struct arena arena = new_arena(bytes);
    ref_t *control = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t child = fork();
    if (child == 0) {
        struct seen seen = {.arena = &arena, .capacity = bytes};
        seen.refs = calloc(bytes / 8, sizeof(uint64_t));
        ref_t tree;
        while (!(tree = __atomic_load_n(&control[0], __ATOMIC_ACQUIRE)))
            ;
        size_t before = 0;
        bool last = false;
        do {
            last = __atomic_load_n(&control[1], __ATOMIC_ACQUIRE);
            seen.count = 0;
            if (tree_scan(&arena, bytes, tree, check_growth, &seen) < 0 || seen.count < before)
                _exit(7);
            before = seen.count;
        } while (!last);
        _exit(seen.count == tree_nodes(&arena, tree) ? 0 : 8);
    }
    ref_t tree = new_tree(&arena, 1, 0);
    __atomic_store_n(&control[0], tree, __ATOMIC_RELEASE);
    for (unsigned i = 0; i < 60000; i++)
        charge_random_path(&arena, tree, 1 + next_random() % 12, 40, 1);
    __atomic_store_n(&control[1], 1, __ATOMIC_RELEASE);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    munmap(control, 4096);
    free_arena(&arena, bytes);
}

static bool touch(void *context, ref_t ref, const struct node *node)
{
    const struct arena *arena = context;
    struct edge edge;
    volatile uint64_t sink = node->value[0] + node->edge + node->parent + ref;
    (void)sink;
    (void)tree_edge_read(arena, 1 << 14, node->edge, &edge);
    return true;
}

// Under the address sanitizer a read beyond the heap block is caught; without it, it may go unseen.
static void test_scan_of_damaged_memory(void **state)
{
    (void)state;
    const size_t bytes = 1 << 14;
    unsigned char *good = calloc(1, bytes), *bad = malloc(bytes);
    struct arena arena;
    arena_init(&arena, good, sizeof(struct arena_head), bytes);
    ref_t tree = new_tree(&arena, 1, 0);
    for (unsigned i = 0; i < 50; i++)
        charge_random_path(&arena, tree, 5, 20, 1);
    struct arena damaged = {.base = bad};
    unsigned failures = 0;
    for (unsigned round = 0; round < 20000; round++) {
        memcpy(bad, good, bytes);
        // Half of the rounds aim at the tree's head and first block, where a flip hurts most.
        size_t range = round % 2 ? bytes : 256;
        for (uint64_t flips = 1 + next_random() % 8; flips > 0; flips--)
            bad[next_random() % range] ^= 1u << next_random() % 8;
        int64_t visited = tree_scan(&damaged, bytes, tree, touch, &damaged);
        assert_true(visited == -EBADMSG || (visited >= 0 && visited <= (int64_t)bytes / 24));
        failures += visited < 0;
    }
    assert_true(failures > 100);
    assert_int_equal(tree_scan(&damaged, bytes, 0, touch, &damaged), -EBADMSG);
    assert_int_equal(tree_scan(&damaged, bytes, UINT32_MAX, touch, &damaged), -EBADMSG);
    free(good);
    free(bad);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shared_budget),
        cmocka_unit_test(test_a_context_is_one_node),
        cmocka_unit_test(test_small_start),
        cmocka_unit_test(test_metric_limits),
        cmocka_unit_test(test_large_fan_out),
        cmocka_unit_test(test_full_at_every_point),
        cmocka_unit_test(test_samples_find_a_place_in_a_full_arena),
        cmocka_unit_test(test_zeroed_under_the_writer),
        cmocka_unit_test(test_against_model),
        cmocka_unit_test(test_reader_in_another_process),
        cmocka_unit_test(test_scan_of_damaged_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
