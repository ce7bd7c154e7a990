// SPDX-License-Identifier: MIT
#ifndef CAIRN_CMD_RECORD_SIGNALS_H
#define CAIRN_CMD_RECORD_SIGNALS_H

// Signals that a process sends to `cairn record` are meant for the command, and passed on to it: by
// the front to the recorder, and by the recorder to the command. Those that the kernel sends, as
// for a key on the terminal, the command gets, too.

#include <signal.h>
#include <stdbool.h>
#include <sys/signalfd.h>
#include <sys/types.h>

// All that can be waited for, but those that stop and continue a job: for these the processes are
// one.
void signals_fill(sigset_t *watched);

// The next signal from a signalfd that is SIGCHLD, or is to be passed on to `child`. Signals from
// there are not sent back: a program may signal its whole process group. False: none is left.
bool signals_next(int signals, pid_t child, struct signalfd_siginfo *info);

void signals_pass_on(pid_t child, const struct signalfd_siginfo *info);

#endif
