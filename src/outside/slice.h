// SPDX-License-Identifier: MIT
#ifndef CAIRN_OUTSIDE_SLICE_H
#define CAIRN_OUTSIDE_SLICE_H

// A process in the shared memory of a recording (live/live.h), written by the tool as the agent
// would write it. So the recorder reads it as it reads all others.

#include "live/live.h"
#include "outside/foreign_walk.h"

struct outside_memory {
    int fd;
    struct live_session *session;
    uint64_t slice_bytes, slices; // that there is room for
};

struct slice {
    struct arena arena;
    struct live_process *process; // NULL: none
    uint64_t bytes;
    uint8_t *published; // by module: its record is there
};

struct slice_owner {
    uint32_t pid, parent_pid;
    bool forked, exclude_kernel;
    const char *command; // words that end with a zero each
    size_t command_bytes;
};

// False: there is no room.
bool slice_open(struct slice *slice, const struct outside_memory *memory,
                const struct slice_owner *owner);

// The process, or its program, has ended.
void slice_close(struct slice *slice);

// A thread that shares its tree with others of its kind. `start`: 0 for the main thread.
struct live_thread *slice_thread(struct slice *slice, const struct outside_memory *memory,
                                 const struct live_thread *like);

// Makes the file known that places may be in; `base`: where it lies in the process.
void slice_publish(struct slice *slice, const struct mirror *mirror, uint64_t base);

// Charges the end of a path, below its frames and those of the kernel (addresses, youngest first).
void slice_charge(struct slice *slice, struct live_thread *thread, const struct foreign_path *path,
                  uint64_t weight);

// Time that no sample came for.
void slice_settle(struct slice *slice, struct live_thread *thread, uint64_t rest);

#endif
