// SPDX-License-Identifier: MIT
#ifndef CAIRN_PROFILE_RECORDER_LIVE_TIMELINE_H
#define CAIRN_PROFILE_RECORDER_LIVE_TIMELINE_H

// The charges that the owner of a tree has left in its rings (live/live.h), from there to the
// profile. They are taken out before the nodes of the tree are read: then all nodes that they name
// are known afterwards. Nothing there is believed.

#include "live/live.h"
#include <stdbool.h>
#include <stddef.h>

struct live_timeline_told {
    ref_t ring;             // the one that has the next entry
    ref_t late;             // head of the list as it was
    uint64_t next;          // number of the next entry
    uint64_t unheld;        // as it was
    struct live_timed *new; // taken out, and not written yet; capacity as profile_grow() has it
    size_t count;
    uint64_t lost; // since the last one was written
    bool damaged;  // contradicts itself: not read any more
};

// Takes out what is new. bytes: of the slice that may be touched.
void live_timeline_take(struct live_timeline_told *told, const struct arena *arena, uint64_t bytes,
                        const struct live_timeline *timeline);

void live_timeline_free(struct live_timeline_told *told);

#endif
