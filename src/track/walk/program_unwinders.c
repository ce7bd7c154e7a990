// SPDX-License-Identifier: MIT
#include "track/walk/program_unwinders.h"
#include "base/likely.h"
#include "base/place_set.h"

#define OUTERMOST_FRAMES 16 // from where an unwinder asks to its outermost function

// Functions that are known to be an unwinder's outermost.
static struct place_set outermost;
// Only ever set; relaxed: threads learn of it with the next sample.
static _Atomic bool forbidden, remembering;

static void (*noted)(void);

void program_unwinder_start(void (*note)(void))
{
    noted = note;
}

void program_unwinder_forbid_markers(void)
{
    if (!atomic_exchange_explicit(&forbidden, true, memory_order_relaxed) && noted)
        noted();
}

bool program_unwinder_forbids_markers(void)
{
    return atomic_load_explicit(&forbidden, memory_order_relaxed);
}

void program_unwinder_expect_memory(void)
{
    atomic_store_explicit(&remembering, true, memory_order_relaxed);
    program_unwinder_forbid_markers();
}

bool program_unwinder_has_memory(void)
{
    return atomic_load_explicit(&remembering, memory_order_relaxed);
}

enum program_unwinder_stage program_unwinder_stage(uintptr_t pc, const uintptr_t *frame,
                                                   uintptr_t high, struct unwind_frame *unwinder)
{
    const struct caller_registers caller = unwind_caller_of(frame);
    const struct caller_registers asked = {.pc = pc + 1, .sp = caller.sp, .bp = caller.bp};
    const struct unwind_bounds bounds = {caller.sp, caller.sp < high ? high : caller.sp};
    struct unwind_cursor cursor;
    enum verdict verdict;
    unwind_start_here(&cursor, &asked, bounds);
    const place_t wanted = cursor.frame.function;
    unwind_start_here(&cursor, &caller, bounds);
    for (unsigned i = 0; i < OUTERMOST_FRAMES; i++) {
        *unwinder = cursor.frame;
        if (cursor.frame.function == wanted) {
            if (!place_set_add(&outermost, wanted))
                program_unwinder_forbid_markers(); // too many to know
            return PROGRAM_UNWINDER_BEGINS;
        }
        if (place_set_has(&outermost, cursor.frame.function))
            return PROGRAM_UNWINDER_GOES_ON;
        if (unwind_step(&cursor, &verdict) != UNWIND_OK)
            break;
    }
    return PROGRAM_UNWINDER_UNKNOWN;
}

void program_unwinder_asks(uintptr_t pc, const uintptr_t *frame)
{
    struct walker *walker = walk_current;
    const uintptr_t sp = (uintptr_t)(frame + 2);
    struct unwind_frame unwinder;
    if (walker && walker->suspended)
        return; // backtrace(), which is known to begin and to end
    if (!pc)
        program_unwinder_expect_memory();
    // Where the stub is at work, a handler of the program has interrupted it. Most questions of an
    // unwinder come from the same depth.
    if (!walker || !walker->use_marker || walker->in_stub || walker->unwinding == sp)
        return;
    walk_suspend(walker);
    walker->unwinding = sp;
    if (pc && program_unwinder_stage(pc, frame, walker->stack.high, &unwinder) ==
                  PROGRAM_UNWINDER_UNKNOWN)
        program_unwinder_forbid_markers();
    walk_resume(walker);
}

bool program_unwinder_goes_on(struct walker *walker)
{
    if (!UNLIKELY(walker->unwinding))
        return false;
    for (size_t i = walker->count; i-- > 0;)
        if (place_set_has(&outermost, walker->frames[i].function))
            return true;
    walker->unwinding = 0;
    return false;
}
