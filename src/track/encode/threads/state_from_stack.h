// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_ENCODE_THREADS_STATE_FROM_STACK_H
#define CAIRN_TRACK_ENCODE_THREADS_STATE_FROM_STACK_H

// A thread's stack, and the state that it stands for.

#include "patch/sites.h"
#include "track/encode/threads/threads.h"

// Walks to the root. False: it was not met. Signal-safe, as are the next ones.
bool encode_walk(struct encode_thread *thread, struct unwind_cursor *cursor);
// The same behind the frames that are there already.
bool encode_walk_on(struct encode_thread *thread, struct unwind_cursor *cursor);
// Whether, in the walked frames, the function that the program called to jump is no more.
bool encode_has_landed(const struct encode_thread *thread);
// Whether as many calls of the walked stack have pushed as there are entries: else the state is
// another stack's, since somebody has jumped and told nobody.
bool encode_pushes_match(const struct encode_thread *thread);
// The state becomes that of the walked frames at `above` and beyond.
void encode_compute_state(struct encode_thread *thread, uintptr_t above);

// Does what a word says, before a call; `edge` is for one that does not tell it.
void encode_apply_word(struct encode_state *state, int64_t word, uint32_t edge);
void encode_push(struct encode_state *state, uint32_t edge, bool repeats);

// ---- under the lock

// Leads the walked frames back to the code that their sites go through now.
void encode_move_returns(struct encode_thread *thread);
// Leads all of them to the original code.
void encode_uncover_returns(struct encode_thread *thread);
// The stack was walked: the state is computed from its frames at `above` and beyond, for the
// encoding in force if that can be.
void encode_resync(struct encode_thread *thread, uintptr_t above);

#endif
