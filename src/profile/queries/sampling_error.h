// SPDX-License-Identifier: MIT
#ifndef CAIRN_PROFILE_QUERIES_SAMPLING_ERROR_H
#define CAIRN_PROFILE_QUERIES_SAMPLING_ERROR_H

// How far the estimates of sampled blocks (-e alloc:BYTES) may be off, by chance. An estimate is a
// sum over sampled blocks, and so is its variance (event/byte_sampler.h): of a number of blocks, it
// is a metric of its own. Of a number of bytes, it is the period times the estimate: a little more
// than the truth where blocks are as large as the period.

#include "profile/profile.h"

// Whether the metric is such an estimate.
bool profile_is_estimated(const struct profile *profile, unsigned metric);

// The value of the metric is off by less than this in 95 of 100 recordings. `values` are a sum over
// any nodes, for all metrics of the profile. 0: it is no estimate, or nothing is known.
double profile_sampling_error(const struct profile *profile, unsigned metric,
                              const uint64_t *values);

// The same by an estimate and its variance.
double sampling_error(double estimate, double variance);

// How much a sample stands for in this metric, on average; 0: it is no estimate.
double profile_sample_weight(const struct profile *profile, unsigned metric);

// The sum of a metric over all trees.
uint64_t profile_sum_metric(const struct profile *profile, unsigned metric);

#endif
