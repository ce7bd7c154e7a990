// SPDX-License-Identifier: MIT
// Samples of a few frames: how what was walked hangs in a bounded tree (tree/bounded/bounded.h).
//
// The list of the last sample's frames need not be whole here. A walk that ends at its limit, with
// the marker still somewhere above, leaves a gap:
//
//   frames[0] ... frames[m]  (gap)  frames[m+1] ... frames[count-1]
//   oldest        was marked        WALK_DETACHED   youngest
//
// The frame behind the gap is a detached root in the tree. When it returns, the marker goes back to
// frames[m], and what is called from there is known in full again.
//
// Walks that had less to do than they may go on from where that one was cut off, a few frames each,
// until they come to the root or to frames[m]. Then the gap is closed, and contexts are whole.
//
// A tree that forgets may forget nodes on the far side of a gap, since nothing holds on to them:
// they are looked at again before they are used.

#include "track/walk/unwind_pass.h"
#include "tree/bounded/bounded.h"
#include <string.h>

#define LOOK_AT_MOST 1024 // return addresses, to see whether the list still holds
#define MEND_FRAMES 16    // found in a gap by one sample
#define MEND_DEPTH 1024   // frames behind a gap that are worth it: all need other nodes

// Where the walked frames hang in the list.
struct junction {
    size_t keep;    // frames of the list that stay
    size_t from;    // of those walked that are among them
    bool detached;  // the frames between the two are not known
    bool adoptable; // the list may be replaced
    bool retaken;   // the youngest that stays has become another function's
};

static ref_t root_of(const struct walker *walker)
{
    return tree_root(walker->arena, walker->tree);
}

static place_t site_in_tree(const struct walk_frame *frame)
{
    return frame->flags & WALK_DETACHED ? PLACE_UNKNOWN : frame->site;
}

static ref_t parent_in_tree(const struct walker *walker, size_t index)
{
    const bool top = index == 0 || walker->frames[index].flags & WALK_DETACHED;
    return top ? root_of(walker) : walker->frames[index - 1].node;
}

static bool holds(const struct walker *walker, size_t index)
{
    const struct walk_frame *frame = &walker->frames[index];
    const struct edge edge = {site_in_tree(frame), frame->function};
    return bounded_is(walker->arena, walker->tree, frame->node, parent_in_tree(walker, index),
                      &edge);
}

// True if the frame is on the stack as it was, by its return address.
static bool is_still_there(const struct walker *walker, const struct walk_frame *frame)
{
    const struct unwind_bounds seen = {.low = walker->lowest, .high = walker->stack.high - 7};
    if (frame->slot == 0)
        return true;
    if (!unwind_pass_in_bounds(&seen, frame->slot))
        return false;
    const uintptr_t word = *(const uintptr_t *)frame->slot;
    return word == frame->ra || marker_is_stub(word);
}

// The slot of the oldest walked frame that has one on the thread's own stack; 0: none has.
static uintptr_t oldest_slot(const struct unwind_pass *pass)
{
    const struct walker *walker = pass->walker;
    for (size_t i = pass->low; i < walker->capacity; i++)
        if (unwind_pass_in_bounds(&walker->stack, walker->frames[i].slot))
            return walker->frames[i].slot;
    return 0;
}

// How many of the list's frames are older than the one with this slot, and still there.
static size_t older_frames(const struct walker *walker, uintptr_t slot)
{
    size_t count = walker->count;
    while (count > 0 && walker->frames[count - 1].slot <= slot)
        count--;
    for (size_t i = count > LOOK_AT_MOST ? count - LOOK_AT_MOST : 0; i < count; i++)
        if (!is_still_there(walker, &walker->frames[i]))
            return i;
    return count;
}

// The walk was cut off, and no marker shows where it belongs. The list does, if the oldest frames
// that were walked are in it, and those above them have not changed: a look at each slot is cheap
// beside a step of a walk.
static void join_by_slots(const struct unwind_pass *pass, uintptr_t slot, struct junction *junction)
{
    const struct walker *walker = pass->walker;
    const struct walk_frame *fresh = walker->frames + pass->low;
    const size_t above = older_frames(walker, slot);
    size_t same = 0;
    while (above + same < walker->count && same < unwind_pass_walked(pass) &&
           unwind_pass_same_frame(&walker->frames[above + same], &fresh[same]))
        same++;
    junction->keep = above + same;
    junction->from = same;
    junction->detached = same == 0;
}

