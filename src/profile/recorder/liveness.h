// SPDX-License-Identifier: MIT
#ifndef CAIRN_PROFILE_RECORDER_LIVENESS_H
#define CAIRN_PROFILE_RECORDER_LIVENESS_H

// Whether a process still uses its slice. A pid alone is not enough: it may have been given to
// another process, exec keeps it for another program, and in a pid namespace it is a number of that
// namespace. The proof is that /proc/PID/maps shows the slice.

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct liveness {
    uint32_t pid;
    int pidfd;   // -1: none is kept (too many processes at once), a new one is asked for each time
    bool proven; // was seen to have the slice mapped
};

// The part of the memory file that a process uses.
struct slice_place {
    ino_t inode;
    uint64_t offset, bytes;
};

// Looks for the process. `keep` says whether a descriptor may stay open.
void liveness_start(struct liveness *presence, uint32_t pid, const struct slice_place *place,
                    bool keep);
void liveness_end(struct liveness *presence);

// Whether a process of that pid runs now, as far as we can see; never true if it was not proven.
bool liveness_lasts(const struct liveness *presence);

// Whether it still has the slice mapped: an exec ends that. True if it cannot be known.
bool liveness_holds_slice(const struct liveness *presence, const struct slice_place *place);

#endif
