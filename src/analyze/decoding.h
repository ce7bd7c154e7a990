// SPDX-License-Identifier: MIT
#ifndef CAIRN_ANALYZE_DECODING_H
#define CAIRN_ANALYZE_DECODING_H

// Contexts that a program asked for, decoded by its profile.
//
//   struct decoding *decoding = decoding_new(profile, symbols);
//   decoding_process(...)         which process a value is of
//   decoding_tell(...)            its frames, as places of the profile, innermost first
//
// A thread's path continues with that of its creator. A child's path that is older than the fork is
// its parent's.

#include "profile/profile.h"

struct decoding;

struct decoded_frame {
    place_t function; // where it begins; 0: not known, and all that called it
    place_t inside; // the instruction that was running: a call, or where the context was asked for
    unsigned process; // index, for code of no file
    unsigned thread;  // 0: the thread itself; 1: its creator, and so on
};

struct decoded {
    const struct decoded_frame *frames;
    uint32_t count;
};

struct decoding *decoding_new(const struct profile *profile);
void decoding_free(struct decoding *decoding);

// Whether there is anything to be decoded at all.
bool decoding_has_any(const struct decoding *decoding);

#define DECODING_NONE UINT32_MAX

// The process that a value names; DECODING_NONE: none of the profile's.
uint32_t decoding_process(const struct decoding *decoding, uint32_t key);
// The one of this pid that has contexts, the last if there are several; pid 0: the only one that
// has. DECODING_NONE.
uint32_t decoding_process_of(const struct decoding *decoding, uint32_t pid);

// 0; -ENOENT: the process has no such context; -EBADMSG: the data was lost or damaged. The result
// is valid until the next call.
int decoding_tell(struct decoding *decoding, uint32_t process, uint64_t id, uint64_t handle,
                  struct decoded *decoded);

// Calls `each` with every place that any context could have: for symbols that are asked for once.
void decoding_places(struct decoding *decoding,
                     void (*each)(void *context, unsigned process, place_t place), void *context);

#endif
