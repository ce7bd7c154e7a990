// SPDX-License-Identifier: MIT
#include "track/walk/program_unwinders.h"
#include "base/likely.h"
#include "base/place_set.h"
#include "track/walk/seen_unwinders.h"

#define OUTERMOST_FRAMES 16 // from where an unwinder asks to its outermost function

// Functions that are known to be an unwinder's outermost.
static struct place_set outermost;
enum program_unwinder_stage program_unwinder_stage(uintptr_t pc, const uintptr_t *frame,
                                                   uintptr_t high, struct program_frame *unwinder)
{
    const struct caller_registers caller = unwind_caller_of(frame);
    const struct caller_registers asked = {.pc = pc + 1, .sp = caller.sp, .bp = caller.bp};
    const struct unwind_bounds bounds = {caller.sp, caller.sp < high ? high : caller.sp};
    struct unwind_cursor cursor;
    struct program_frames frames;
    unwind_start_here(&cursor, &asked, bounds);
    const place_t wanted = cursor.frame.function;
    unwind_start_here(&cursor, &caller, bounds);
    program_frames_begin_at(&frames, &cursor);
    for (unsigned i = 0; i < OUTERMOST_FRAMES && program_frames_next(&frames, unwinder); i++) {
        if (unwinder->function == wanted) {
            if (!place_set_add(&outermost, wanted))
                program_unwinder_forbid_markers(); // too many to know
            return PROGRAM_UNWINDER_BEGINS;
        }
        if (place_set_has(&outermost, unwinder->function))
            return PROGRAM_UNWINDER_GOES_ON;
    }
    return PROGRAM_UNWINDER_UNKNOWN;
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
