// SPDX-License-Identifier: MIT
// The way up the stack.

#include "track/walk/unwind_pass.h"
#include "base/likely.h"
#include "base/system/agent_map.h"
#include "track/runtimes/java.h"
#include "track/runtimes/python.h"
#include "track/runtimes/runtime_spots.h"
#include "track/walk/unmarkable.h"
#include "unwind/stack.h"
#include <string.h>

#define GROWTH 8     // of the list, in times
#define RUN_FRAMES 6 // walked at once: few lines of the handler's stack, which is in no cache

struct walk_frame *unwind_pass_map_frames(size_t capacity)
{
    return agent_map(capacity * sizeof(struct walk_frame));
}

static bool grow(struct unwind_pass *pass)
{
    struct walker *walker = pass->walker;
    if (pass->frozen) // the interrupted stub holds pointers into the list
        return false;
    // Pages that are never used cost nothing, but those used already are given up and made anew.
    size_t capacity = walker->capacity * GROWTH;
    struct walk_frame *frames = unwind_pass_map_frames(capacity);
    if (!frames)
        return false;
    memcpy(frames, walker->frames, walker->count * sizeof *frames);
    memcpy(frames + capacity - unwind_pass_walked(pass), walker->frames + pass->low,
           unwind_pass_walked(pass) * sizeof *frames);
    agent_unmap(walker->frames, walker->capacity * sizeof *frames);
    pass->low = capacity - unwind_pass_walked(pass);
    walker->frames = frames;
    walker->capacity = capacity;
    return true;
}

bool unwind_pass_tell(struct unwind_pass *pass, place_t site, place_t function)
{
    struct walker *walker = pass->walker;
    if (pass->low == walker->count && !grow(pass))
        return false;
    walker->frames[--pass->low] = (struct walk_frame){.site = site, .function = function};
    return true;
}

// The call site of a caller: its return address, or one past the instruction at which it was
// interrupted, so that "one before the site" is always within the calling instruction.
static place_t site_of(const struct unwind_frame *caller)
{
    return caller->flags & FRAME_INTERRUPTED ? caller->place + 1 : caller->place;
}

static void note_unwinder(struct unwind_pass *pass, const struct unwind_frame *frame)
{
    if (!UNLIKELY(frame->flags & FRAME_EH_RETURN))
        return;
    pass->unwinding = true;
    unmarkable_note_unwinder(frame->function);
}

// The walk is cut off. Later ones may go on, if the caller's registers that are followed are all
// that it takes.
static void note_rest(struct unwind_pass *pass, const struct unwind_frame *caller, bool own)
{
    pass->cut = true;
    pass->rest.caller = (struct caller_registers){
        .pc = caller ? caller->pc : 0, .sp = pass->cursor.sp, .bp = pass->cursor.bp};
    pass->rest.valid = caller ? own && caller == &pass->cursor.frame &&
                                    !(caller->flags & FRAME_INTERRUPTED) &&
                                    !(pass->cursor.left.flags & FRAME_GUESSED)
                              : pass->verdict == VERDICT_COMPLETE;
}

// Notes the Python functions that run in a frame of C: they have called what was noted last. `left`
// is where the oldest of them is called from.
static void push_python(struct unwind_pass *pass, const struct unwind_frame *left)
{
    struct walker *walker = pass->walker;
    struct python_frames frames = python_frames(pass->python);
    struct runtime_frame python;
    pass->python = python_older_record(pass->python);
    while (python_next(&frames, &python)) {
        if (pass->low == walker->count && !grow(pass))
            return;
        if (pass->low == walker->capacity)
            pass->statement = python.line;
        else
            walker->frames[pass->low].site = python.line + 1;
        walker->frames[--pass->low] = (struct walk_frame){
            .slot = left->ra_slot,
            .ra = left->flags & FRAME_INTERRUPTED ? left->pc + 1 : left->pc,
            .site = site_of(left),
            .function = python.function,
            .flags = WALK_PYTHON,
        };
    }
}

