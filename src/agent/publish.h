// SPDX-License-Identifier: MIT
#ifndef CAIRN_AGENT_PUBLISH_H
#define CAIRN_AGENT_PUBLISH_H

// Records in the process' slice for the recorder: its command, its modules, and notes for the user
// (agent_note()).

#include "live/live.h"
#include "loadmap/loadmap.h"

void publish_command(int argc, char **argv);
void publish_running_command(void);                  // of a process that runs already
void publish_module(const struct module_info *info); // for loadmap_start()

// The program has an unwinder of its own: a note, if the tracker has something to say about it.
void publish_unwinder_note(void);

// The command and modules of an earlier slice of this process, or of its parent's.
void publish_copy(const struct live_process *from, const struct arena *arena);

#endif
