// SPDX-License-Identifier: MIT
#include "track/walk/program_frames.h"
#include "track/walk/marker.h"
#include "track/walk/unmarkable.h"

// Where the cursor stands.
static void begin(struct program_frames *frames)
{
    frames->point = frames->cursor.frame.place;
    frames->verdict = VERDICT_BAD_STACK;
    frames->more = true;
}

bool program_frames_begin(struct program_frames *frames, const struct caller_registers *caller,
                          struct unwind_bounds stack)
{
    struct caller_registers from = *caller;
    const bool own = from.sp >= stack.low && from.sp < stack.high;
    if (marker_is_stub(from.pc))
        from.pc = marker_truth(from.sp);
    if (!from.pc)
        return false;
    unwind_start_here(&frames->cursor, &from,
                      (struct unwind_bounds){own ? from.sp : stack.high, stack.high});
    begin(frames);
    return true;
}

void program_frames_begin_at(struct program_frames *frames, const struct unwind_cursor *cursor)
{
    frames->cursor = *cursor;
    begin(frames);
}

static bool step(struct program_frames *frames)
{
    struct unwind_cursor *cursor = &frames->cursor;
    if (unwind_step(cursor, &frames->verdict) != UNWIND_OK)
        return false;
    if (!marker_is_stub(cursor->frame.pc))
        return true;
    const uintptr_t truth = marker_truth(cursor->left.cfa);
    if (truth)
        unwind_correct(cursor, truth);
    return truth;
}

static uintptr_t begin_of(const struct unwind_frame *frame)
{
    const uint64_t offset = place_offset(frame->function);
    return offset == PLACE_OFFSET_UNKNOWN ? frame->pc
                                          : frame->pc - (place_offset(frame->place) - offset);
}

bool program_frames_next(struct program_frames *frames, struct program_frame *frame)
{
    const struct unwind_cursor *cursor = &frames->cursor;
    bool found = false;
    *frame = (struct program_frame){0};
    while (frames->more && !(found && !unmarkable_is_agent(cursor->frame.function))) {
        frames->more = step(frames);
        const struct unwind_frame *at = frames->more ? &cursor->left : &cursor->frame;
        if (!found && !unmarkable_is_agent(at->function)) {
            found = true;
            frame->function = at->function;
            frame->slot = frames->more ? at->ra_slot : 0;
            frame->begin = begin_of(at);
            frame->flags = at->flags;
        }
        if (found && frames->more)
            frame->site = cursor->frame.place + (cursor->frame.flags & FRAME_INTERRUPTED ? 1 : 0);
    }
    return found;
}