static void join_cut(struct unwind_pass *pass, uintptr_t leaf_sp, struct junction *junction)
{
    struct walker *walker = pass->walker;
    const uintptr_t slot = oldest_slot(pass);
    junction->detached = true;
    if (slot == 0) { // a coroutine: the list is for later
        junction->adoptable = false;
        return;
    }
    if (junction->adoptable && walker->marker.entry && !unwind_pass_bury_marker(pass, leaf_sp)) {
        // The marked frame is further up. Not so where the stack is not what it seems.
        if (walker->marker.slot > slot)
            junction->keep = walker->marked + 1;
        else
            junction->adoptable = false;
        return;
    }
    join_by_slots(pass, slot, junction);
}

static void join(struct unwind_pass *pass, uintptr_t leaf_sp, struct junction *junction)
{
    struct walker *walker = pass->walker;
    junction->adoptable = !pass->frozen && !walker->suspended;
    if (pass->met) {
        junction->retaken = unwind_pass_note_tail_call(pass);
        junction->keep = walker->marked + 1;
        return;
    }
    if (pass->spliced) {
        junction->keep = walker->count;
        junction->adoptable = false;
        return;
    }
    junction->adoptable = junction->adoptable && !pass->unwinding;
    if (pass->cut) { // the stub may be at work further up, too: a handler interrupted it
        join_cut(pass, leaf_sp, junction);
        return;
    }
    walker->in_stub = 0; // if it was set, a longjmp has left the stub behind
    junction->keep = junction->from = unwind_pass_common(pass);
    junction->adoptable = junction->adoptable && unwind_pass_give_up_marker(pass, leaf_sp);
}

static ref_t enter(struct walker *walker, ref_t parent, const struct walk_frame *frame,
                   uint64_t cost)
{
    const struct bounded_call call = {
        .site = site_in_tree(frame),
        .function = frame->function,
        .cost = cost,
        .held = walker->count ? walker->frames[walker->count - 1].node : 0,
    };
    return bounded_enter(walker->arena, walker->tree, parent, &call);
}

// Nodes for what is new, from the oldest to the youngest. 0: no room.
static ref_t descend(struct unwind_pass *pass, const struct junction *junction)
{
    struct walker *walker = pass->walker;
    ref_t node = root_of(walker);
    uint32_t flags = junction->detached ? WALK_DETACHED | WALK_ADRIFT : 0;
    if (junction->detached && pass->cut)
        flags |= WALK_GAP;
    if (junction->keep && !junction->detached) {
        struct walk_frame *last = &walker->frames[junction->keep - 1];
        if (junction->retaken)
            last->node =
                enter(walker, parent_in_tree(walker, junction->keep - 1), last, pass->amount);
        node = last->node;
        flags = last->flags & WALK_ADRIFT;
    }
    for (size_t i = pass->low + junction->from; i < walker->capacity && node; i++) {
        struct walk_frame *frame = &walker->frames[i];
        const uint64_t last = i + 1 == walker->capacity ? pass->last_amount : 0;
        frame->flags = (frame->flags & WALK_CFI) | flags;
        flags &= WALK_ADRIFT;
        node = frame->node = enter(walker, node, frame, pass->amount + last);
    }
    return node;
}

// The tree is empty: makes nodes for the frames of the list anew, without weight. Of a very deep
// one, only for its younger end.
static void rebuild(struct walker *walker, size_t count)
{
    const size_t most = bounded_capacity(walker->arena, walker->tree) / 2;
    const size_t first = count > most ? count - most : 0;
    for (size_t i = 0; i < walker->count; i++)
        walker->frames[i].node = 0;
    for (size_t i = first; i < count; i++) {
        struct walk_frame *frame = &walker->frames[i];
        if (first)
            frame->flags |= i == first ? WALK_DETACHED | WALK_ADRIFT : WALK_ADRIFT;
        const struct bounded_call call = {.site = site_in_tree(frame), .function = frame->function};
        frame->node = bounded_enter(walker->arena, walker->tree, parent_in_tree(walker, i), &call);
    }
    if (walker->loose < first)
        walker->loose = first;
}

// The node that the walked frames were to hang below may be forgotten.
static void check_junction(struct walker *walker, struct junction *junction)
{
    if (junction->keep == 0 || junction->keep > walker->loose)
        return;
    size_t index = junction->keep - 1;
    if (junction->retaken) { // has no node yet: what is above it?
        walker->frames[index].node = 0;
        if (index == 0 || walker->frames[index].flags & WALK_DETACHED)
            return;
        index--;
    }
    if (!holds(walker, index))
        junction->detached = true;
}

static bool is_adrift(const struct walker *walker, const struct junction *junction)
{
    return junction->detached ||
           (junction->keep && walker->frames[junction->keep - 1].flags & WALK_ADRIFT);
}

