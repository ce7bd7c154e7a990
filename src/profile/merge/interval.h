// SPDX-License-Identifier: MIT
#ifndef CAIRN_PROFILE_MERGE_INTERVAL_H
#define CAIRN_PROFILE_MERGE_INTERVAL_H

// The part of a recording between two readings of its profile.
//
// Trees are added up by program and threads, as in a merge, so that it does not matter which
// processes have been folded together in between. Costs of the interval add up to the difference of
// the costs of both profiles: what trees that forget have counted, and cannot say where, lies in a
// statement below the root.
//
//     before            now                 interval
//     a ── b 10         a ── b 10           a ── c 4
//                       └─── c 4            (b has gained nothing)

#include "profile/profile.h"

// NULL and one line in *error, to be freed. Of both profiles only the lists stay as they are: their
// values change. before is NULL for the first interval.
struct profile *profile_interval(struct profile *before, struct profile *now, char **error);

#endif
