// SPDX-License-Identifier: MIT
#ifndef CAIRN_ANALYZE_SUMMARY_SAMPLE_WARNING_H
#define CAIRN_ANALYZE_SUMMARY_SAMPLE_WARNING_H

// Shares of a handful of samples look as exact as any others. Their reader needs a warning.

#include "profile/profile.h"

// So few that half of the samples may stand for 40 % or 60 % of the truth.
#define FEW_SAMPLES 100

// One line: how far off shares may be, and what to do about it; to be freed. NULL: they are not
// few, there is none, or the metric is not sampled.
char *sample_warning(const struct profile_metric *metric, uint64_t samples);

#endif