static void count_walk(struct unwind_pass *pass, const struct junction *junction)
{
    const struct walker *walker = pass->walker;
    const bool joined = pass->met || pass->spliced || pass->cut;
    enum verdict verdict = unwind_pass_verdict(pass, junction->keep, false);
    if (joined && is_adrift(walker, junction))
        verdict = VERDICT_DETACHED;
    else if (joined)
        verdict = unwind_pass_verdict(pass, junction->keep, true);
    walker->stats->verdicts[verdict]++;
    walker->stats->frames_stack += junction->keep + unwind_pass_walked(pass) - junction->from;
    walker->stats->frames_walked += unwind_pass_walked(pass);
    walker->stats->purged = bounded_purged(walker->arena, walker->tree);
}

static void replace_list(struct unwind_pass *pass, const struct junction *junction)
{
    struct walker *walker = pass->walker;
    if (!pass->met && !pass->cut)
        walker->rooted = pass->verdict;
    else if (junction->keep == 0)
        walker->rooted = VERDICT_COMPLETE; // frames know themselves that they are detached
    if (walker->loose > junction->keep || junction->detached)
        walker->loose = junction->keep;
    while (walker->rest_count && walker->rests[walker->rest_count - 1].index >= junction->keep)
        walker->rest_count--;
    if (junction->detached && pass->rest.valid && walker->rest_count < WALK_RESTS) {
        pass->rest.index = junction->keep;
        walker->rests[walker->rest_count++] = pass->rest;
    }
    unwind_pass_adopt(pass, junction->keep, junction->from);
    if (walker->use_marker && !pass->unwinding)
        unwind_pass_move_marker(walker, junction->keep);
}

// Nodes for the frames from `first` on, up to the next gap: they hang where they belong now.
static void hang_anew(struct walker *walker, size_t first)
{
    const uint32_t adrift = first ? walker->frames[first - 1].flags & WALK_ADRIFT : 0;
    if (first && !holds(walker, first - 1))
        return;
    for (size_t i = first; i < walker->count; i++) {
        struct walk_frame *frame = &walker->frames[i];
        if (frame->flags & WALK_GAP)
            break;
        frame->flags = (frame->flags & WALK_CFI) | adrift;
        frame->node = enter(walker, parent_in_tree(walker, i), frame, 0);
        if (!frame->node)
            walker->loose = walker->count; // no room: they are looked at before they are used
    }
}

// Puts frames into the list, instead of those from `from` to `to`. The gap is before them now.
static void fill_in(struct walker *walker, size_t from, size_t to, const struct walk_frame *frames,
                    size_t count)
{
    struct walk_frame found[MEND_FRAMES];
    memcpy(found, frames, count * sizeof *found);
    for (size_t i = 0; i < count; i++)
        found[i].flags = (found[i].flags & WALK_CFI) | WALK_ADRIFT;
    struct walk_frame *at = walker->frames + from;
    const size_t more = count - (to - from); // modulo: may be fewer
    walker->frames[to].flags &= ~(uint32_t)WALK_GAP;
    memmove(at + count, walker->frames + to, (walker->count - to) * sizeof *at);
    memcpy(at, found, count * sizeof *at);
    at->flags |= WALK_GAP;
    for (size_t i = 1; i < walker->rest_count; i++)
        walker->rests[i].index += more;
    walker->count += more;
    if (walker->guess > to)
        walker->guess += more;
    else if (walker->guess > from)
        walker->guess = 0; // of what was known before
    if (walker->marker.entry && walker->marked >= to)
        walker->marked += more;
    walker->loose = walker->loose > to ? walker->loose + more : from + count;
}

static bool same_slot(const struct walk_frame *a, const struct walk_frame *b)
{
    return a->slot == b->slot && a->ra == b->ra;
}

// The gap is closed if the frame before it is among those found, or if they begin at the root. The
// former may have become another function's (a tail call), the latter may show that more has
// changed: the walked frames are right. False: neither. *from: where in the list what was found
// begins, *first: and which of it.
static bool find_joint(const struct unwind_pass *up, size_t *from, size_t *first)
{
    const struct walker *walker = up->walker;
    const struct walk_frame *found = walker->frames + up->low;
    const size_t count = unwind_pass_walked(up), index = walker->rests[0].index;
    if (up->met || up->spliced)
        return false;
    if (!up->cut && up->verdict == VERDICT_COMPLETE) {
        size_t same = 0;
        while (same < index && same < count && !(walker->frames[same].flags & WALK_GAP) &&
               unwind_pass_same_frame(&walker->frames[same], &found[same]))
            same++;
        *from = *first = same;
        return true;
    }
    const struct walk_frame *last = index ? &walker->frames[index - 1] : NULL;
    for (size_t i = 0; i < count && last; i++) {
        if (!same_slot(&found[i], last))
            continue;
        const bool keep = last->function == found[i].function || last->flags & WALK_DETACHED;
        *from = keep ? index : index - 1;
        *first = keep ? i + 1 : i;
        return true;
    }
    return false;
}

