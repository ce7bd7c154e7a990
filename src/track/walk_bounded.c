// SPDX-License-Identifier: MIT
// Samples of a few frames: how what was walked hangs in a bounded tree (tree/bounded.h).
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
// A tree that forgets may forget nodes on the far side of a gap, since nothing holds on to them:
// they are looked at again before they are used.

#include "track/pass.h"
#include "tree/bounded.h"

#define LOOK_AT_MOST 1024 // return addresses, to see whether the list still holds

// Where the walked frames hang in the list.
struct junction {
    size_t keep;    // frames of the list that stay
    size_t from;    // of those walked that are among them
    bool detached;  // what lies between the two is not known
    bool adoptable; // the list may be replaced
    bool retaken;   // the youngest that stays has become another function's
};

static ref_t root_of(const struct walker *walker)
{
    return tree_root(walker->arena, walker->tree);
}

static place_t site_in_tree(const struct walk_frame *frame)
{
    return frame->flags & WALK_DETACHED ? 0 : frame->site;
}

static ref_t parent_in_tree(const struct walker *walker, size_t index)
{
    const bool top = index == 0 || walker->frames[index].flags & WALK_DETACHED;
    return top ? root_of(walker) : walker->frames[index - 1].node;
}

static bool holds(const struct walker *walker, size_t index)
{
    const struct walk_frame *frame = &walker->frames[index];
    return bounded_is(walker->arena, walker->tree, frame->node, parent_in_tree(walker, index),
                      site_in_tree(frame), frame->function);
}

// The frame is on the stack as it was, as far as its return address tells.
static bool is_still_there(const struct walker *walker, const struct walk_frame *frame)
{
    const struct unwind_bounds seen = {.low = walker->lowest, .high = walker->stack.high - 7};
    if (frame->slot == 0)
        return true;
    if (!pass_in_bounds(&seen, frame->slot))
        return false;
    const uintptr_t word = *(const uintptr_t *)frame->slot;
    return word == frame->ra || marker_is_stub(word);
}

// The slot of the oldest walked frame that has one on the thread's own stack; 0: none has.
static uintptr_t oldest_slot(const struct pass *pass)
{
    const struct walker *walker = pass->walker;
    for (size_t i = pass->low; i < walker->capacity; i++)
        if (pass_in_bounds(&walker->stack, walker->frames[i].slot))
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

// The walk was cut off, and no marker tells where it belongs. The list does, if the oldest frames
// that were walked are in it, and those above them have not changed: a look at each slot is cheap
// beside a step of a walk.
static void join_by_slots(const struct pass *pass, uintptr_t slot, struct junction *junction)
{
    const struct walker *walker = pass->walker;
    const struct walk_frame *fresh = walker->frames + pass->low;
    const size_t above = older_frames(walker, slot);
    size_t same = 0;
    while (above + same < walker->count && same < pass_walked(pass) &&
           pass_same_frame(&walker->frames[above + same], &fresh[same]))
        same++;
    junction->keep = above + same;
    junction->from = same;
    junction->detached = same == 0;
}

static void join_cut(struct pass *pass, uintptr_t leaf_sp, struct junction *junction)
{
    struct walker *walker = pass->walker;
    const uintptr_t slot = oldest_slot(pass);
    junction->detached = true;
    if (slot == 0) { // a coroutine: the list is for later
        junction->adoptable = false;
        return;
    }
    if (junction->adoptable && walker->marker.entry && !pass_bury_marker(pass, leaf_sp)) {
        // The marked frame is further up. Not so where the stack is not what it seems.
        if (walker->marker.slot > slot)
            junction->keep = walker->marked + 1;
        else
            junction->adoptable = false;
        return;
    }
    join_by_slots(pass, slot, junction);
}

static void join(struct pass *pass, uintptr_t leaf_sp, struct junction *junction)
{
    struct walker *walker = pass->walker;
    junction->adoptable = !pass->frozen && !walker->suspended;
    if (pass->met) {
        junction->retaken = pass_note_tail_call(pass);
        junction->keep = walker->marked + 1;
        return;
    }
    if (pass->spliced) {
        junction->keep = walker->count;
        junction->adoptable = false;
        return;
    }
    walker->in_stub = 0; // if it was set, a longjmp has left the stub behind
    junction->adoptable = junction->adoptable && !pass->unwinding;
    if (pass->cut) {
        join_cut(pass, leaf_sp, junction);
        return;
    }
    junction->keep = junction->from = pass_common(pass);
    junction->adoptable = junction->adoptable && pass_give_up_marker(pass, leaf_sp);
}

static ref_t enter(struct walker *walker, ref_t parent, const struct walk_frame *frame,
                   uint64_t cost)
{
    const ref_t held = walker->count ? walker->frames[walker->count - 1].node : 0;
    return bounded_enter(walker->arena, walker->tree, parent, site_in_tree(frame), frame->function,
                         cost, held);
}

// Nodes for what is new, from the oldest to the youngest. 0: no room.
static ref_t descend(struct pass *pass, const struct junction *junction)
{
    struct walker *walker = pass->walker;
    ref_t node = root_of(walker);
    uint32_t flags = junction->detached ? WALK_DETACHED | WALK_ADRIFT : 0;
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
        frame->node = bounded_enter(walker->arena, walker->tree, parent_in_tree(walker, i),
                                    site_in_tree(frame), frame->function, 0, 0);
    }
    if (walker->loose < first)
        walker->loose = first;
}

