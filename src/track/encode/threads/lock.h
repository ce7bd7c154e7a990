// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_ENCODE_THREADS_LOCK_H
#define CAIRN_TRACK_ENCODE_THREADS_LOCK_H

// The tracker's lock. No handler of the program interrupts its holder.

#include "track/encode/threads/threads.h"

// False: the thread has it already, and was interrupted, or must not wait for it.
bool encode_lock(struct encode_thread *thread, uint64_t *mask);
void encode_unlock(struct encode_thread *thread, const uint64_t *mask);
// For a thread that begins or ends, and holds no lock of libc: waits for one that forks, too.
// False: there is nobody to wait for.
bool encode_lock_patiently(uint64_t *mask);
// In our handler, where all signals are blocked: without waiting.
bool encode_try_lock(void);
void encode_release_lock(void);
// For a thread that may wait for locks of libc meanwhile: the owner of one of these does not
// wait for ours. The program's signals may come. False: nobody will ever release it.
bool encode_lock_for_libc(void);
void encode_unlock_for_libc(void);
void encode_break_lock(bool held); // in a forked child, whose parent held it for that, or not

#endif
