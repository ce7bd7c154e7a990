// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_CONTEXT_ID_ID_MEMO_H
#define CAIRN_TRACK_CONTEXT_ID_ID_MEMO_H

// Between context_id.c and encode/contexts/requested_context.c.

#include "encode/codebook/intern.h"
#include "track/context_id/context_id.h"
#include "tree/tree.h"

// Of a thread; made when it first asks.
struct context_id_thread {
    uint32_t busy;                  // it is being changed: a signal's handler must not
    uint32_t origin, walked_origin; // nodes; 0: not made yet
    struct context_id creator;      // context of the call that created the thread
    uint32_t creator_told;          // 1: if it is known at all
    struct edge frames[CONTEXT_ID_FRAMES];
};

extern __thread struct context_id_thread *context_id_current;

// encode/contexts/requested_context.c

// The context, if a walk agrees with the number; false: the number does not lead to it. If memory
// is used up it is not known. Signals are blocked.
bool encode_context(struct context_id_thread *asked, const struct context_place *place,
                    struct context_id *value);

// Where the return address of the calling thread's first function lies; 0: not known.
uintptr_t encode_context_root_slot(void);

// No section was published yet, in a new slice.
void encode_context_restart(void);

// context_id.c

// Under context_id_lock(): the table, made if there is none; NULL: no room.
struct intern *context_id_intern(void);
bool context_id_lock(void); // signals are blocked; false: not taken
void context_id_unlock(void);
// Leaves bytes for decoding: room for them, and then the sign that they are there. NULL: no
// room.
struct live_sections *context_id_reserve(size_t bytes, ref_t *ref);
void context_id_publish(struct live_sections *sections, ref_t ref);
// The creator's part of a thread's origin. Under context_id_lock(); uses the room for frames.
struct context_id context_id_creator(void);
// The handle of a point; 0 if there is no point.
uint64_t context_id_handle(uint32_t stamp, uint32_t point);

#endif
