// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_ENCODE_THREADS_COUNT_PUSHES_H
#define CAIRN_TRACK_ENCODE_THREADS_COUNT_PUSHES_H

// Counts of pushes, samples and encodings.

#include "track/encode/threads/threads.h"

// A push that was looked at. Signal-safe, as are the next ones.
void encode_count_push(struct encode_state *state, uint32_t edge);
// So much time was lost that an encoding would have saved.
void encode_count_waste(struct encode_state *state, uint64_t nanoseconds);
// A sample was decoded.
void encode_count_depths(uint32_t frames, uint32_t entries);
// An encoding was made. Under the lock.
void encode_count_progress(void);

#endif
