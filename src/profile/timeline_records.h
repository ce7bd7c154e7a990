// SPDX-License-Identifier: MIT
#ifndef CAIRN_PROFILE_TIMELINE_RECORDS_H
#define CAIRN_PROFILE_TIMELINE_RECORDS_H

// The chunk that has the timeline in a file.

#include "profile/loader.h"
#include "profile/timeline.h"
#include "profile/write_records.h"

// Charges of a tree, and how many are missing before them. Their metrics are 0 or 1: indices in
// profile_timeline.metrics.
void timeline_put(struct batch *batch, uint32_t tree, const struct timeline_charge *charges,
                  size_t count, uint64_t lost);

// Into the file: that there is a timeline, and the charges of a tree of a whole profile.
void timeline_put_start(struct batch *batch, const struct profile_timeline *timeline);
void timeline_put_tree(struct batch *batch, uint32_t index, const struct profile_tree *tree);

// Takes one record in. False: it makes no sense, or memory is out.
bool timeline_take(struct loader *loader, struct cursor *cursor);

// The tree's nodes are others from now on: its charges are lost.
void timeline_drop(struct profile_tree *tree);

#endif
