// SPDX-License-Identifier: MIT
#ifndef CAIRN_CMD_EVENTS_COUNTER_PARSE_H
#define CAIRN_CMD_EVENTS_COUNTER_PARSE_H

// From what stands after -e to a counter. These are tried in turn:
//
//   page-faults, cycles       the table of names (counter_names.h), and names of caches
//   r01c2                     a raw code of the processor
//   cpu/event=0x3c,umask=1/   what the kernel knows of a unit: /sys/bus/event_source/devices
//   INST_RETIRED:ANY_P        a name of the processor's maker, where cairn was built with libpfm4
//
// Each may end in :N, the period.

#include "live/live.h"

#define COUNTER_NAME_BYTES 64

struct counter_choice {
    char name[COUNTER_NAME_BYTES]; // without the period; that of the metric
    const char *unit;
    struct live_counter counter; // period 0: none was given
};

enum counter_answer {
    COUNTER_FOUND,
    COUNTER_UNKNOWN, // no name of a counter
    COUNTER_WRONG,   // it is one, but not a valid one: *error says why, to be freed
};
enum counter_answer counter_parse(const char *text, struct counter_choice *choice, char **error);

#endif
