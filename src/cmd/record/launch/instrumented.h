// SPDX-License-Identifier: MIT
#ifndef CAIRN_CMD_RECORD_LAUNCH_INSTRUMENTED_H
#define CAIRN_CMD_RECORD_LAUNCH_INSTRUMENTED_H

// How the calls of a program can be followed.

#include "cmd/record/options/record_options.h"

// Looks at the program and the libraries that it is linked with: those that were built for it are
// followed by their entries, all others by their call sites (options->calls_by). Scripts pass: only
// the programs that they start matter. 0, or the exit status after a message to the user.
int choose_calls(const char *path, struct record_options *options);

// Whether the kernel lets a process rewrite its own code. NULL, or why not.
const char *why_sites_cannot_be_patched(void);

#endif
