// SPDX-License-Identifier: MIT
#ifndef CAIRN_CMD_RECORD_ATTACHED_H
#define CAIRN_CMD_RECORD_ATTACHED_H

// The processes of `cairn record -p`: the agent comes into them when the recording begins, and
// leaves them when it ends.

#include "cmd/record/options/record_options.h"
#include "cmd/record/session.h"

// Whether all of them can be recorded. Those that the agent can enter come first afterwards. 0, or
// the exit status after a message.
int attached_check(struct record_options *options, const char *agent_path);

// The command line of the first one, or words for the machine, as a vector; NULL: no memory.
char **attached_command(const struct record_options *options);

// Makes it known to them when this process dies, and that they can open the memory. 0, or the exit
// status after a message.
int attached_prepare(const struct record_options *options, struct session *session);

// Begins in all of them. 0, or the exit status after a message; then it has begun in none.
int attached_begin(const struct record_options *options, const struct session *session);

// Whether one of them still runs.
bool attached_run(const struct record_options *options);

// Leaves them, and the processes that they have forked.
void attached_leave(const struct record_options *options, const struct session *session);

// The same without the session, whose process has died.
void attached_leave_given(const struct record_options *options, const char *agent_path);

#endif
