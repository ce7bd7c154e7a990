// SPDX-License-Identifier: MIT
#ifndef CAIRN_CMD_RECORD_FROM_OUTSIDE_H
#define CAIRN_CMD_RECORD_FROM_OUTSIDE_H

// Programs that the agent cannot enter are sampled from outside (src/outside), where that is
// possible: what is asked for must be CPU time by paths, and the kernel must permit it.

#include "cmd/record/options/record_options.h"
#include "cmd/record/session.h"
#include "outside/outside.h"

// Whether this can be had from outside. False: *why says what cannot.
bool from_outside_fits(const struct record_options *options, const char **why);

// Whether a process may be sampled; 0: the command that is to be started; OUTSIDE_EVERYTHING: the
// machine. False: `why` says why not, and how it could be.
struct from_outside_refusal {
    char text[600];
};
bool from_outside_permitted(pid_t pid, struct from_outside_refusal *why);

// The same for a process, with both answers. 0, or the exit status after a message: `refusal` says
// why the agent cannot enter.
int from_outside_check(const struct record_options *options, const char *refusal, pid_t pid);

// The same for the whole machine.
int from_outside_check_all(const struct record_options *options);

// Starts with processes that run already: those of -p that the agent has not entered, or all. 0, or
// -errno.
int from_outside_add(struct outside *outside, const struct record_options *options);

// NULL: no memory.
struct outside *from_outside_open(const struct record_options *options,
                                  const struct session *session);

// A note about the limits of such samples. To be freed.
char *from_outside_note(const struct outside *outside);

#endif