// Whether the caller of a frame of the machine's follows from words of the thread's own stack.
static uint16_t words_flags(const struct unwind_pass *pass, const struct unwind_frame *left,
                            const struct unwind_frame *caller)
{
    if (!caller || !(left->flags & FRAME_BY_WORDS) ||
        !unwind_pass_in_bounds(&pass->walker->stack, left->ra_slot))
        return 0;
    return pass->cursor.generated.interpreted ? WALK_BY_WORDS | WALK_INTERPRETED : WALK_BY_WORDS;
}

// Notes the methods that a frame of a Java virtual machine stands for, from those that were inlined
// outwards. The first of them has called what was noted last. False: it has none.
static bool push_java(struct unwind_pass *pass, const struct unwind_frame *left,
                      const struct unwind_frame *caller)
{
    struct walker *walker = pass->walker;
    struct java_frames frames = java_frames(&pass->cursor);
    struct runtime_frame java;
    bool any = false;
    const uint16_t by_words = words_flags(pass, left, caller);
    if (!pass->guessed) // the youngest
        runtime_spots_begin();
    if (pass->low == walker->capacity)
        walker->leaf = left->pc;
    for (; java_next(&frames, &java); any = true) {
        if (pass->low == walker->count && !grow(pass))
            break;
        if (pass->low == walker->capacity)
            pass->statement = java.line;
        else
            walker->frames[pass->low].site = java.line + 1;
        walker->frames[--pass->low] = (struct walk_frame){
            .slot = caller ? left->ra_slot : 0,
            .ra = caller ? caller->pc : 0,
            .site = caller ? site_of(caller) : 0,
            .function = java.function,
            .bp = by_words & WALK_INTERPRETED ? java_interpreted_words(left->cfa) : left->bp,
            .flags = by_words,
            .fp_offset = left->fp_offset,
        };
    }
    if (any && left->flags & FRAME_GUESSED)
        pass->guess = unwind_pass_walked(pass);
    return any;
}

// Notes the frame that the cursor has left; caller is where it is now (NULL: there is none). False:
// no room.
static bool push(struct unwind_pass *pass, const struct unwind_frame *left,
                 const struct unwind_frame *caller)
{
    struct walker *walker = pass->walker;
    if (UNLIKELY(left->flags & FRAME_RUNTIME) && push_java(pass, left, caller)) {
        pass->guessed = true; // neither this frame nor older ones carry the marker
        return true;
    }
    if (UNLIKELY(unmarkable_is_agent(left->function))) {
        // Not the program's own: for the reader, functions that the agent called were called from
        // where the agent was.
        if (pass->low == walker->capacity) {
            pass->statement = caller ? caller->place : 0;
        } else {
            walker->frames[pass->low].site = caller ? site_of(caller) : 0;
            walker->frames[pass->low].flags = 0;
        }
        return true;
    }
    if (pass->low == walker->capacity) {
        walker->leaf = left->flags & FRAME_INTERRUPTED ? left->pc : left->pc - 1;
        unmarkable_expect(left->function);
    }
    if (UNLIKELY(pass->python && pass->python < left->cfa))
        push_python(pass, left);
    const bool cut = pass->limit && unwind_pass_walked(pass) >= pass->limit;
    if (UNLIKELY(!cut && pass->low == walker->count) && !grow(pass))
        return false;
    struct walk_frame *frame = cut ? &pass->rest.frame : &walker->frames[--pass->low];
    frame->slot = caller ? left->ra_slot : 0;
    frame->ra = caller ? caller->pc : 0;
    frame->site = caller ? site_of(caller) : 0;
    frame->function = left->function;
    frame->bp = left->bp;
    frame->node = 0;
    frame->flags = 0;
    frame->fp_offset = left->fp_offset;
    if (walker->use_marker) // all of it is new, and will be looked up: after a millisecond of the
                            // program, far away
        tree_expect_edge(walker->arena, walker->tree, frame->site, frame->function);
    const bool own = unwind_pass_in_bounds(&walker->stack, frame->slot);
    if (!(left->flags & (FRAME_CFI | FRAME_SIGNAL)))
        pass->guessed = true;
    else if (own && caller && caller->flags & FRAME_CFI && !(left->flags & FRAME_SIGNAL) &&
             !pass->guessed && unwind_may_follow_call(frame->ra))
        frame->flags = WALK_CFI;
    if (own && caller && left->flags & FRAME_BY_WORDS)
        frame->flags |= WALK_BY_WORDS;
    if (UNLIKELY(cut)) {
        note_rest(pass, caller, own);
        return false;
    }
    if (UNLIKELY(left->flags & FRAME_GUESSED))
        pass->guess = unwind_pass_walked(pass);
    pass->on_own_stack |= own;
    note_unwinder(pass, left);
    return true;
}

