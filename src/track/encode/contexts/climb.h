// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_ENCODE_CONTEXTS_CLIMB_H
#define CAIRN_TRACK_ENCODE_CONTEXTS_CLIMB_H

// From a sample to the function whose number tells its context. Signal-safe.

#include "patch/sites.h"
#include "track/encode/threads/threads.h"

enum { ENCODE_CLIMBED = 32 }; // frames of functions that have no number, or need none

struct encode_saved_state { // of the state of a thread: what undoing one call may change
    uint64_t id;
    uint32_t depth, over;
    struct cc_entry top;
};

struct encode_climbed { // from a sample to the function whose number it is, youngest first
    unsigned frames;    // of the stack
    bool outside;       // some are not of leaf functions
    unsigned count;     // of these, without those of the agent
    place_t site[ENCODE_CLIMBED], function[ENCODE_CLIMBED];
    unsigned undone; // calls: the state is that of the oldest one's caller for the moment
    struct encode_saved_state kept[ENCODE_CLIMBED];
};

// Takes the cursor out of leaf functions, and of so many frames at least, and the state with it.
// False: it cannot be told whose number it is.
bool encode_climb(struct encode_thread *thread, struct unwind_cursor *cursor,
                  struct encode_climbed *climbed, unsigned least);
bool encode_climb_on(struct encode_thread *thread, struct unwind_cursor *cursor,
                     struct encode_climbed *climbed, unsigned least); // from where it is
void encode_climb_down(struct encode_thread *thread, struct encode_climbed *climbed);
// Whether the frame that the cursor stands in was called from where the number says.
bool encode_is_called_from(const struct encode_thread *thread, const struct unwind_cursor *start,
                           const struct confirmed *known);
// The node of the leaf function, from that of its caller's frame; 0: no memory.
ref_t encode_insert_climbed(const struct encode_climbed *climbed, struct walker *walker,
                            ref_t node);

// Undoes the effect of a call on the state: its return address lies in a stub. False: it does not.
bool encode_undo_call(struct encode_thread *thread, const struct stub_place *place);
void encode_save_state(const struct encode_thread *thread, struct encode_saved_state *kept);
void encode_restore_state(struct encode_thread *thread, const struct encode_saved_state *kept);

#endif
