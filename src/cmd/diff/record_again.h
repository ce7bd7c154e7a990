// SPDX-License-Identifier: MIT
#ifndef CAIRN_CMD_DIFF_RECORD_AGAIN_H
#define CAIRN_CMD_DIFF_RECORD_AGAIN_H

// Records a command as another profile was recorded: its events, tracker and tree.

#include "profile/profile.h"

struct new_recording {
    char *path;
    char *folder; // temporary; NULL: the user has named a file
};

// 0, or the exit status after a message to the user: a command that fails has no profile that could
// be compared.
int record_again(struct new_recording *recording, const struct profile *base, char **command,
                 const char *output);
// Removes what is temporary.
void new_recording_free(struct new_recording *recording);

#endif
