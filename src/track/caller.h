// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_CALLER_H
#define CAIRN_TRACK_CALLER_H

// Who has called, found by a walk that ends at the first frame with an entry in a shadow.

#include "track/shadow.h"

// Once, before anything else here: where the hook's own code lies.
void caller_start(uintptr_t hook);

// The node of the caller of a function that was entered; the top of the shadow is then the youngest
// entry that has not ended. *recipe: of the caller's frame, if it is *followed.
struct node *caller_find(struct calls_thread *calls, uintptr_t *slot, uintptr_t back, uintptr_t bp,
                         union unwind_recipe *recipe, bool *followed);

// The node of the frame that was interrupted, with all frames that are not followed between it and
// the last one that is; *pc: of the sample, or where a hook was entered from. Signal-safe.
struct node *caller_of_sample(struct calls_thread *calls, const void *ucontext, uintptr_t *pc);

// Puts the cursor below the followed functions that a walk finds active. Signal-safe.
void caller_resync(struct calls_thread *calls, struct unwind_cursor *cursor);

#endif
