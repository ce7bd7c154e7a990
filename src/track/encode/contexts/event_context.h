// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_ENCODE_EVENT_CONTEXT_H
#define CAIRN_TRACK_ENCODE_EVENT_CONTEXT_H

// The context of a thread that has called us, by its number: for events that come from the program
// itself. A number is believed if a walk has once said the same for it, at that place; then the
// function there must have been called from where it was, too. So the cost is that of a look into a
// table, and whatever makes a number wrong costs a walk.

#include "track/encode/encode.h"

// The node of the place that a call returns to, if the calling thread's number tells it; else 0.
// Now and then, and always to verify, it is not told, for a walk to look at it.
ref_t encode_event_node(struct walker *walker, uintptr_t pc, uintptr_t sp);

// The same place has been walked to, and this is its node: notes what the number says, if that was
// due and says the same.
void encode_event_walked(const struct walker *walker, const struct caller_registers *caller,
                         ref_t node);

#endif
