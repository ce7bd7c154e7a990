// SPDX-License-Identifier: MIT
#ifndef CAIRN_CMD_WATCH_TEMPORARY_RECORDING_H
#define CAIRN_CMD_WATCH_TEMPORARY_RECORDING_H

// A recording of processes that run already, into a profile that is there for this tool alone.
//
//   tool ──── guard ──── cairn record -p PID ── ...
//     pipe: wishes │ └ outcome
//
// The guard is in a session of its own, and outlives the tool, however that ends: it ends the
// recording, so that the processes are left as they were, and removes the profile.

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

struct temporary_recording {
    pid_t guard;
    int wishes;   // written to: the recording is to end; closed: the profile is not needed any more
    int outcome;  // the recording's exit status can be read from it once it has ended
    int messages; // what the recording said
    bool ended;
    int status; // when it has ended
    char folder[PATH_MAX], path[PATH_MAX + 16];
};

// Begins `cairn record -q -o PATH WORDS...`; the words end with NULL. `command` is who asks. 0, or
// the exit status after a message.
int temporary_recording_begin(struct temporary_recording *recording, const char *command,
                              char *const *words);

// Waits until this process is recorded, or was. 0, or the exit status after the recording's own
// message.
int temporary_recording_wait_for_begin(struct temporary_recording *recording, pid_t pid);

// Waits until the recording has ended; SIGINT ends it. 0, or the exit status after its message.
int temporary_recording_wait_for_end(struct temporary_recording *recording);

// Ends the recording, if it runs, and removes the profile.
void temporary_recording_end(struct temporary_recording *recording);

#endif
