// SPDX-License-Identifier: MIT
#ifndef CAIRN_CMD_RECORD_OPTIONS_EVENT_OPTIONS_H
#define CAIRN_CMD_RECORD_OPTIONS_EVENT_OPTIONS_H

// `cairn record -e` and related options: which event, how often, and when. There may be several
// events.

#include "cmd/record/options/record_options.h"

// A command line, as far as it has been read.
struct parsing {
    struct record_options *options;
    bool frequency_given, period_given, tracker_given, weights_given;
};

// Each: PROCEED, or the exit status after a message to the user.
int set_event(struct parsing *parsing, const char *text);
int set_period(struct parsing *parsing, const char *text);
int set_frequency(struct parsing *parsing, const char *text);
int set_burst(struct record_options *options, const char *text);
int set_weights(struct parsing *parsing, const char *text);

// Whether the events go together, with the tracker and the rest. Which of them the others are
// beside is settled here.
int combine_events(struct parsing *parsing);

#endif
