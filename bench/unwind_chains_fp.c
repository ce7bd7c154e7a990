// SPDX-License-Identifier: MIT
#pragma GCC optimize("no-omit-frame-pointer")
#define CHAINS_NAME chains_frame_pointer
#include "unwind_chains.h"
