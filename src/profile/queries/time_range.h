// SPDX-License-Identifier: MIT
#ifndef CAIRN_PROFILE_QUERIES_TIME_RANGE_H
#define CAIRN_PROFILE_QUERIES_TIME_RANGE_H

// A part of a recording, by time: what lies outside of it is taken out of a profile, as if it had
// not been recorded. Takes a timeline.

#include "profile/profile.h"

// From the first time on, up to the second one, which is not part of it. A charge counts when it
// was made: most of what it stands for lies before that.
struct time_range {
    uint64_t from_ns, to_ns; // since the recording began
};

// When the cost of a tree without threads counts: start-ups when their process begins, exits when
// it ends.
uint64_t time_range_outside(const struct profile *profile, const struct profile_tree *tree);

// Leaves the costs of the range, the contexts that they lie in, and all threads and processes.
// Numbers that are known of the whole alone (walks, handlers, returns, the timeline itself) are
// gone. 0 or -ENOMEM.
int profile_keep_range(struct profile *profile, const struct time_range *range);

#endif