// True if the walk runs into the marker's own code at work: the frame below is the top of the list.
static bool at_stub_at_work(const struct unwind_pass *pass)
{
    const struct unwind_frame *frame = &pass->cursor.frame;
    return marker_in_code(frame->pc) ||
           (pass->walker->in_stub && unmarkable_is_agent(frame->function));
}

// Not further than one frame beyond the limit, which is looked at, since it may be marked.
static size_t run_length(const struct unwind_pass *pass)
{
    const size_t limit = pass->limit;
    const size_t left = limit ? limit - unwind_pass_walked(pass) + 1 : RUN_FRAMES;
    return left < RUN_FRAMES ? left : RUN_FRAMES;
}

// Walks up as many frames as can be left at once, and notes all of them but the last, which is in
// cursor.left. None of those between is the marker's: its code has no fast recipe. False: the walk
// has come to its end.
static bool go_on(struct unwind_pass *pass)
{
    struct unwind_cursor *cursor = &pass->cursor;
    struct unwind_frame left[RUN_FRAMES];
    size_t ran = pass->walker->in_stub ? 0 : unwind_run(cursor, left, run_length(pass));
    for (size_t i = 0; i + 1 < ran; i++)
        if (!push(pass, &left[i], &left[i + 1])) {
            pass->verdict = VERDICT_BAD_STACK;
            return false;
        }
    if (UNLIKELY(ran == 0) && unwind_step(cursor, &pass->verdict) == UNWIND_END) {
        push(pass, &cursor->frame, NULL);
        return false;
    }
    return true;
}

#define LEAVE_TRIES 16 // frames of our own that a sample may be in

void unwind_pass_leave_agent(struct unwind_pass *pass)
{
    struct unwind_cursor *cursor = &pass->cursor;
    for (unsigned i = 0; i < LEAVE_TRIES && unmarkable_is_agent(cursor->frame.function); i++)
        if (unwind_step(cursor, &pass->verdict) == UNWIND_END)
            break;
}

// A search that led nowhere has found calls that are over: the caller is not known.
static void drop_unsure(struct unwind_pass *pass)
{
    struct walker *walker = pass->walker;
    if (!UNLIKELY(pass->sure) || pass->verdict == VERDICT_COMPLETE || pass->cut ||
        unwind_pass_walked(pass) <= pass->sure)
        return;
    pass->low = walker->capacity - pass->sure;
    struct walk_frame *oldest = &walker->frames[pass->low];
    oldest->slot = oldest->ra = 0;
    oldest->site = 0;
    oldest->flags = 0;
}

// The caller of a frame of the list, whose callee is still there, is the same as before: the words
// that lead to it are unchanged. Methods that are inlined into one another have one frame.
static bool is_unchanged(const struct walk_frame *frame, const struct walk_frame *callee)
{
    const stack_word *cfa = (const stack_word *)(frame->slot + sizeof(uintptr_t));
    if (!(frame->flags & WALK_BY_WORDS) || frame->slot < callee->slot || cfa[-1] != frame->ra)
        return false;
    if (UNLIKELY(frame->flags & WALK_INTERPRETED))
        return (uintptr_t)(cfa - JAVA_INTERPRETED_WORDS) > callee->slot &&
               java_interpreted_words((uintptr_t)cfa) == frame->bp;
    return !frame->fp_offset || cfa[frame->fp_offset] == frame->bp;
}

