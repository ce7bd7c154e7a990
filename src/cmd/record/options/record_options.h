// SPDX-License-Identifier: MIT
#ifndef CAIRN_CMD_RECORD_OPTIONS_RECORD_OPTIONS_H
#define CAIRN_CMD_RECORD_OPTIONS_RECORD_OPTIONS_H

// The options of `cairn record`.

#include "cmd/continuous/continuous.h"
#include "cmd/events/counter_parse.h"
#include "cmd/line/options.h"
#include "cmd/record/options/tree_options.h"
#include "live/live.h"
#include <stdint.h>
#include <sys/types.h>

struct record_options {
    // In the order of the command line; each counter is one, in the order of `counters`.
    enum live_event events[LIVE_EVENTS + LIVE_COUNTERS];
    unsigned event_count;
    enum live_io_part io_part;
    struct counter_choice counters[LIVE_COUNTERS];
    unsigned counter_count;
    enum live_event event; // of these: a clock, if there is one
    const char *event_name;
    uint32_t also; // the others, a bit for each
    enum live_source source;
    enum live_tracker tracker;
    enum live_trigger trigger; // samples at every call_period-th call
    uint64_t call_period;
    uint64_t alloc_period; // of bytes; 0: every block is counted
    bool weights_all_new, randomised, fold_recursion;
    uint64_t burst_interval_ns, burst_length_ns; // 0: calls are followed all the time
    uint32_t burst_one_in;
    bool calls_window; // calls are followed after the delay, for the duration
    enum live_by calls_by;
    bool calls_by_given; // else the program decides
    enum live_by encode_by;
    bool encode_by_given;
    uint64_t period_ns;
    const char *output;
    uint64_t memory; // bytes a process may use for its trees
    struct tree_options_given trees;
    uint64_t delay_ns;
    uint64_t duration_ns; // 0: to the end
    struct continuous_options continuous;
    bool marker, per_thread, follow_fork, kernel;
    bool quiet, json;
    bool timeline;
    bool format_given; // of intervals
    bool strict;       // a profile that is not complete is a failure
    bool empty_handler, verify;
    bool reencode_always; // encodings change all the time
    char **command;
    pid_t *pids; // that run already; NULL: the command is started
    unsigned pid_count;
    unsigned entered_count; // of these, the first ones: the agent is in them; the rest from outside
    bool everything;        // all processes of the machine, from outside
};

static inline bool record_has(const struct record_options *options, enum live_event event)
{
    for (unsigned i = 0; i < options->event_count; i++)
        if (options->events[i] == event)
            return true;
    return false;
}

// The counter that one of the events is; NULL: it is none.
static inline const struct counter_choice *record_counter(const struct record_options *options,
                                                          unsigned event)
{
    unsigned before = 0;
    for (unsigned i = 0; i < event; i++)
        before += options->events[i] == LIVE_EVENT_COUNTER;
    return options->events[event] == LIVE_EVENT_COUNTER ? &options->counters[before] : NULL;
}

// The name of one of the events, which its metric has too.
const char *record_event_name(const struct record_options *options, unsigned event);

extern const char record_usage[], record_help[], record_notes[];
extern const struct option_row record_rows[];

// PROCEED, or the exit status after a message to the user (help and misuse).
int parse_record_options(int argc, char **argv, struct record_options *options);

#endif
