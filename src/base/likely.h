// SPDX-License-Identifier: MIT
#ifndef CAIRN_BASE_LIKELY_H
#define CAIRN_BASE_LIKELY_H

// After a millisecond of some program the code of a sample is in no near cache, and each line of it
// is waited for: what a sample seldom runs through shall not lie between what it does.
#define LIKELY(condition) __builtin_expect(!!(condition), 1)
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)

#endif
