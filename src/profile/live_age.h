// SPDX-License-Identifier: MIT
#ifndef CAIRN_PROFILE_LIVE_AGE_H
#define CAIRN_PROFILE_LIVE_AGE_H

// The age of live blocks. Statements whose blocks do not change are not written again while time
// passes. So a recording has births (PROFILE_BIRTHS), and a reader makes ages of them
// (PROFILE_AGES), which can be added up: also those of several recordings.

#include "profile/profile.h"

// Where a profile has births, up to its duration.
void profile_find_ages(struct profile *profile);

#endif
