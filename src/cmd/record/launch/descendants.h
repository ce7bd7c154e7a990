// SPDX-License-Identifier: MIT
#ifndef CAIRN_CMD_RECORD_LAUNCH_DESCENDANTS_H
#define CAIRN_CMD_RECORD_LAUNCH_DESCENDANTS_H

#include <stdbool.h>
#include <sys/types.h>

// True if a process that descends from the command runs, registered in the shared memory or not
// yet: one that was forked a moment ago, or is loading another program. They are known by the
// session's path in the environment that they were started with.
bool descendants_run(pid_t command, const char *session_path);

// Whether a process is the ancestor, its child, or a child's child. False if it is gone.
bool descends_from(pid_t pid, pid_t ancestor);

#endif
