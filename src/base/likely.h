// SPDX-License-Identifier: MIT
#ifndef CAIRN_BASE_LIKELY_H
#define CAIRN_BASE_LIKELY_H

// After a millisecond of some program, the code of a sample is in no near cache, and a sample waits
// for each line of it. So code that a sample seldom runs must not lie between the lines that it
// needs.
#define LIKELY(condition) __builtin_expect(!!(condition), 1)
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)

#endif
