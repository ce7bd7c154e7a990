// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_CONTEXT_ID_CONTEXT_ID_H
#define CAIRN_TRACK_CONTEXT_ID_CONTEXT_ID_H

// Contexts that the program asks for (cairn_context() in include/cairn.h), as two numbers each.
//
//   by its number   a thread of the encode tracker: (id, ccStack, function), confirmed by a walk
//                   when it is new, then known by a table of the thread (requested_context.h)
//   walked          everywhere else: frames, interned one by one               context_id.c

#include "track/context_id/numbered_context.h"

// A new slice: of a process that begins, or of a child.
void context_id_start(struct arena *arena, struct live_contexts *live);

// Functions of ours that call nothing of the program, and must not be hooked.
void context_id_leave_alone(const void *const *functions, unsigned count);
bool context_id_is_left_alone(uintptr_t function);

// Of the calling thread: where it began. Its contexts go on with the call that created it
// (track/context_id/thread_creation.h).
void context_id_begin_thread(uintptr_t root);
uintptr_t context_id_root(void);
void context_id_end_thread(void);

// The context of the calling thread, the long way. Signal-safe.
struct context_id context_id_here(const struct context_place *place);

// The context of the call that created the calling thread. Under handles_lock(); uses the thread's
// room for frames.
struct context_id context_id_creator(void);

#endif
