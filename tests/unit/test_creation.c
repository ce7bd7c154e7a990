// SPDX-License-Identifier: MIT

// The calls that create threads, as paths in a slice: what is noted, shared and bounded, and what
// becomes of a table that the program has scribbled over.

#include "loadmap/loadmap.h"
#include "track/context_id/thread_creation.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { BYTES = 8 << 20, FRAMES = 1 << 16 };

static struct arena arena;
static void *memory;
static struct live_creations *live;
static struct edge frames[FRAMES];

static int start(void **state)
{
    (void)state;
    memory = calloc(1, BYTES);
    arena_init(&arena, memory, sizeof(struct arena_head) + sizeof *live, BYTES);
    live = (struct live_creations *)((char *)memory + sizeof(struct arena_head));
    creation_current = 0;
    creation_start(&arena, live, 8);
    return 0;
}

static int end(void **state)
{
    (void)state;
    free(memory);
    return 0;
}

// As pthread_create() has it: the frame of the function that notes is not on the path.
__attribute__((noinline, optimize("no-omit-frame-pointer"))) static uint32_t note(void)
{
    const struct creation_place place = {.caller = unwind_caller_of(__builtin_frame_address(0))};
    return creation_note(&place);
}

__attribute__((noipa)) static uint32_t descend(unsigned depth)
{
    const uint32_t number = depth ? descend(depth - 1) : note();
    __asm__ volatile("" ::: "memory");
    return number;
}

// All from one place.
__attribute__((noipa)) static void descend_each(const unsigned *depths, uint32_t *numbers,
                                                unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        numbers[i] = descend(depths[i]);
}

static void test_paths_are_shared(void **state)
{
    (void)state;
    struct creation_call one, other;
    uint32_t numbers[3];
    descend_each((const unsigned[]){3, 6, 3}, numbers, 3);
    const uint32_t count = atomic_load(&live->count);
    assert_int_equal(numbers[0], numbers[2]);
    assert_int_not_equal(numbers[0], numbers[1]);
    assert_true(creation_read(numbers[0], &one, frames, FRAMES));
    assert_true(one.creator == 0 && one.site != 0 && one.frames > 4);
    const place_t function = frames[0].function;
    assert_true(function == loadmap_place((uintptr_t)descend));
    assert_true(creation_read(numbers[1], &other, frames, FRAMES));
    assert_int_equal(other.frames, one.frames + 3);
    // A call, three frames more, and another call.
    assert_int_equal(count, one.frames + 1 + 3 + 1);
    // A path that does not fit, and what is no call.
    assert_false(creation_read(numbers[0], &one, frames, 2));
    assert_false(creation_read(1, &one, frames, FRAMES));
    assert_false(creation_read(0, &one, frames, FRAMES));
    assert_false(creation_read(UINT32_MAX, &one, frames, FRAMES));
}

static void test_too_many_calls(void **state)
{
    (void)state;
    uint32_t numbers[10];
    descend_each((const unsigned[]){0, 1, 2, 3, 4, 5, 6, 7, 20, 3}, numbers, 10);
    for (unsigned i = 0; i < 8; i++)
        assert_int_not_equal(numbers[i], 0);
    assert_int_equal(numbers[8], 0);
    assert_int_equal(numbers[9], numbers[3]);
    // In a thread that one of these has created, it is said to be where the thread was.
    const uint32_t count = atomic_load(&live->count);
    creation_current = numbers[3];
    assert_int_equal(descend(3), numbers[3]);
    assert_int_equal(atomic_load(&live->count), count);
    creation_start(&arena, live, 0);
    assert_int_equal(descend(3), 0);
}

static void test_threads_of_threads(void **state)
{
    (void)state;
    creation_start(&arena, live, 1000);
    uint32_t last = 0;
    for (unsigned i = 0; i < CREATION_LEVELS; i++) {
        struct creation_call call;
        const uint32_t number = descend(1);
        assert_int_not_equal(number, last);
        assert_true(creation_read(number, &call, frames, FRAMES));
        assert_int_equal(call.creator, last);
        creation_current = last = number;
    }
    assert_int_equal(descend(1), last);
}

static void test_children_take_over_their_path(void **state)
{
    (void)state;
    struct creation_call before, after;
    creation_current = descend(2);
    creation_current = descend(4);
    assert_true(creation_read(creation_current, &before, frames, FRAMES));
    const struct arena parent_arena = arena;
    const struct live_creations *parent = live;
    void *parent_memory = memory;
    const uint32_t current = creation_current;
    start(state);
    creation_current = current;
    creation_after_fork(&parent_arena, parent);
    free(parent_memory);
    assert_int_not_equal(creation_current, 0);
    assert_true(creation_read(creation_current, &after, frames, FRAMES));
    assert_true(after.site == before.site && after.frames == before.frames && after.creator);
    assert_true(creation_read(after.creator, &after, frames, FRAMES));
    assert_int_equal(after.creator, 0);
}

static void test_scribbled_over(void **state)
{
    (void)state;
    const uint32_t number = descend(5);
    struct creation_call call;
    struct live_creation_step *steps = arena_at(&arena, live->blocks[0]);
    for (uint32_t i = 0; i < number; i++) // circles
        steps[i].parent = steps[i].child = steps[i].sibling = i + 1;
    creation_read(number, &call, frames, FRAMES);
    descend(5);
    memset(steps, 0xff, number * sizeof *steps);
    creation_read(number, &call, frames, FRAMES);
    descend(5);
    memset(live, 0xff, sizeof *live);
    assert_false(creation_read(number, &call, frames, FRAMES));
    assert_int_equal(descend(5), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_paths_are_shared, start, end),
        cmocka_unit_test_setup_teardown(test_too_many_calls, start, end),
        cmocka_unit_test_setup_teardown(test_threads_of_threads, start, end),
        cmocka_unit_test_setup_teardown(test_children_take_over_their_path, start, end),
        cmocka_unit_test_setup_teardown(test_scribbled_over, start, end),
    };
    if (loadmap_start(NULL))
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
