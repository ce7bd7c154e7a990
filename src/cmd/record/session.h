// SPDX-License-Identifier: MIT
#ifndef CAIRN_CMD_RECORD_SESSION_H
#define CAIRN_CMD_RECORD_SESSION_H

// The tool's end of the shared memory (live/live.h): made before the command starts, and named to
// the agent as /proc/PID/fd/N, so that the command itself inherits no descriptor of ours.

#include "cmd/record/options/record_options.h"
#include "live/live.h"
#include <sys/types.h>

// The part of a memory limit of the control group that all trees together may take. The recorder,
// which is in the group as well, needs up to five times as much, and the rest is the program's.
#define SESSION_GROUP_PART 16

struct session {
    int fd;
    struct live_session *shared; // page 0
    char path[64];
    bool shared_by_name;
    char kernel[256];     // the kernel's state (struct profile); "": none
    char note[160];       // a note for the user about its memory; "": none
    uint64_t slice_bytes; // as in the shared page, which the program may overwrite
    uint64_t slices;      // that the memory has room for
};

// 0, or -errno.
int session_create(struct session *session, const struct record_options *options,
                   const char *agent_path);

// Puts the memory where processes of another user can open it; unshare takes the name away again.
// 0 or -errno.
int session_share(struct session *session, uid_t owner);
void session_unshare(const struct session *session);

void session_set_recording(struct session *session, bool recording);

// How the processes of the session are sampled, as far as they have said so by now.
struct session_sources {
    bool by[LIVE_SOURCE_OUTSIDE + 1]; // by enum live_source
    bool exclude_kernel;              // somewhere, at least
    uint64_t next;                    // the first slice that was not read yet
};

// Processes that found no room in the shared memory.
uint64_t session_refused(const struct session *session);

void session_read_sources(const struct session *session, struct session_sources *sources);

#endif
