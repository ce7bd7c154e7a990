// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_ENCODE_THREADS_REENCODE_H
#define CAIRN_TRACK_ENCODE_THREADS_REENCODE_H

// Making a new encoding. Under the lock.

#include "track/encode/threads/threads.h"

// Whether it is time for one.
enum reencode encode_decide(void);
// Makes it, for a reason. The thread's stack was walked.
void encode_renumber(struct encode_thread *thread, enum reencode reason);

#endif
