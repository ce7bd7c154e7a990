// SPDX-License-Identifier: MIT
#ifndef CAIRN_CMD_RECORD_RECORDING_H
#define CAIRN_CMD_RECORD_RECORDING_H

// The recorder process of `cairn record`: from the shared memory to the finished profile.

#include "cmd/record/launch/launch.h"
#include "cmd/record/options/record_options.h"

// Set in the status that is written to `outcome` when the recorder stays for processes that go on.
#define RECORDING_GOES_ON 256

// The recorder and the process in front of it are tied by these.
struct recording_ends {
    int signals; // a signalfd
    int passed;  // signals that the front hands on; not blocking
    int outcome; // the command's exit status (or our own), as an int
};

// Records processes that run already, with the agent of that path.
void run_attached_recording(const struct record_options *options, const char *agent_path,
                            const struct recording_ends *ends);

// Records the command. Writes the outcome once it is known and all messages are printed; returns
// when the profile is complete.
void run_recording(const struct record_options *options, const struct launch *launch,
                   const struct inherited *inherited, const struct recording_ends *ends);

#endif
