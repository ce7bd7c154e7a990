// SPDX-License-Identifier: MIT
#ifndef CAIRN_CMD_RECORD_LAUNCH_SIGNALS_H
#define CAIRN_CMD_RECORD_LAUNCH_SIGNALS_H

// Signals that a process sends to `cairn record` are meant for the command, and passed on to it:
// the front writes them to a pipe for the recorder, and the recorder sends them to the command. The
// command gets those that the kernel sends, as for a key on the terminal, by itself, and so those
// that are sent to the whole process group. These come to the recorder, too, which has no other
// sender. The kernel begins with the youngest process: when the front passes such a signal on, the
// recorder has it.

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

// The sender of each signal that came to the process group: pid + 1, until the front passes it on.
struct group_signals {
    pid_t sender[_NSIG];
};

// The recorder has got this signal itself.
void signals_note_group(struct group_signals *group, const struct signalfd_siginfo *info);
// Whether it has got the signal that the front passes on.
bool signals_came_to_group(struct group_signals *group, const struct signalfd_siginfo *info);

#endif
