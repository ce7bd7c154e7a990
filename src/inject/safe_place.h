// SPDX-License-Identifier: MIT
#ifndef CAIRN_INJECT_SAFE_PLACE_H
#define CAIRN_INJECT_SAFE_PLACE_H

// Where a thread can be made to call the loader: neither the loader nor an allocator is at work in
// it, for they are not to be entered twice, and nothing that holds their locks (fork).

#include "inject/stopped.h"

struct safe_place;

// All that is mapped in the process. NULL: no memory.
struct safe_place *safe_place_open(pid_t pid);
void safe_place_close(struct safe_place *place);

enum safety {
    PLACE_SAFE,
    PLACE_UNSAFE,
    PLACE_UNKNOWN, // its stack cannot be read to the end, as of generated code
};

enum safety safe_place_judge(struct safe_place *place, const struct stopped *stopped);

#endif
