// SPDX-License-Identifier: MIT
// From a sample to the function whose number tells its context: out of leaf functions, and of those
// that no number tells (those that do not take part, what they call back, what an open function has
// reached unseen). A few frames are unwound, and what the stubs on the way have done is undone.

#include "track/encode/contexts/climb.h"
#include "track/encode/sites/leaf_functions.h"
#include "track/encode/sites/open_functions.h"
#include "track/encode/threads/epoch.h"
#include "track/encode/threads/exceptions.h"
#include "track/walk/unmarkable.h"

bool encode_undo_call(struct encode_thread *thread, const struct stub_place *place)
{
    if (!place->returns)
        return false;
    if (place->by_table || place->hooked)
        context_return(&thread->state->context,
                       place->by_table ? encode_word(thread, place->index) : WORD_PUSH);
    return true;
}

void encode_save_state(const struct encode_thread *thread, struct encode_saved_state *kept)
{
    const struct encode_state *state = thread->state;
    const struct context_state *context = &state->context;
    *kept = (struct encode_saved_state){
        .id = context->id, .depth = context->depth, .over = context->over};
    if (context->depth)
        kept->top = context->stack[context->depth - 1];
}

void encode_restore_state(struct encode_thread *thread, const struct encode_saved_state *kept)
{
    struct context_state *context = &thread->state->context;
    context->id = kept->id;
    context->depth = kept->depth;
    context->over = kept->over;
    if (kept->depth)
        context->stack[kept->depth - 1] = kept->top;
}

// Undoes the effect of a call on the state, if there is one. False: it is not known.
static bool undo(struct encode_thread *thread, uintptr_t return_address,
                 struct encode_climbed *climbed)
{
    struct stub_place place;
    if (!sites_locate(return_address, &place))
        return true;
    encode_save_state(thread, &climbed->kept[climbed->undone++]);
    return encode_undo_call(thread, &place);
}

// Whether the return address of a frame is known. That of interrupted assembly without a table is,
// if it is near the top of the stack. One that was searched for may belong to a call that is over.
static bool is_left_surely(const struct unwind_cursor *cursor)
{
    const unsigned flags = cursor->left.flags & (FRAME_CFI | FRAME_SIGNAL | FRAME_INTERRUPTED);
    return (flags & ~(unsigned)FRAME_INTERRUPTED) == FRAME_CFI ||
           (flags == FRAME_INTERRUPTED && !cursor->scanned);
}

static bool climb_frame(struct encode_thread *thread, struct unwind_cursor *cursor,
                        struct encode_climbed *climbed)
{
    const struct unwind_frame *left = &cursor->left;
    enum verdict verdict;
    if (climbed->frames == ENCODE_CLIMBED || unwind_step(cursor, &verdict) != UNWIND_OK ||
        !is_left_surely(cursor) || left->ra_slot == thread->root_slot ||
        left->ra_slot < thread->stack.low || left->ra_slot >= thread->stack.high ||
        encode_is_unwinder(left))
        return false;
    climbed->frames++;
    // A callee of the agent was called from where the agent was.
    if (!unmarkable_is_agent(left->function))
        climbed->function[climbed->count++] = left->function;
    else if (climbed->count == 0)
        return false;
    climbed->site[climbed->count - 1] = cursor->frame.place;
    return undo(thread, *(const uintptr_t *)left->ra_slot, climbed);
}

bool encode_climb_on(struct encode_thread *thread, struct unwind_cursor *cursor,
                     struct encode_climbed *climbed, unsigned least)
{
    for (;;) {
        const place_t function = cursor->frame.function;
        bool leaf = encode_is_leaf(function);
        const bool lacks_number = !leaf && encode_lacks_number(thread, function);
        // Of code without a table, only leaf functions have the number of who has called them.
        leaf |= !lacks_number && place_offset(function) == PLACE_OFFSET_UNKNOWN;
        if (climbed->frames >= least && !leaf && !lacks_number)
            return true;
        climbed->outside |= lacks_number;
        if (!climb_frame(thread, cursor, climbed))
            return false;
    }
}

bool encode_climb(struct encode_thread *thread, struct unwind_cursor *cursor,
                  struct encode_climbed *climbed, unsigned least)
{
    climbed->frames = climbed->count = climbed->undone = 0;
    climbed->outside = false;
    return encode_climb_on(thread, cursor, climbed, least);
}

void encode_climb_down(struct encode_thread *thread, struct encode_climbed *climbed)
{
    while (climbed->undone > 0)
        encode_restore_state(thread, &climbed->kept[--climbed->undone]);
}

// After a climb its place must be the same, too: a
// number that is wrong since somebody has jumped is not unlikely to be right for another of the
// functions above.
bool encode_is_called_from(const struct encode_thread *thread, const struct unwind_cursor *start,
                           const struct confirmed *known)
{
    struct unwind_cursor cursor = *start;
    enum verdict verdict;
    if (unwind_step(&cursor, &verdict) != UNWIND_OK || cursor.left.flags & FRAME_SIGNAL)
        return false;
    if (known->slot && cursor.left.ra_slot != known->slot)
        return false;
    return known->caller ? cursor.frame.place == known->caller
                         : cursor.left.ra_slot == thread->root_slot;
}

ref_t encode_insert_climbed(const struct encode_climbed *climbed, struct walker *walker, ref_t node)
{
    for (unsigned i = climbed->count; i-- > 0 && node;) {
        const ref_t edge =
            tree_edge(walker->arena, walker->tree, climbed->site[i], climbed->function[i]);
        node = tree_child(walker->arena, walker->tree, node, edge);
    }
    return node;
}
