// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_CONTEXT_ID_HANDLE_TABLE_H
#define CAIRN_TRACK_CONTEXT_ID_HANDLE_TABLE_H

// The handles of context ids: points in a table that contexts are interned in, node by node.
//
// All that decodes one lies in the slice (struct live_contexts) before the program has it: the
// recorder reads it there, and so does the process itself. Everything is added under one lock, so
// that nodes are whole in the order of their numbers.

#include "encode/codebook/intern.h"
#include "live/live.h"

// A new slice: of a process that begins, or of a child.
void handles_start(struct arena *arena, struct live_contexts *live);

// That slice; NULL: there is none yet.
struct live_contexts *handles_live(void);

// The table, and the number that its handles begin with; NULL: there is none yet.
const struct intern *handles_table(uint32_t *first);

// Signals are blocked by the caller; false: not taken.
bool handles_lock(void);
void handles_unlock(void);

// The rest is under the lock. The table, made if there is none; NULL: no room.
struct intern *handles_intern(void);

// The handle of a point; 0 if there is no point.
uint64_t handles_number(uint32_t stamp, uint32_t point);

// Leaves bytes for decoding: room for them, and then the sign that they are there. NULL: no room.
struct live_sections *handles_reserve(size_t bytes, ref_t *ref);
void handles_publish(struct live_sections *sections, ref_t ref);

#endif
