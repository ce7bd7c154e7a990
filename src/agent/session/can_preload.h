// SPDX-License-Identifier: MIT
#ifndef CAIRN_AGENT_SESSION_CAN_PRELOAD_H
#define CAIRN_AGENT_SESSION_CAN_PRELOAD_H

// Whether a file that is about to be executed can have the agent preloaded. A loader for another
// machine (a 32-bit program's) complains of it on the program's stderr, musl's does not run the
// program at all, and AddressSanitizer gives up if it is not the first library. Unknown files are
// taken to be fine: statically linked programs, too, since programs that they start may be dynamic.
//
// May run in a vfork child: system calls and the stack alone. errno stays.

#include <stdbool.h>

// As execve() finds it, and posix_spawn().
bool preload_takes_agent(const char *path);

// As execveat() does; without a path, the file that is open.
bool preload_at_takes_agent(int directory, const char *path);

// As execvpe() does: in PATH, if the name has no slash.
bool preload_in_path_takes_agent(const char *file);

// Whether the program that the calling process is about to become can open the file, in the present
// root folder: as its real user, and without capabilities, which an ordinary user loses by exec.
// `access`: R_OK, W_OK.
bool preload_can_open(const char *path, int access);

#endif