// The frame walked last called from where one of the last sample's did, and the way from there is
// what it was: the rest need not be walked.
static bool join(struct unwind_pass *pass)
{
    const struct walker *walker = pass->walker;
    const struct walk_frame *list = walker->frames;
    struct walk_frame *fresh = &walker->frames[pass->low];
    if (pass->low == walker->capacity)
        return false; // all of it was ours
    while (pass->keep && list[pass->keep - 1].slot < fresh->slot)
        pass->keep--;
    if (!pass->keep)
        return false;
    const struct walk_frame *last = &list[pass->keep - 1];
    if (!(fresh->flags & last->flags & WALK_BY_WORDS) || last->slot != fresh->slot ||
        last->ra != fresh->ra || last->bp != fresh->bp)
        return false;
    while (pass->keep && list[pass->keep - 1].slot == fresh->slot)
        pass->keep--;
    size_t older = pass->keep;
    const place_t site = list[older].site; // where a method calls, its line
    // The oldest has no caller.
    while (older > 1 && is_unchanged(&list[older - 1], &list[older]))
        older--;
    pass->joined = older == 1 && list[0].slot == 0;
    if (pass->joined)
        fresh->site = site;
    else
        pass->keep = older ? older - 1 : 0; // beyond what has changed
    return pass->joined;
}

void unwind_pass_walk(struct unwind_pass *pass)
{
    struct walker *walker = pass->walker;
    struct unwind_cursor *cursor = &pass->cursor;
    for (;;) {
        if (UNLIKELY(at_stub_at_work(pass))) {
            pass->spliced = true;
            return;
        }
        if (!go_on(pass)) {
            drop_unsure(pass);
            return;
        }
        if (marker_is_stub(cursor->frame.pc)) {
            if (!UNLIKELY(pass->frozen) && walker->marker.entry &&
                cursor->left.ra_slot == walker->marker.slot && marker_is_mine(&walker->marker)) {
                pass->met = true;
                if (UNLIKELY(pass->python && pass->python < cursor->left.cfa))
                    push_python(pass, &cursor->left);
                return;
            }
            uintptr_t truth = marker_truth(cursor->left.cfa);
            if (!truth) {
                pass->verdict = VERDICT_BAD_PC;
                push(pass, &cursor->left, NULL);
                return;
            }
            unwind_correct(cursor, truth);
        }
        if (!push(pass, &cursor->left, &cursor->frame)) {
            pass->verdict = VERDICT_BAD_STACK;
            return;
        }
        if (UNLIKELY(cursor->scanned) && !pass->sure)
            pass->sure = unwind_pass_walked(pass);
        if (pass->keep && join(pass))
            return;
    }
}

size_t unwind_pass_common(const struct unwind_pass *pass)
{
    const struct walker *walker = pass->walker;
    const struct walk_frame *fresh = walker->frames + pass->low;
    size_t same = 0;
    while (same < walker->count && same < unwind_pass_walked(pass) &&
           !(walker->frames[same].flags & WALK_DETACHED) &&
           unwind_pass_same_frame(&walker->frames[same], &fresh[same]))
        same++;
    return same;
}

bool unwind_pass_note_tail_call(struct unwind_pass *pass)
{
    struct walker *walker = pass->walker;
    struct walk_frame *marked = &walker->frames[walker->marked];
    const struct unwind_frame *left = &pass->cursor.left;
    note_unwinder(pass, left);
    if (marked->function == left->function || unmarkable_is_agent(left->function))
        return false;
    marked->function = left->function;
    return true;
}
