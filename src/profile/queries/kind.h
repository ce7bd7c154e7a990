// SPDX-License-Identifier: MIT
#ifndef CAIRN_PROFILE_QUERIES_KIND_H
#define CAIRN_PROFILE_QUERIES_KIND_H

// The kind of a profile's trees, which says what they keep and what they forget: its `tree` text,
// parsed.

#include "live/live.h"
#include "profile/profile.h"

struct profile_kind {
    bool full, hot, bounded, functions; // several of them in merged profiles
    double phi, epsilon;                // of hot trees; the largest, where several were merged
    enum live_miner miner;              // of the last hot tree
    unsigned depth;                     // frames of a sample, in bounded trees
    // A full tree whose memory was used up: some contexts have errors nevertheless.
    bool has_errors;
};

struct profile_kind profile_kind(const struct profile *profile);

// The metric that has the errors of another one: it is called by its name and " error". The number
// of metrics if there is none.
unsigned profile_error_of(const struct profile *profile, unsigned metric);

#endif
