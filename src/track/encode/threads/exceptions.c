// SPDX-License-Identifier: MIT
// Exceptions: of C++, of Rust, of pthread_cancel(). They take frames away without a return.
//
// A throw has an unwinder go over the stack, twice: to find the frame that catches it, then to stop
// where something is to be cleaned up, and where it is caught. To unwinders a stub is a frame
// (patch/stubs/stub_cfi.h), and they ask each frame on their way what to do: so we hear of every frame
// whose return would have changed the number, and need to follow nobody for that. Other frames
// that they remove do not matter.
//
// From then on the number is in doubt. The next hook, or sample, computes it from the stack; as
// long as that has the unwinder on it, or when it has come by again, it is still to be done.
//
//   f ─► g ─► h ─► throw      caught in f; something in g is to be cleaned up, which takes a while
//        └─ ~object()         f's frame must be the same to the unwinder as before
//
// Until an exception is caught, return addresses stay in stubs, or out of them: the unwinder would
// not know the frame again that it has chosen. So we must hear of those that come by no stub, too:
// all unwinders ask the loader for tables, that is us. Of those of C++ its runtime counts how many
// are not caught. Of others nobody knows, and a thread that has thrown one keeps its return
// addresses.
//
// Those that are linked into the program cannot be interposed, and a stub would be a frame to them.
// Before they look at the stack, the return addresses of the thread leave the stubs.

#include "track/encode/threads/exceptions.h"
#include "base/gc_hidden.h"
#include "base/place_set.h"
#include "loadmap/loadmap.h"
#include "loadmap/lookup.h"
#include "patch/stubs/stub_cfi.h"
#include "track/encode/sites/call_graph.h"
#include "track/encode/sites/libraries.h"
#include "track/encode/threads/epoch.h"
#include "track/encode/threads/lock.h"
#include "track/encode/threads/state_from_stack.h"
#include "track/walk/program_unwinders.h"
#include "track/walk/seen_unwinders.h"
#include <dlfcn.h>

// The data that libstdc++ and libc++abi have of each thread, by the ABI that they share.
struct exceptions {
    void *caught;
    unsigned uncaught;
};
static struct exceptions *(*exceptions_of_thread)(void); // NULL: it is not to be found

#define LOOKS 64 // one in so many calls: the unwinder may be gone

// A function that looks at the stack, and leaves it as it is.
static place_t only_looks;
// All C++ code calls it where it has cleaned up, for an exception to go on: it does not return.
static uintptr_t resumes;

// Functions that were seen asking, of unwinders that are not known by their tables or their
// library.
static struct place_set seen GC_HIDDEN;

bool encode_is_unwinder(const struct unwind_frame *frame)
{
    return frame->flags & FRAME_EH_RETURN || encode_is_in_unwinder(frame->pc) ||
           place_set_has(&seen, frame->function);
}

bool encode_is_unwind_resume(uintptr_t target)
{
    return target && target == resumes;
}

bool encode_may_move(const struct encode_thread *thread)
{
    const struct encode_state *state = thread->state;
    return !(thread->obstacles & (OBSTACLE_SIGNAL | OBSTACLE_GAP | OBSTACLE_UNWINDER)) &&
           !state->foreign && !(state->uncaught && *state->uncaught);
}

bool encode_is_call_of_unwinder(struct encode_state *state, uintptr_t sp)
{
    return state->validity == STATE_UNWINDING && sp < state->unwinder_sp &&
           ++state->unwinder_calls % LOOKS != 0;
}

// At the caller of a function of ours, by its frame.
static void start_above(struct unwind_cursor *cursor, const uintptr_t *frame)
{
    const struct caller_registers caller = unwind_caller_of(frame);
    const uintptr_t sp = caller.sp, high = encode_state.thread->stack.high;
    unwind_start_here(cursor, &caller, (struct unwind_bounds){sp, sp < high ? high : sp});
}

