// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_ENCODE_CONTEXTS_DECODE_STATE_H
#define CAIRN_TRACK_ENCODE_CONTEXTS_DECODE_STATE_H

// From the state of a thread to its context, and whether a walk says the same. Signal-safe.

#include "track/encode/threads/threads.h"

// Decodes the state for a thread that is in the function; into thread->path. False: it means
// nothing.
bool encode_decode_state(struct encode_thread *thread, place_t place);
// Whether the walk and the path in thread->path are the same, but for so many youngest frames.
bool encode_compare(struct encode_thread *thread, uint32_t skipped);
// Whether the number of a thread that has called us says what a walk from the cursor says, under
// the lock. The walk is in thread->frames, the path in thread->path. If not, the stack can say what
// the state is, and it is asked again.
enum confirm_how { CONFIRM_ONLY, CONFIRM_OR_MEND };
bool encode_confirm(struct encode_thread *thread, struct unwind_cursor *cursor,
                    enum confirm_how how);
// Heats the edges of the path in thread->path that are new since the last one.
void encode_observe(struct encode_thread *thread);
// A sample in a hook, where a call is being pushed, whatever for; or below a jump that the encoding
// does not know.
void encode_observe_unencoded(void);
// Whether the walked stack is one that a number must tell rightly, if it tells it. Not across a
// signal's frame, nor in a function of libc that a hook has called, or an unwinder; nor where code
// that does not take part was left for by a jump, and has called back.
static inline bool encode_is_comparable(const struct encode_thread *thread)
{
    return !thread->obstacles;
}

#endif
