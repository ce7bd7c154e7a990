// SPDX-License-Identifier: MIT

// Reading trees whose nodes come and go. The trees here are made by hand, node by node, so that
// they can be as unlike a well-behaved tree as need be.

#include "tree/layout.h"
#include "tree/stable.h"
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ARENA_BYTES = 1 << 20, MOST_BLOCKS = 8 };

struct garden {
    struct arena arena;
    ref_t tree;
    ref_t blocks[MOST_BLOCKS];
    unsigned count;
};

static struct tree *head_of(struct garden *garden)
{
    return arena_at(&garden->arena, garden->tree);
}

static ref_t add_block(struct garden *garden, unsigned metrics, uint32_t nodes)
{
    ref_t ref =
        arena_alloc(&garden->arena, sizeof(struct node_block) + nodes * tree_node_bytes(metrics));
    struct node_block *block = arena_at(&garden->arena, ref);
    block->metrics = metrics;
    block->capacity = nodes;
    atomic_store(&block->used, nodes);
    if (garden->count)
        atomic_store(
            &((struct node_block *)arena_at(&garden->arena, garden->blocks[garden->count - 1]))
                 ->next,
            ref);
    else
        atomic_store(&head_of(garden)->first_block, ref);
    garden->blocks[garden->count++] = ref;
    return ref;
}

static void plant(struct garden *garden)
{
    void *base = aligned_alloc(4096, ARENA_BYTES);
    memset(base, 0, ARENA_BYTES);
    *garden = (struct garden){0};
    arena_init(&garden->arena, base, sizeof(struct arena_head), ARENA_BYTES);
    garden->tree = arena_alloc(&garden->arena, sizeof(struct tree));
}

static struct node *node_at(struct garden *garden, unsigned block, uint32_t index, ref_t *ref)
{
    const struct node_block *head = arena_at(&garden->arena, garden->blocks[block]);
    *ref = tree_node_in_block(garden->blocks[block], head->metrics, index);
    return arena_at(&garden->arena, *ref);
}

static ref_t set(struct garden *garden, unsigned block, uint32_t index, ref_t parent, ref_t edge,
                 uint64_t value)
{
    ref_t ref;
    struct node *node = node_at(garden, block, index, &ref);
    node->parent = parent;
    node->edge = edge;
    node->value[0] = value;
    return ref;
}

struct reading {
    struct stable_tree tree;
    void *memory;
};

static int read_tree(struct garden *garden, struct reading *reading)
{
    int64_t bytes = stable_bytes(&garden->arena, ARENA_BYTES, garden->tree);
    reading->memory = malloc(bytes > 0 ? (size_t)bytes : 1);
    if (bytes < 0)
        return (int)bytes;
    memset(reading->memory, 0xa5, (size_t)bytes);
    return stable_read(&reading->tree, &garden->arena, ARENA_BYTES, garden->tree, reading->memory,
                       (size_t)bytes);
}

static void end(struct garden *garden, struct reading *reading)
{
    free(reading->memory);
    free(garden->arena.base);
}

static void test_any_order(void **state)
{
    (void)state;
    struct garden garden;
    struct reading reading;
    plant(&garden);
    add_block(&garden, 1, 4);
    add_block(&garden, 2, 6);
    // root <- a <- b <- c, c before b before a; a free place; a node below nothing.
    ref_t a_ref, b_ref;
    node_at(&garden, 1, 4, &a_ref);
    node_at(&garden, 1, 2, &b_ref);
    ref_t root = set(&garden, 0, 1, 0, 7, 0);
    head_of(&garden)->root = root;
    set(&garden, 0, 0, b_ref, 30, 300);
    set(&garden, 1, 2, a_ref, 20 | TREE_UNMONITORED, 0);
    set(&garden, 1, 4, root, 10, 100);
    ref_t ignored;
    node_at(&garden, 1, 4, &ignored)->value[1] = 5;
    set(&garden, 0, 2, 12345, 40, 400);
    assert_int_equal(read_tree(&garden, &reading), 0);
    const struct stable_tree *tree = &reading.tree;
    assert_int_equal(tree->count, 4);
    assert_int_equal(tree->left_out, 1);
    static const ref_t edges[] = {7, 10, 20, 30};
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(stable_at(tree, i)->edge, edges[i]);
        assert_int_equal(stable_at(tree, i)->parent, i ? i - 1 : STABLE_NO_PARENT);
        assert_int_equal(stable_at(tree, i)->monitored, i != 2);
    }
    assert_int_equal(stable_at(tree, 1)->value[0], 100);
    assert_int_equal(stable_at(tree, 1)->value[1], 5);
    assert_true(stable_at(tree, 1)->has_error);
    assert_int_equal(stable_at(tree, 3)->value[0], 300);
    assert_int_equal(stable_at(tree, 3)->value[1], 0); // its block has one value a node
    assert_false(stable_at(tree, 3)->has_error);
    end(&garden, &reading);
}