// An exception goes by a stub, on either of its ways. Normal context, in the unwinder.
static _Unwind_Reason_Code unwound(int version, _Unwind_Action actions,
                                   _Unwind_Exception_Class kind,
                                   struct _Unwind_Exception *exception,
                                   struct _Unwind_Context *context)
{
    struct encode_state *state = &encode_state;
    struct unwind_cursor cursor;
    (void)version, (void)actions, (void)kind, (void)exception, (void)context;
    if (state->thread) {
        start_above(&cursor, __builtin_frame_address(0));
        if (cursor.frame.flags & FRAME_CFI && !encode_is_unwinder(&cursor.frame))
            place_set_add(&seen, cursor.frame.function);
        // Its own calls are from here.
        if (state->validity != STATE_UNWINDING || state->unwinder_sp <= cursor.sp)
            state->unwinder_sp = cursor.sp + 1;
        state->validity = STATE_UNWINDING;
        encode_take_slow_path(state);
    }
    return _URC_CONTINUE_UNWIND;
}

#define ABOVE_MOST 12 // frames from the search for a table to who wants it

static bool comes_from_one_that_looks(const uintptr_t *frame)
{
    struct unwind_cursor cursor;
    struct program_frames frames;
    struct program_frame one;
    start_above(&cursor, frame);
    program_frames_begin_at(&frames, &cursor);
    for (unsigned i = 0; i < ABOVE_MOST && only_looks && program_frames_next(&frames, &one); i++)
        if (one.function == only_looks)
            return true;
    return false;
}

// An unwinder that cannot be interposed is about to look at the stack: it is to find no stub there,
// which would be a frame to it. A return to original code undoes nothing, and removing such a frame
// does not change the number, either.
static void uncover_returns(struct encode_thread *thread, const uintptr_t *frame)
{
    uint64_t mask;
    struct unwind_cursor cursor;
    if (!encode_lock(thread, &mask))
        return;
    start_above(&cursor, frame);
    thread->frames[0] = (struct encode_frame){.slot = (uintptr_t)(frame + 1)};
    thread->count = 1;
    if (encode_walk_on(thread, &cursor)) {
        encode_uncover_returns(thread);
        encode_compute_state(thread, 0);
        if (program_unwinder_has_memory())
            encode_stop(thread);
    }
    encode_unlock(thread, &mask);
}

// An unwinder wants to know of some frame, or of all. Normal context.
static void searched(uintptr_t pc, const uintptr_t *frame)
{
    struct encode_state *state = &encode_state;
    struct program_frame unwinder;
    if (!state->thread) {
        if (!pc)
            program_unwinder_expect_memory();
        return;
    }
    if (exceptions_of_thread)
        state->uncaught = &exceptions_of_thread()->uncaught;
    if ((state->uncaught && *state->uncaught) || (!pc && comes_from_one_that_looks(frame)))
        return;
    const enum program_unwinder_stage stage =
        pc ? program_unwinder_stage(pc, frame, state->thread->stack.high, &unwinder)
           : PROGRAM_UNWINDER_UNKNOWN;
    if (stage == PROGRAM_UNWINDER_GOES_ON ||
        (stage == PROGRAM_UNWINDER_BEGINS && unwinder.function == only_looks))
        return;
    // One that throws is known by its table: stubs are no frames to those who catch.
    const bool throws = stage == PROGRAM_UNWINDER_BEGINS && unwinder.flags & FRAME_EH_RETURN;
    if (throws) {
        state->foreign = true;
        return;
    }
    if (!pc)
        program_unwinder_expect_memory();
    if (stage == PROGRAM_UNWINDER_BEGINS) {
        place_set_add(&seen, unwinder.function);
        state->validity = STATE_UNWINDING;
    }
    uncover_returns(state->thread, frame);
    // Last: return addresses of one who may have thrown stay where they are, and numbers do not
    // rest.
    state->foreign |= stage == PROGRAM_UNWINDER_UNKNOWN;
    encode_doubt_state();
}

static place_t place_of(const char *name)
{
    const uintptr_t address = (uintptr_t)lookup_symbol(RTLD_NEXT, name);
    return address ? loadmap_place(address) : 0;
}

void encode_watch_unwinders(void)
{
    exceptions_of_thread =
        (struct exceptions * (*)(void)) lookup_symbol(RTLD_DEFAULT, "__cxa_get_globals_fast");
    only_looks = place_of("_Unwind_Backtrace");
    resumes = (uintptr_t)lookup_symbol(RTLD_NEXT, "_Unwind_Resume");
    stub_cfi_ask(unwound, searched);
}
