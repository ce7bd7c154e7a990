// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_WALK_UNWIND_PASS_H
#define CAIRN_TRACK_WALK_UNWIND_PASS_H

// One sample's walk, between unwind_pass.c, which goes up the stack, walk.c, which goes down the
// tree and moves the marker, and walk_bounded.c, which goes down a bounded tree.

#include "track/walk/walker.h"

// Walked frames go to the far end of the walker's list, from the end downwards, so that they come
// out oldest first as well:
//
//   frames[0 .. count) the last sample     free     frames[low .. capacity) this one
struct unwind_pass {
    struct walker *walker;
    struct unwind_cursor cursor;
    size_t low;
    size_t limit;          // frames that may be walked; 0: all
    struct walk_rest rest; // if it was cut there
    place_t statement;     // the sampled instruction
    uint64_t amount;       // to add to every frame that is new
    uint64_t last_amount;  // in a bounded tree: to add to the youngest frame's edge, beside that
    uintptr_t python;      // record of the youngest evaluation not met yet; 0: there is none
    size_t guess;          // frames walked up to the oldest whose caller was guessed; 0: none was
    size_t sure;           // frames below the first one that was searched for; 0: none was
    size_t keep;           // of the list: those that may still be met, or were
    bool frozen;           // the list is in use by the interrupted stub: read only
    bool unwinding;        // an exception is in flight: the marker stays where it is
    bool guessed;          // a frame without unwind tables was met: older frames may be wrong
    bool on_own_stack;     // a frame of the thread's own stack was met
    bool spliced;          // ended on the newest frame of the list
    bool joined;           // ended where frames[0 .. keep) of the list are the callers
    bool met;              // ended at the marker
    bool cut;              // ended at the limit
    enum verdict verdict;
};

static inline size_t unwind_pass_walked(const struct unwind_pass *pass)
{
    return pass->walker->capacity - pass->low;
}

static inline bool unwind_pass_in_bounds(const struct unwind_bounds *bounds, uintptr_t address)
{
    return address >= bounds->low && address < bounds->high;
}

static inline bool unwind_pass_same_frame(const struct walk_frame *a, const struct walk_frame *b)
{
    return a->slot == b->slot && a->ra == b->ra && a->site == b->site && a->function == b->function;
}

// How the path ends whose oldest frames are `keep` of the list: as the walk did, or as the list's
// own walk, if it is `joined` to them.
static inline enum verdict unwind_pass_verdict(const struct unwind_pass *pass, size_t keep,
                                               bool joined)
{
    const struct walker *walker = pass->walker;
    const enum verdict verdict = joined ? walker->rooted : pass->verdict;
    const bool guessed = pass->guess || (joined && walker->guess && walker->guess <= keep);
    if (verdict != VERDICT_COMPLETE)
        return verdict;
    if (guessed)
        return VERDICT_GUESSED;
    return joined && !pass->joined ? VERDICT_MARKER : VERDICT_COMPLETE;
}

// unwind_pass.c

// Memory for so many frames of the list; NULL: none. Signal-safe.
struct walk_frame *unwind_pass_map_frames(size_t capacity);

// Goes up from where the cursor stands, as far as it may.
void unwind_pass_walk(struct unwind_pass *pass);

// Goes up to the youngest frame that is the program's.
void unwind_pass_leave_agent(struct unwind_pass *pass);

// The next frame up, for paths that are known instead of walked. False: no memory. Signal-safe.
bool unwind_pass_tell(struct unwind_pass *pass, place_t site, place_t function);

// How many of the oldest frames are those of the last sample.
size_t unwind_pass_common(const struct unwind_pass *pass);

// The marked frame has become another function's since (a tail call reuses the slot). True if so;
// its node is the old one still.
bool unwind_pass_note_tail_call(struct unwind_pass *pass);

// walk.c

// The marker was not met. False if it is still good and must stay.
bool unwind_pass_bury_marker(struct unwind_pass *pass, uintptr_t leaf_sp);

// The walk went to its end without meeting the marker. True if the list may be replaced by what was
// walked.
bool unwind_pass_give_up_marker(struct unwind_pass *pass, uintptr_t leaf_sp);

// Makes the walked frames from index `from` on the list's new end, at position `keep`.
void unwind_pass_adopt(struct unwind_pass *pass, size_t keep, size_t from);

// Puts the marker into the youngest frame of the list that may carry it. Frames from index `fresh`
// on are new in the list.
void unwind_pass_move_marker(struct walker *walker, size_t fresh);

// walk_bounded.c: the node that the walked frames lead to, in a bounded tree. Never 0.
ref_t unwind_pass_insert_bounded(struct unwind_pass *pass, uintptr_t leaf_sp);

// A leaf that has no beginning is named by where the sample was.
void unwind_pass_name_leaf(struct unwind_pass *pass);

// insert_path.c: the same where they go to the root.
ref_t unwind_pass_insert_path(struct unwind_pass *pass);

#endif