static void test_a_circle_of_parents_is_left_out(void **state)
{
    (void)state;
    struct garden garden;
    struct reading reading;
    plant(&garden);
    add_block(&garden, 2, 5);
    ref_t a, b, self;
    node_at(&garden, 0, 1, &a);
    node_at(&garden, 0, 2, &b);
    node_at(&garden, 0, 4, &self);
    head_of(&garden)->root = set(&garden, 0, 0, 0, 7, 0);
    set(&garden, 0, 1, b, 10, 1);
    set(&garden, 0, 2, a, 20, 1);
    set(&garden, 0, 3, a, 30, 1); // hangs on the circle
    set(&garden, 0, 4, self, 40, 1);
    assert_int_equal(read_tree(&garden, &reading), 0);
    assert_int_equal(reading.tree.count, 1);
    assert_int_equal(reading.tree.left_out, 4);
    end(&garden, &reading);
}

static void test_a_damaged_tree_is_refused(void **state)
{
    (void)state;
    struct garden garden;
    struct reading reading;
    plant(&garden);
    assert_int_equal(stable_bytes(&garden.arena, ARENA_BYTES, garden.tree), 0); // being made
    assert_int_equal(read_tree(&garden, &reading), 0);
    assert_int_equal(reading.tree.count, 0);
    free(reading.memory);
    ref_t block = add_block(&garden, 2, 5);
    struct node_block *head = arena_at(&garden.arena, block);
    assert_int_equal(read_tree(&garden, &reading), -EBADMSG); // no root
    free(reading.memory);
    head_of(&garden)->root = set(&garden, 0, 0, 0, 7, 0);
    assert_int_equal(read_tree(&garden, &reading), 0);
    // Too little memory: nodes are left out, nothing is written behind it.
    uint8_t small[200];
    assert_int_equal(stable_read(&reading.tree, &garden.arena, ARENA_BYTES, garden.tree, small, 8),
                     -ENOMEM);
    uint64_t some[16];
    some[15] = 0x1234;
    assert_int_equal(stable_read(&reading.tree, &garden.arena, ARENA_BYTES, garden.tree, some, 120),
                     0);
    assert_int_equal(reading.tree.count, 1);
    assert_int_equal(some[15], 0x1234);
    free(reading.memory);
    atomic_store(&head->next, block); // bites its tail
    assert_int_equal(read_tree(&garden, &reading), -EBADMSG);
    free(reading.memory);
    atomic_store(&head->next, 0x7fffffff);
    assert_int_equal(read_tree(&garden, &reading), -EBADMSG);
    free(reading.memory);
    atomic_store(&head->next, 0);
    atomic_store(&head->used, 0x10000000);
    assert_int_equal(read_tree(&garden, &reading), -EBADMSG);
    free(reading.memory);
    atomic_store(&head->used, 5);
    head->metrics = 99;
    assert_int_equal(read_tree(&garden, &reading), -EBADMSG);
    assert_int_equal(stable_bytes(&garden.arena, ARENA_BYTES, 0x7fffffff), -EBADMSG);
    end(&garden, &reading);
}

// A writer that recycles nodes as fast as it can. The edges say what is true: the edge of a node at
// level L that hangs below edge E has the number 10 E + 1..9, and its count is the edge's number,
// so that every path that a reader puts together can be checked.

enum { LEVELS = 5, PER_LEVEL = 512, FIXED = 3 };

static void store(ref_t *word, ref_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

struct writer {
    struct garden *garden;
    atomic_bool stop;
    _Atomic uint64_t changes;
};

static uint32_t slot_of(unsigned level, unsigned index)
{
    return 1 + level * PER_LEVEL + index;
}

static void forget_below(struct garden *garden, unsigned level, ref_t parent)
{
    for (unsigned i = 0; level < LEVELS && i < PER_LEVEL; i++) {
        ref_t ref;
        struct node *node = node_at(garden, 0, slot_of(level, i), &ref);
        if (node->edge && node->parent == parent) {
            forget_below(garden, level + 1, ref);
            store(&node->edge, 0);
        }
    }
}

static void *write_on(void *context)
{
    struct writer *writer = context;
    struct garden *garden = writer->garden;
    uint64_t random = 88172645463325252u;
    while (!atomic_load_explicit(&writer->stop, memory_order_relaxed)) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        const unsigned level = random % LEVELS, index = (random >> 8) % PER_LEVEL;
        ref_t ref, above;
        struct node *node = node_at(garden, 0, slot_of(level, index), &ref);
        const struct node *parent =
            node_at(garden, 0, level ? slot_of(level - 1, (random >> 16) % PER_LEVEL) : 0, &above);
        atomic_fetch_add_explicit(&writer->changes, 1, memory_order_relaxed);
        if (level == 0 && index < FIXED) { // stays, but is monitored or not as it likes
            store(&node->edge, node->edge ^ TREE_UNMONITORED);
            continue;
        }
        if (node->edge) {
            forget_below(garden, level + 1, ref);
            store(&node->edge, 0);
        }
        if (parent->edge == 0)
            continue;
        const ref_t edge = (parent->edge & ~TREE_UNMONITORED) * 10 + 1 + (random >> 24) % 9;
        store(&node->parent, above);
        __atomic_store_n(&node->value[0], edge, __ATOMIC_RELEASE);
        __atomic_store_n(&node->value[1], ~(uint64_t)edge, __ATOMIC_RELEASE);
        store(&node->edge, edge);
    }
    return NULL;
}

