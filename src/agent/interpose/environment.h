// SPDX-License-Identifier: MIT
#ifndef CAIRN_AGENT_INTERPOSE_ENVIRONMENT_H
#define CAIRN_AGENT_INTERPOSE_ENVIRONMENT_H

// The program does not see the variables that brought the agent in; the programs that it starts get
// them again.

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The path of the session's memory file into path (room for `bytes`), and what an old image of this
// process says to have charged, and of limits (limits.h; NULL: nothing). False if there is no
// session.
bool environment_session(char *const *environment, char *path, size_t bytes, uint64_t *charged,
                         const char **limits);

// Whether a program is given to another recording: `cairn record` under `cairn record`.
bool environment_is_of_another(char *const *environment);

// Under valgrind, which runs the program in a processor of its own.
bool environment_is_emulated(char *const *environment);

// Removes our variables and our part of LD_PRELOAD, in place.
void environment_hide(char **environment, const char *agent_path);

// Entries that environment_show() needs beyond those of the given environment, its terminating NULL
// included.
#define ENVIRONMENT_EXTRA 5

size_t environment_count(char *const *environment);

// Fills `shown` (room for environment_count() + ENVIRONMENT_EXTRA) with the environment and our
// variables. The new strings are written to text (room for ENVIRONMENT_TEXT bytes plus the length
// of the present LD_PRELOAD).
#define ENVIRONMENT_TEXT 2048
// `charged`: up to which point of its CPU clock the new image's thread was charged by the old one.
void environment_show(char *const *environment, const char **shown, char *text, uint64_t charged);

// The length of LD_PRELOAD's value in the environment.
size_t environment_preload_length(char *const *environment);

#endif
