// SPDX-License-Identifier: MIT
#ifndef CAIRN_CMD_CONTINUOUS_CONTINUOUS_H
#define CAIRN_CMD_CONTINUOUS_CONTINUOUS_H

// `cairn record --every`: a profile of each interval, in a folder or sent to a server.
//
//   recorder ── cairn.out          all of the recording, bounded by its trees
//      │ copies it at the end of an interval
//      ▼
//   latest.out − delivered.out     another process subtracts, finds names, writes and sends:
//      │                           sampling goes on meanwhile
//      ▼
//   waiting/0007-FROM-UNTIL.pb.gz  until the destination takes it
//
// delivered.out changes when an interval is in waiting/, and not before. So an interval that could
// not be written, or for which waiting/ has no room, becomes part of the next one: nothing is lost.

#include "cmd/continuous/destination.h"
#include <stdbool.h>
#include <stdint.h>

struct continuous;

struct continuous_options {
    uint64_t every_ns; // 0: there are no intervals
    struct interval_destination destination;
};

struct continuous_totals {
    uint64_t delivered, refused, empty, prolonged;
    uint64_t waiting, waiting_bytes;
    bool is_unmade;       // the last one, which is the rest of latest.out
    bool profile_is_gone; // of the whole recording
    char folder[256];     // of what could not be delivered
    char problem[256];    // why the last one could not be delivered or written; empty: none
};

// Makes the folders. NULL and one line in *error, to be freed.
struct continuous *continuous_open(const struct continuous_options *options, bool quiet,
                                   char **error);

// The profile of the whole recording, which the recorder shall write. The name is never freed.
const char *continuous_profile(const struct continuous *continuous);

// When there is something to do, by the monotonic clock.
uint64_t continuous_due(const struct continuous *continuous);

// Whether an interval ends now: the profile must be up to date before continuous_turn().
bool continuous_wants_profile(struct continuous *continuous, uint64_t now);
// Never waits. `fresh`: the profile has all that was seen until now.
void continuous_turn(struct continuous *continuous, uint64_t now, bool fresh);

// Removes what was made, where the recording does not begin. It may be NULL.
void continuous_discard(struct continuous *continuous);

// Delivers the last interval, which takes seconds if the destination does not answer, and removes
// what is not needed any more.
void continuous_close(struct continuous *continuous, struct continuous_totals *totals);

#endif
