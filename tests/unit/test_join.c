// SPDX-License-Identifier: MIT
// Walks without a marker, which end where the last one's frames are met: each comes to the node
// that a walk to the root comes to, through whatever calls and returns between.

#include "../random.h"
#include "loadmap/loadmap.h"
#include "track/walk/unmarkable.h"
#include "track/walk/unwind_pass.h"
#include "track/walk/walk.h"
#include "unwind_support.h"
#include <alloca.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

enum { ARENA_BYTES = 64 << 20, ROUNDS = 20000, CALLS = 100, DEEPEST = 12, SELDOM = 8 };

static struct arena arena;
static struct live_stats stats, whole_stats;
static struct walker walker, whole; // one that remembers its last sample, and one that does not
static uintptr_t looked_at;         // the stack pointer
static unsigned calls_left;

static unsigned below(unsigned limit)
{
    return (unsigned)(next_random() % limit);
}

static __attribute__((noinline, noclone, optimize("no-omit-frame-pointer"))) void look(void)
{
    const uintptr_t *frame = __builtin_frame_address(0);
    const struct caller_registers caller = unwind_caller_of(frame);
    walk_turn_to(&whole, whole.tree, &whole_stats);
    const ref_t expected = walk_here(&whole, &caller, 1);
    assert_int_equal(walk_here(&walker, &caller, 1), expected);
    looked_at = caller.sp;
}

// The functions, each with a frame of another shape.

static void go_on(unsigned depth);

static __attribute__((noinline, noclone)) void small(unsigned depth)
{
    go_on(depth);
    __asm__ volatile("" ::: "memory");
}

static __attribute__((noinline, noclone)) void large(unsigned depth)
{
    volatile char room[640];
    room[depth % sizeof room] = 1;
    go_on(depth);
    __asm__ volatile("" ::: "memory");
}

static __attribute__((noinline, noclone)) void of_any_size(unsigned depth)
{
    volatile char *room = alloca(16 + below(20) * 16);
    room[0] = 1;
    go_on(depth);
    __asm__ volatile("" ::: "memory");
}

// The frame pointer's register for something else, which callees save.
static __attribute__((noinline, noclone)) void with_numbers(unsigned depth)
{
    unsigned long a = next_random(), b = a * 3, c = a * 5, d = a * 7, e = a * 11, f = a * 13;
    __asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f));
    go_on(depth);
    __asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f));
}

static __attribute__((noinline, noclone)) void in_its_place(unsigned depth)
{
    small(depth); // a jump, where the compiler is asked for it
}

static void go_on(unsigned depth)
{
    static void (*const functions[])(unsigned) = {small, large, of_any_size, with_numbers,
                                                  in_its_place};
    // Seldom enough that much has come and gone since the last time.
    while (depth < DEEPEST && calls_left && below(100) < 70) {
        calls_left--;
        functions[below(5)](depth + 1);
        if (below(SELDOM) == 0)
            look();
    }
    if (below(SELDOM) == 0)
        look();
}

static void comes_to_the_same_nodes(void **state)
{
    (void)state;
    for (unsigned i = 0; i < ROUNDS; i++) {
        calls_left = CALLS;
        go_on(0);
    }
    assert_true(stats.verdicts[VERDICT_COMPLETE] > 10 * ROUNDS);
    assert_int_equal(stats.verdicts[VERDICT_COMPLETE], whole_stats.verdicts[VERDICT_COMPLETE]);
    assert_int_equal(stats.frames_stack, whole_stats.frames_stack);
    assert_int_equal(whole_stats.frames_walked, whole_stats.frames_stack);
    assert_true(stats.frames_walked < stats.frames_stack / 4 * 3);
}

// The same callee, with the same return address at the same place, below a frame that begins
// elsewhere: where that had its return address the last time, the same word still lies.

static __attribute__((noinline, noclone)) void innermost(unsigned depth)
{
    if (depth)
        innermost(depth - 1);
    else
        look();
    __asm__ volatile("" ::: "memory");
}

// Saves the frame pointer, and has something else in its register, which is always the same.
static __attribute__((noinline, noclone)) void without_frame_pointer(void)
{
    unsigned long a = 1, b = 2, c = 3, d = 4, e = 5, f = 6;
    __asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f));
    innermost(20); // enough for the join
    __asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f));
}

static __attribute__((noinline, noclone)) void between(size_t bytes)
{
    volatile char *room = alloca(bytes);
    room[0] = 1;
    if (bytes % 32)
        without_frame_pointer();
    else
        innermost(0);
    __asm__ volatile("" ::: "memory");
}

static __attribute__((noinline, noclone)) void from_here(size_t more, size_t bytes)
{
    (void)more;
    between(bytes);
    __asm__ volatile("" ::: "memory");
}

// Lies lower by `more` bytes than from_here() does.
static __attribute__((noinline, noclone)) void from_there(size_t more, size_t bytes)
{
    volatile char *room = alloca(more);
    __asm__ volatile("" ::"r"(room) : "memory");
    between(bytes);
    __asm__ volatile("" ::: "memory");
}

