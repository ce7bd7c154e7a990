// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_ENCODE_THREADS_EXCEPTIONS_H
#define CAIRN_TRACK_ENCODE_THREADS_EXCEPTIONS_H

// Exceptions, which take frames away (exceptions.c tells how), and unwinders.

#include "track/encode/threads/threads.h"

void encode_watch_unwinders(void); // before there is a stub
// Whether a frame is that of an unwinder which may be about to leave others. Signal-safe.
bool encode_is_unwinder(const struct unwind_frame *frame);
// Whether it is the function that lets an exception go on, which never returns.
bool encode_is_unwind_resume(uintptr_t target);
// Whether a call from there is one of an unwinder at work, and not to be looked at.
bool encode_is_call_of_unwinder(struct encode_state *state, uintptr_t sp);
// Whether return addresses of the walked stack may be led to stubs, and away from them: no
// exception is on its way that has looked at them. Signal-safe.
bool encode_may_move(const struct encode_thread *thread);

#endif