// What the walked frames were to hang below may be forgotten.
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

static void count_walk(struct pass *pass, const struct junction *junction)
{
    const struct walker *walker = pass->walker;
    const bool joined = pass->met || pass->spliced || pass->cut;
    enum verdict verdict = pass->verdict;
    if (joined && is_adrift(walker, junction))
        verdict = VERDICT_DETACHED;
    else if (joined)
        verdict = walker->rooted == VERDICT_COMPLETE ? VERDICT_MARKER : walker->rooted;
    walker->stats->verdicts[verdict]++;
    walker->stats->frames_stack += junction->keep + pass_walked(pass) - junction->from;
    walker->stats->frames_walked += pass_walked(pass);
    walker->stats->purged = bounded_purged(walker->arena, walker->tree);
}

static void replace_list(struct pass *pass, const struct junction *junction)
{
    struct walker *walker = pass->walker;
    if (!pass->met && !pass->cut)
        walker->rooted = pass->verdict;
    else if (junction->keep == 0)
        walker->rooted = VERDICT_COMPLETE; // frames know themselves that they are detached
    if (walker->loose > junction->keep || junction->detached)
        walker->loose = junction->keep;
    pass_adopt(pass, junction->keep, junction->from);
    if (walker->use_marker && !pass->unwinding)
        pass_move_marker(walker);
}

// There are no statements to tell where code without tables was: its address stands for the
// function, so that a reader can name it.
static void name_leaf(struct pass *pass)
{
    struct walk_frame *leaf = &pass->walker->frames[pass->walker->capacity - 1];
    if (pass_walked(pass) && place_offset(leaf->function) == PLACE_OFFSET_UNKNOWN &&
        pass->statement)
        leaf->function = pass->statement;
}

ref_t pass_insert_bounded(struct pass *pass, uintptr_t leaf_sp)
{
    struct walker *walker = pass->walker;
    struct junction junction = {0};
    name_leaf(pass);
    const enum bounded_room room = bounded_begin(walker->arena, walker->tree);
    if (room == BOUNDED_EMPTIED)
        rebuild(walker, walker->count);
    join(pass, leaf_sp, &junction);
    check_junction(walker, &junction);
    ref_t node = room == BOUNDED_NONE ? 0 : descend(pass, &junction);
    if (!node && room != BOUNDED_NONE) {
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
    if (junction.adoptable)
        replace_list(pass, &junction);
    else if (junction.retaken)
        walker->loose = walker->count; // the list has a node that nothing holds on to
    return node;
}
