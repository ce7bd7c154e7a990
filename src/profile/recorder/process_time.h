// SPDX-License-Identifier: MIT
#ifndef CAIRN_PROFILE_RECORDER_PROCESS_TIME_H
#define CAIRN_PROFILE_RECORDER_PROCESS_TIME_H

// CPU time of a process when its agent cannot sample: before the agent starts, and after the last
// instruction. The kernel knows the sums. Of the start-up of the command, the tool has samples of
// its own (outside/startup_sampler.h). Each sum becomes a tree that no thread has grown:
//
//   root ── <start-up> ─┬─ statement             what no sample tells
//                       ├─ [kernel] ─ statement
//                       └─ frame in ld.so, of a function that is not known
//                             ├─ statement       an instruction that was sampled
//                             └─ ...

#include "profile/recorder/live_reader.h"

struct process_time {
    uint32_t process, pid; // its index in the profile
    place_t what;          // PLACE_STARTUP or PLACE_EXIT
    uint64_t ns;
    // Instructions, one for each so many nanoseconds, of the profile's modules;
    // PLACE_STARTUP_KERNEL, or 0: not known. Will be sorted.
    place_t *samples;
    size_t count;
    uint64_t period_ns;
};

void process_time_encode(struct process_time *time, struct live_sink *sink);

#endif
