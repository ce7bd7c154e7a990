// SPDX-License-Identifier: MIT
#ifndef CAIRN_PROFILE_RECORDER_METRICS_H
#define CAIRN_PROFILE_RECORDER_METRICS_H

// The head of a profile by what is to be recorded: its metrics, and where in a node their values
// are.

#include "profile/recorder/live_reader.h"
#include "profile/recorder/recorder.h"

bool description_follows_calls(const struct recorder_description *description);

// In full trees; others count what is allocated alone.
bool description_allocates(const struct recorder_description *description);

// The command, tracker, tree and metrics. False: no memory.
bool metrics_describe(struct profile *head, const struct recorder_description *description,
                      struct live_sink *sink);

// Describes the second value of a node in a hot or bounded tree. It belongs to the metric before
// it.
bool metrics_describe_bound(struct profile *head, const char *word, const char *unit);

#endif
