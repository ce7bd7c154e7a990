// SPDX-License-Identifier: MIT
#ifndef CAIRN_CMD_RECORD_STATUS_H
#define CAIRN_CMD_RECORD_STATUS_H

// The closing summary of `cairn record`, on stderr. While it runs, the terminal is the program's:
// cairn cannot see what the program writes there, and would write into its lines.

#include "cmd/continuous/continuous.h"
#include "cmd/record/options/record_options.h"
#include "cmd/record/session.h"
#include "profile/recorder/recorder.h"

enum { SUMMARY_NOTES = 3 };

struct recording_summary {
    struct recorder_totals totals;
    struct session_sources sources;
    uint64_t elapsed_ns;
    uint64_t cpu_ns; // that the command used by the kernel's books
    uint64_t file_bytes;
    struct profile_overhead overhead;
    unsigned running;               // processes that go on after the command has ended
    uint64_t refused;               // processes that found no room in the shared memory
    char *notes[SUMMARY_NOTES + 1]; // the first of the agent's, NULL at the end,
    unsigned more_notes;            // and how many follow
    bool started;                   // false: the command ended within --delay
    const char *incomplete;         // why the profile is, or NULL
    uint64_t written_ns;            // of the time elapsed: the part in such a profile,
    bool is_elsewhere;              // if it can be found at all
    bool has_intervals;
    struct continuous_totals intervals; // of --every
};

void print_summary(const struct record_options *options, const struct recording_summary *summary);

// One line of advice about how samples were taken, or NULL if all is as asked for. To be freed.
char *source_advice(const struct record_options *options, const struct recording_summary *summary);

// One line if much of the CPU time was spent where the agent was not, or NULL. To be freed.
char *unseen_advice(const struct record_options *options, const struct recording_summary *summary);

// One line if processes were not recorded for lack of room, or NULL. To be freed.
char *refused_advice(const struct record_options *options, const struct recording_summary *summary);

#endif
