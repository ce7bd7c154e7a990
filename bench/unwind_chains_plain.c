// SPDX-License-Identifier: MIT
#pragma GCC optimize("omit-frame-pointer")
#define CHAINS_NAME chains_plain
#include "unwind_chains.h"
