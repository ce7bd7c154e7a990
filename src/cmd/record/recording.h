// SPDX-License-Identifier: MIT
#ifndef CAIRN_CMD_RECORD_RECORDING_H
#define CAIRN_CMD_RECORD_RECORDING_H

// The recorder process of `cairn record`: from the shared memory to the finished profile.

#include "cmd/record/launch.h"
#include "cmd/record/record_options.h"

// Set in the status that is written to `outcome` when the recorder stays for processes that go on.
#define RECORDING_GOES_ON 256

// Records the command. Writes its exit status (or our own) as an int to `outcome` once it is known
// and all messages are printed; returns when the profile is complete. `signals` is a signalfd; by
// `passed`, the front hands its signals on.
void run_recording(const struct record_options *options, const struct launch *launch,
                   const struct inherited *inherited, int signals, int passed, int outcome);

#endif
