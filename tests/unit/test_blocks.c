// SPDX-License-Identifier: MIT
// The table of blocks: what is entered is found, with its size and node, whatever else is there.

#include "event/birth.h"
#include "event/blocks.h"
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <cmocka.h>

static struct blocks open_table(size_t bytes)
{
    struct blocks blocks;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    blocks_open(&blocks, memory, bytes);
    return blocks;
}

static void close_table(const struct blocks *blocks, size_t bytes)
{
    munmap(blocks->table, bytes);
}

static void finds_what_was_entered(void **state)
{
    (void)state;
    struct blocks blocks = open_table(1 << 20);
    struct block_facts found;
    const uint64_t sizes[] = {0, 1, 0xffff, 0x10000, 0x123456789a, BLOCKS_SIZE_MOST};
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const uintptr_t address = 0x7fff12345670 + 16 * i;
        const struct block_facts entered = {
            .size = sizes[i], .birth = BIRTH_MOST - i, .node = 0x7fffffff - i};
        assert_false(blocks_take(&blocks, address, &found));
        assert_true(blocks_add(&blocks, address, &entered));
        assert_true(blocks_take(&blocks, address, &found));
        assert_int_equal(found.size, entered.size);
        assert_int_equal(found.birth, entered.birth);
        assert_int_equal(found.node, entered.node);
        assert_false(blocks_take(&blocks, address, &found));
    }
    close_table(&blocks, 1 << 20);
}

// To the second for the first minute, and to a part of 32 later.
static void births_are_rounded_down(void **state)
{
    (void)state;
    uint32_t last = 0;
    for (uint64_t second = 0; second < 100000; second++) {
        const uint32_t birth = birth_of(second);
        const uint64_t rounded = birth_seconds(birth);
        assert_true(birth >= last && birth <= BIRTH_MOST);
        assert_true(rounded <= second && second - rounded <= (second < 64 ? 0 : second / 32));
        last = birth;
    }
    assert_int_equal(birth_of(UINT64_MAX), BIRTH_MOST);
}

// Blocks as close as an allocator can have them, at many places at once, up to five eighths of what
// there is room for.
static void is_full_late(void **state)
{
    (void)state;
    enum { BYTES = 1 << 20, COUNT = BYTES / sizeof(struct block) / 8 * 5 };
    for (unsigned distance = 8; distance <= 4096; distance *= 2) {
        struct blocks blocks = open_table(BYTES);
        unsigned held = 0;
        for (uint64_t i = 0; i < COUNT; i++)
            held += blocks_add(&blocks, 0x550000000000 + (i % 7 << 36) + i * distance,
                               &(struct block_facts){.size = i, .node = (ref_t)i});
        assert_int_equal(held, COUNT);
        struct block_facts facts;
        unsigned count = 0;
        for (uint64_t i = 0; i < COUNT; i++)
            if (blocks_take(&blocks, 0x550000000000 + (i % 7 << 36) + i * distance, &facts)) {
                assert_int_equal(facts.size, i);
                assert_int_equal(facts.node, i);
                count++;
            }
        assert_int_equal(count, COUNT);
        close_table(&blocks, BYTES);
    }
}

static void refuses_when_full(void **state)
{
    (void)state;
    struct blocks blocks = open_table(4096);
    unsigned held = 0;
    struct block_facts found;
    for (uintptr_t i = 1; i <= 10000; i++)
        held += blocks_add(&blocks, i * 32, &(struct block_facts){.size = i, .node = 1});
    assert_int_equal(held, 4096 / sizeof(struct block));
    for (uintptr_t i = 1; i <= 10000; i++)
        held -= blocks_take(&blocks, i * 32, &found);
    assert_int_equal(held, 0);
    close_table(&blocks, 4096);
}

// Threads whose blocks lie in the same buckets; each block is entered by one thread and taken by
// another.
enum { THREADS = 4, EACH = 20000 };

struct hand {
    const struct blocks *blocks;
    unsigned number;
    pthread_barrier_t *barrier;
    unsigned wrong;
};

static uintptr_t address_of(unsigned thread, unsigned i)
{
    return 0x10000000 + (uintptr_t)i * 32 * THREADS + thread * 32;
}

static void *work(void *argument)
{
    struct hand *hand = argument;
    const unsigned other = (hand->number + 1) % THREADS;
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < EACH; i++)
            hand->wrong += !blocks_add(
                hand->blocks, address_of(hand->number, i),
                &(struct block_facts){.size = (uint64_t)i << 10 | round, .node = hand->number + 1});
        pthread_barrier_wait(hand->barrier);
        for (unsigned i = 0; i < EACH; i++) {
            struct block_facts found;
            hand->wrong += !blocks_take(hand->blocks, address_of(other, i), &found) ||
                           found.size != ((uint64_t)i << 10 | round) || found.node != other + 1;
        }
        pthread_barrier_wait(hand->barrier);
    }
    return NULL;
}

static void threads_share_it(void **state)
{
    (void)state;
    struct blocks blocks = open_table(4 << 20);
    struct hand hands[THREADS];
    pthread_t threads[THREADS];
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (unsigned i = 0; i < THREADS; i++) {
        hands[i] = (struct hand){&blocks, i, &barrier, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &hands[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(hands[i].wrong, 0);
    }
    pthread_barrier_destroy(&barrier);
    close_table(&blocks, 4 << 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_what_was_entered), cmocka_unit_test(births_are_rounded_down),
        cmocka_unit_test(is_full_late),           cmocka_unit_test(refuses_when_full),
        cmocka_unit_test(threads_share_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
