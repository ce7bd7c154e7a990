// SPDX-License-Identifier: MIT
#ifndef CAIRN_OUTSIDE_STARTUP_SAMPLER_H
#define CAIRN_OUTSIDE_STARTUP_SAMPLER_H

// Samples of the command before the agent is in it: the kernel's exec, the loader's relocations.
//
//   command's process                          recorder
//   opens an event on itself, from exec on ──► maps its buffer
//   goes on  ◄────────────────────────────────
//   exec, loader (sampled), agent: disables     reads the buffer when the agent has begun
//
// The event is the process' own, so the agent can end it without a descriptor, and the kernel asks
// for no other rights than those that the agent's own events need. Where it forbids them, there are
// no samples.

#include "profile/recorder/recorder.h"
#include <sys/types.h>

struct startup_sampler {
    pid_t pid;
    int event; // -1: none
    void *buffer;
};

// In the process that is to become the command. `channel` is one end of a pair of sockets.
void startup_sampler_offer(int channel);

// In the recorder, with the other end.
void startup_sampler_take(struct startup_sampler *sampler, pid_t pid, int channel);

// All samples there are, and the end of them. For recorder_startup().
bool startup_sampler_read(void *sampler, uint32_t pid, struct startup_samples *samples);

// Without a look at them: the agent does not come.
void startup_sampler_close(struct startup_sampler *sampler);

#endif