static void is_not_misled_by_what_lies_there_still(void **state)
{
    (void)state;
    // By one call, so that they return to the same place.
    static void (*const functions[])(size_t, size_t) = {from_here, from_there};
    unsigned same = 0;
    for (size_t bytes = 256; bytes <= 512; bytes += 16)
        for (size_t more = 16; more < 256; more += 16)
            for (size_t other = 16; other < bytes; other += 16) {
                const size_t sizes[] = {bytes, other};
                uintptr_t at[2];
                for (volatile unsigned i = 0; i < 2; i++) { // not unrolled
                    functions[i](more, sizes[i]);
                    at[i] = looked_at;
                }
                same += at[0] == at[1];
            }
    assert_true(same > 0);
}

static jmp_buf back;

static __attribute__((noinline, noclone)) void jump(unsigned depth)
{
    if (depth)
        jump(depth - 1);
    look();
    if (!depth)
        longjmp(back, 1);
}

static void survives_jumps(void **state)
{
    (void)state;
    for (volatile unsigned i = 0; i < 200; i++)
        if (!setjmp(back))
            jump(below(30));
        else
            look();
}

// A tail call reuses the slot: the same return address, and another function.

static __attribute__((noinline, noclone, optimize("O2"))) void second(unsigned depth)
{
    look();
    __asm__ volatile("" ::"r"(depth) : "memory");
}

static __attribute__((noinline, noclone, optimize("O2"))) void first(unsigned depth)
{
    look();
    if (depth & 1)
        second(depth);
}

static void sees_tail_calls(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 50; i++)
        first(i);
}

// Frames of the agent's own are left out: a walk may have come a long way and have none yet. Deep
// enough that the list ends with its last page.

enum { DEEP = 2000 };

static struct walker marked;
static struct live_stats marked_stats;

// The personality routine of the marker's pseudo frame asks for it.
static __attribute__((noinline, noclone, optimize("no-omit-frame-pointer"))) void throw(void)
{
    const uintptr_t *frame = __builtin_frame_address(0);
    const struct caller_registers caller = unwind_caller_of(frame);
    assert_true(walk_here(&marked, &caller, 1));
    assert_non_null(marked.marker.entry);
    const uintptr_t *slot = (const uintptr_t *)marked.marker.slot;
    assert_true(marker_is_stub(*slot));
    const uintptr_t truth = walk_lift_for_exception();
    assert_null(marked.marker.entry);
    assert_int_equal(*slot, truth);
    assert_false(marker_is_stub(truth));
    assert_int_equal(walk_lift_for_exception(), 0); // there is none any more
}

static void test_an_exception_that_meets_the_marker_takes_it_away(void **state)
{
    (void)state;
    const struct tracker_place place = {
        .arena = &arena, .tree = whole.tree, .stats = &marked_stats, .stack = own_bounds()};
    assert_int_equal(walk_open(&marked, &place, true), 0);
    walk_current = &marked;
    throw();
    walk_current = NULL;
    walk_close(&marked);
}

// Here it has frames in its list that it would not have taken: nothing to compare with.
static __attribute__((noinline, noclone, optimize("no-omit-frame-pointer"))) void look_alone(void)
{
    const uintptr_t *frame = __builtin_frame_address(0);
    const struct caller_registers caller = unwind_caller_of(frame);
    assert_true(walk_here(&walker, &caller, 1));
}

static __attribute__((noinline, noclone)) void descend(unsigned depth, void (*at_the_end)(void))
{
    if (depth)
        descend(depth - 1, at_the_end);
    else
        at_the_end();
    __asm__ volatile("" ::: "memory");
}

static void has_walked_nothing_yet(void **state)
{
    (void)state;
    descend(DEEP, look);
    const size_t bytes = walker.capacity * sizeof *walker.frames;
    assert_true(walker.capacity > DEEP && bytes % 4096 == 0);
    // And nothing behind it.
    char *list =
        mmap(NULL, bytes + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(list != MAP_FAILED && !mprotect(list + bytes, 4096, PROT_NONE));
    memcpy(list, walker.frames, bytes);
    walker.frames = (struct walk_frame *)list;
    unmarkable_start(); // from here on, this program is what it takes for the agent
    descend(DEEP, look_alone);
}

static int set_up(void **state)
{
    (void)state;
    const struct tree_options options = {.kind = TREE_FULL, .metrics = 1};
    void *memory = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return -1;
    loadmap_start(NULL);
    arena_init(&arena, memory, sizeof(struct arena_head), ARENA_BYTES);
    const ref_t tree = tree_new(&arena, &options);
    struct tracker_place place = {
        .arena = &arena, .tree = tree, .stats = &stats, .stack = own_bounds()};
    if (walk_open(&walker, &place, false))
        return -1;
    place.stats = &whole_stats;
    return walk_open(&whole, &place, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comes_to_the_same_nodes),
        cmocka_unit_test(is_not_misled_by_what_lies_there_still),
        cmocka_unit_test(survives_jumps),
        cmocka_unit_test(sees_tail_calls),
        cmocka_unit_test(test_an_exception_that_meets_the_marker_takes_it_away),
        cmocka_unit_test(has_walked_nothing_yet), // the last: nothing is seen after it
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
