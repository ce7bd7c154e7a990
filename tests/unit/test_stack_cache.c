// SPDX-License-Identifier: MIT
// What a walk depends on: the frames of a trail are those of a walk, and whatever would make the
// walk another one is among its words.

#include "loadmap/loadmap.h"
#include "unwind_support.h"
#include <alloca.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define MOST 256

static struct unwind_bounds bounds;

struct seen {
    struct unwind_word words[MOST];
    struct unwind_trail trail;
    struct caller_registers caller;
    uintptr_t pc[MOST], slot[MOST];
    size_t frames;
    bool followed, holds; // there is a trail, and its words are those of the stack
};

// Walks from its own caller, and follows the trail that this leaves.
static __attribute__((noinline, noclone, optimize("no-omit-frame-pointer"))) void
look(struct seen *seen, uintptr_t stop)
{
    struct unwind_cursor cursor;
    enum verdict verdict;
    seen->caller = unwind_caller_of(__builtin_frame_address(0));
    seen->frames = 0;
    unwind_start_here(&cursor, &seen->caller, bounds);
    do {
        seen->pc[seen->frames++] = cursor.frame.pc;
        if (unwind_step(&cursor, &verdict) != UNWIND_OK)
            break;
        seen->slot[seen->frames - 1] = cursor.left.ra_slot;
    } while (seen->frames < MOST);
    seen->trail.words = seen->words;
    seen->followed = unwind_follow(&seen->trail, MOST, &seen->caller,
                                   (struct unwind_bounds){seen->caller.sp, bounds.high}, stop);
    seen->holds = true;
    for (size_t i = 0; i < seen->trail.count; i++)
        seen->holds &= *(const uintptr_t *)seen->words[i].place == seen->words[i].value;
}

static __attribute__((noinline, noclone)) void plain(struct seen *seen, uintptr_t stop)
{
    look(seen, stop);
    __asm__ volatile("" ::: "memory");
}

// Needs a frame pointer, whatever the flags: its frame has a size that nobody knows before.
static __attribute__((noinline, noclone)) void by_frame_pointer(struct seen *seen, size_t size)
{
    volatile char *room = alloca(size);
    room[0] = 1;
    plain(seen, 0);
    __asm__ volatile("" ::: "memory");
}

// The return addresses are the walk's, in its order; what else there is are frame pointers.
static void assert_same_frames(const struct seen *seen)
{
    size_t frame = 0;
    assert_true(seen->followed && seen->holds);
    for (size_t i = 0; i < seen->trail.count; i++) {
        if (frame + 1 < seen->frames && seen->words[i].place == seen->slot[frame]) {
            frame++;
            assert_int_equal(seen->words[i].value, seen->pc[frame]);
        }
    }
    assert_int_equal(frame + 1, seen->trail.frames);
}

static void is_the_walk(void **state)
{
    (void)state;
    struct seen seen;
    plain(&seen, 0);
    assert_same_frames(&seen);
    assert_int_equal(seen.trail.frames, seen.frames);
    assert_false(seen.trail.stopped);
}

static void has_frame_pointers_that_matter(void **state)
{
    (void)state;
    struct seen small, large;
    by_frame_pointer(&small, 64);
    by_frame_pointer(&large, 4096);
    assert_same_frames(&small);
    assert_same_frames(&large);
    // One word more than return addresses, or the register itself.
    assert_true(small.trail.by_fp || small.trail.count >= small.trail.frames);
}

static void stops_at_the_marker(void **state)
{
    (void)state;
    struct seen whole, cut;
    plain(&whole, 0);
    plain(&cut, whole.slot[1]);
    assert_true(cut.followed);
    assert_true(cut.trail.stopped);
    assert_int_equal(cut.trail.frames, 2);
    assert_int_equal(cut.words[cut.trail.count - 1].place, whole.slot[1]);
}

static void keeps_to_its_bounds(void **state)
{
    (void)state;
    struct seen seen;
    struct unwind_trail trail = {.words = seen.words};
    plain(&seen, 0);
    struct unwind_word words[MOST];
    trail.words = words;
    struct caller_registers caller = seen.caller;
    assert_false(unwind_follow(&trail, 1, &caller, bounds, 0));
    assert_false(
        unwind_follow(&trail, MOST, &caller, (struct unwind_bounds){caller.sp, caller.sp + 8}, 0));
    // Where no walk has been, and where no code is.
    caller.pc = 0x1234;
    assert_false(unwind_follow(&trail, MOST, &caller, bounds, 0));
}

int main(void)
{
    loadmap_start(NULL);
    bounds = own_bounds();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_the_walk),
        cmocka_unit_test(has_frame_pointers_that_matter),
        cmocka_unit_test(stops_at_the_marker),
        cmocka_unit_test(keeps_to_its_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