static void drop_rest(struct walker *walker)
{
    walker->rest_count--;
    memmove(walker->rests, walker->rests + 1, walker->rest_count * sizeof *walker->rests);
}

// Fills in what was found above the oldest gap. True if that closed it.
static bool take_found(struct unwind_pass *up)
{
    struct walker *walker = up->walker;
    struct walk_rest *rest = &walker->rests[0];
    const size_t index = rest->index;
    size_t from = index, first = 0;
    const bool closed = find_joint(up, &from, &first);
    if (!closed && !up->rest.valid)
        return false;
    // The marker's frame is not taken from under it.
    if (from < index && walker->marker.entry && walker->marked >= from && walker->marked < index)
        return false;
    const struct walk_frame *found = walker->frames + up->low + first;
    fill_in(walker, from, index, found, unwind_pass_walked(up) - first);
    const bool older = walker->guess && walker->guess <= from;
    if (!older && up->guess && unwind_pass_walked(up) - first >= up->guess)
        walker->guess = from + unwind_pass_walked(up) - first - up->guess + 1;
    *rest = up->rest;
    rest->index = index;
    if (closed) {
        if (from == 0)
            walker->rooted = VERDICT_COMPLETE;
        walker->frames[from].flags &= ~(uint32_t)WALK_GAP;
        hang_anew(walker, from);
    }
    return closed;
}

// Uses what is left of the sample's frames to find what lies in the oldest gap. Apart, because of
// the room that a cursor takes on the stack.
static __attribute__((noinline)) void mend(struct walker *walker, size_t left)
{
    const struct walk_rest *rest = &walker->rests[0];
    const size_t index = rest->index;
    struct unwind_pass up = {.walker = walker,
                             .low = walker->capacity,
                             .limit = left < MEND_FRAMES ? left : MEND_FRAMES,
                             .verdict = VERDICT_COMPLETE};
    if (walker->count - index > MEND_DEPTH || walker->count == walker->capacity) {
        drop_rest(walker);
        return;
    }
    walker->frames[--up.low] = rest->frame;
    if (rest->caller.pc) {
        unwind_start_here(&up.cursor, &rest->caller,
                          (struct unwind_bounds){walker->lowest, walker->stack.high});
        unwind_pass_walk(&up);
    }
    walker->stats->frames_walked += unwind_pass_walked(&up);
    if (take_found(&up) || !up.rest.valid)
        drop_rest(walker);
}

// There are no statements with the places of code without tables: the address stands for the
// function, so a reader can name it.
void unwind_pass_name_leaf(struct unwind_pass *pass)
{
    struct walk_frame *leaf = &pass->walker->frames[pass->walker->capacity - 1];
    if (unwind_pass_walked(pass) && place_offset(leaf->function) == PLACE_OFFSET_UNKNOWN &&
        pass->statement)
        leaf->function = pass->statement;
}

ref_t unwind_pass_insert_bounded(struct unwind_pass *pass, uintptr_t leaf_sp)
{
    struct walker *walker = pass->walker;
    struct junction junction = {0};
    unwind_pass_name_leaf(pass);
    const bool has_buffer = bounded_begin(walker->arena, walker->tree);
    join(pass, leaf_sp, &junction);
    check_junction(walker, &junction);
    ref_t node = has_buffer ? descend(pass, &junction) : 0;
    if (!node && has_buffer) {
        bounded_empty(walker->arena, walker->tree);
        rebuild(walker, junction.adoptable ? junction.keep : walker->count);
        check_junction(walker, &junction);
        node = descend(pass, &junction);
    }
    count_walk(pass, &junction);
    if (!node) {
        walker->stats->unplaced++;
        return root_of(walker);
    }
    if (!junction.adoptable) {
        if (junction.retaken)
            walker->loose = walker->count; // the list has a node that nothing holds on to
        return node;
    }
    const size_t walked = unwind_pass_walked(pass);
    replace_list(pass, &junction);
    if (walker->rest_count == 0 || pass->unwinding || walked >= walker->limit)
        return node;
    mend(walker, walker->limit - walked);
    const ref_t mended = walker->frames[walker->count - 1].node; // the same context, more of it
    return mended ? mended : node;
}
