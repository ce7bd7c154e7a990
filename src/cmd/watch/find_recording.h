// SPDX-License-Identifier: MIT
#ifndef CAIRN_CMD_WATCH_FIND_RECORDING_H
#define CAIRN_CMD_WATCH_FIND_RECORDING_H

#include <sys/types.h>

// The profile that a process is being recorded into, or that is written by it: a recorded process
// or a 'cairn record'. Allocated; NULL: no recording of it can be seen.
char *find_recording(pid_t pid);

#endif
