// SPDX-License-Identifier: MIT
#ifndef CAIRN_CMD_CONTINUOUS_DELIVER_H
#define CAIRN_CMD_CONTINUOUS_DELIVER_H

// One round of work on intervals, in a process of its own.

#include "cmd/continuous/destination.h"
#include <stdatomic.h>

// Shared with the recorder, which reads it after that process has ended.
struct delivery_result {
    bool made, is_empty, is_full; // the interval: written; nothing in it; no room
    unsigned delivered, refused;
    bool failed; // to write, or to deliver
    char reason[HTTP_REASON_BYTES];
};

struct delivery_round {
    const struct interval_destination *destination;
    const char *folder; // see continuous.h
    unsigned number;    // of the interval that latest.out ends; 0: none does
    bool may_deliver;
};

// The bounds of the folder where intervals wait.
enum { MOST_WAITING = 1000, MOST_WAITING_BYTES = 64 << 20 };

// How much waits in a folder.
void waiting_count(const char *folder, uint64_t *files, uint64_t *bytes);

void delivery_work(const struct delivery_round *round, struct delivery_result *result);

#endif