// Returns how many nodes were read.
static uint32_t check_reading(const struct stable_tree *tree)
{
    unsigned fixed = 0;
    assert_true(tree->count >= 1 + FIXED);
    for (uint32_t i = 1; i < tree->count; i++) {
        const struct stable_node *node = stable_at(tree, i);
        assert_true(node->parent < i);
        const struct stable_node *parent = stable_at(tree, node->parent);
        const bool is_fixed = node->parent == 0 && node->edge <= 19 && node->value[1] == 1;
        fixed += is_fixed;
        assert_int_equal(node->edge / 10, parent->edge);
        assert_int_equal(node->value[0], node->edge);
        if (!is_fixed)
            assert_true(node->value[1] == ~(uint64_t)node->edge);
    }
    assert_int_equal(fixed, FIXED);
    return tree->count;
}

static void test_while_it_changes(void **state)
{
    (void)state;
    struct garden garden;
    plant(&garden);
    add_block(&garden, 2, 1 + LEVELS * PER_LEVEL);
    const ref_t root = set(&garden, 0, 0, 0, 1, 0);
    head_of(&garden)->root = root;
    for (unsigned i = 0; i < FIXED; i++) {
        ref_t ref = set(&garden, 0, slot_of(0, i), root, 11 + i, 11 + i);
        ((struct node *)arena_at(&garden.arena, ref))->value[1] = 1;
    }
    struct writer writer = {.garden = &garden};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, write_on, &writer), 0);
    uint64_t nodes = 0, left_out = 0;
    struct reading reading;
    // However seldom the two really run at once: until readings were disturbed often enough.
    for (unsigned i = 0; i < 500 || left_out < 1000; i++) {
        assert_int_equal(read_tree(&garden, &reading), 0);
        nodes += check_reading(&reading.tree);
        left_out += reading.tree.left_out;
        free(reading.memory);
    }
    atomic_store(&writer.stop, true);
    pthread_join(thread, NULL);
    assert_true(nodes > 500u * (1 + FIXED)); // others were there, too
    print_message("%llu nodes read, %llu left out, while %llu changed\n", (unsigned long long)nodes,
                  (unsigned long long)left_out, (unsigned long long)atomic_load(&writer.changes));
    assert_int_equal(read_tree(&garden, &reading), 0);
    assert_int_equal(reading.tree.left_out, 0); // nobody writes: exact
    check_reading(&reading.tree);
    end(&garden, &reading);
}

static void *recycle(void *context)
{
    struct writer *writer = context;
    ref_t ref;
    struct node *node = node_at(writer->garden, 0, 1, &ref);
    for (ref_t edge = 11; !atomic_load_explicit(&writer->stop, memory_order_relaxed);
         edge = edge == 19 ? 11 : edge + 1) {
        store(&node->edge, 0);
        __atomic_store_n(&node->value[0], edge, __ATOMIC_RELEASE);
        __atomic_store_n(&node->value[1], ~(uint64_t)edge, __ATOMIC_RELEASE);
        store(&node->edge, edge);
    }
    return NULL;
}

// The values are those of the context that was read, in a node that is given away all the time.
static void test_a_node_that_is_always_another(void **state)
{
    (void)state;
    struct garden garden;
    plant(&garden);
    add_block(&garden, 2, 2);
    head_of(&garden)->root = set(&garden, 0, 0, 0, 1, 0);
    set(&garden, 0, 1, head_of(&garden)->root, 11, 11);
    struct writer writer = {.garden = &garden};
    pthread_t thread;
    ref_t ref;
    node_at(&garden, 0, 1, &ref)->value[1] = ~UINT64_C(11);
    assert_int_equal(pthread_create(&thread, NULL, recycle, &writer), 0);
    for (unsigned seen = 0; seen < 100000;) {
        struct reading reading;
        assert_int_equal(read_tree(&garden, &reading), 0);
        if (reading.tree.count == 2) {
            const struct stable_node *node = stable_at(&reading.tree, 1);
            assert_int_equal(node->value[0], node->edge);
            assert_true(node->value[1] == ~(uint64_t)node->edge);
            seen++;
        }
        free(reading.memory);
    }
    atomic_store(&writer.stop, true);
    pthread_join(thread, NULL);
    free(garden.arena.base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_order),
        cmocka_unit_test(test_a_circle_of_parents_is_left_out),
        cmocka_unit_test(test_a_damaged_tree_is_refused),
        cmocka_unit_test(test_while_it_changes),
        cmocka_unit_test(test_a_node_that_is_always_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
