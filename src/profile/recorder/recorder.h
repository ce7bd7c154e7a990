// SPDX-License-Identifier: MIT
#ifndef CAIRN_PROFILE_RECORDER_RECORDER_H
#define CAIRN_PROFILE_RECORDER_RECORDER_H

// The tool's side of a recording: reads the live memory (live/live.h) and appends what is new to
// the profile.

#include "live/live.h"
#include "profile/profile.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct recorder;

struct recorder_event {
    const char *name, *unit;
    uint64_t period;
    double rate_requested;
    bool is_counter; // one of the session's counters: the next one
};

struct recorder_description {
    const char *path;     // the profile
    char *const *command; // argv
    // In the order that the profile shall have them. The options of the session say where they lie
    // in a node.
    struct recorder_event events[LIVE_EVENTS + LIVE_COUNTERS];
    unsigned event_count;
    // Of the tracker "calls" the frames have a metric of their own, "calls", besides the events' if
    // those are others.
    const char *tracker, *tree_kind;
};

// The metrics of the event "alloc" with full trees.
enum alloc_metric {
    ALLOC_BYTES,
    ALLOC_BLOCKS,
    ALLOC_FREED, // where it was allocated
    ALLOC_FREES,
    ALLOC_LIVE, // and at the end
    ALLOC_LIVE_BLOCKS,
    ALLOC_PEAK, // live at the peak of the process
    ALLOC_PEAK_BLOCKS,
    ALLOC_LIVE_AGE,  // of live bytes
    ALLOC_TEMPORARY, // of ALLOC_FREES: at once, by the thread that allocated them
    ALLOC_MAPPED,    // by the program itself
    ALLOC_UNMAPPED,
    ALLOC_VARIANCE, // of ALLOC_BLOCKS, where blocks are sampled
    ALLOC_METRICS,
};

// The numbers of a status line: sums over all processes.
struct recorder_totals {
    uint64_t samples, lost, unplaced;
    uint64_t cost_ns;
    uint64_t complete, guessed, truncated; // walks
    uint64_t handler_ns;
    uint64_t sparse, switches, hook_ns; // as in struct live_stats
    uint64_t nodes, tree_bytes;
    uint64_t frames;                    // of the nodes: contexts
    uint64_t calls;                     // that were followed
    uint64_t blocks, block_bytes;       // allocated, in full trees
    uint64_t blocks_variance;           // where they are sampled
    uint64_t live_bytes, peak_bytes;    // of that; of the process with the highest peak
    uint64_t unheld;                    // blocks that may have been freed, or not
    uint64_t io[LIVE_LOCK_VALUES];      // enum live_io_value, in full trees
    uint64_t lock[LIVE_LOCK_VALUES];    // the same of locks
    uint64_t offcpu[LIVE_LOCK_VALUES];  // and of waits
    unsigned forgetting;                // full trees whose memory was used up
    unsigned processes, live_processes; // live: not ended, and its pid still exists
    unsigned threads;
};

// Starts a profile; the file is made (never overwriting anything that is not a cairn profile) and
// has its head at once. session maps page 0 of the memory file fd. NULL and *error: one line, to be
// freed.
struct recorder *recorder_open(const struct recorder_description *description, int fd,
                               struct live_session *session, char **error);

// Samples of a process before its agent began: the addresses of instructions, one for each period
// of CPU time. 0: in the kernel. To be freed.
struct startup_samples {
    uint64_t *addresses;
    size_t count;
    uint64_t period_ns;
};

// From where to get them, when the agent has begun. False: there are none of that process.
void recorder_startup(struct recorder *recorder,
                      bool (*startup)(void *context, uint32_t pid, struct startup_samples *samples),
                      void *context);

// Reads what has changed and appends it in one write. Cheap when nothing did. 0 or -errno.
int recorder_update(struct recorder *recorder);

// The command, whose pid is known to the recorder by its slice, has ended: its CPU time, with that
// of children that it waited for.
void recorder_command_ended(struct recorder *recorder, uint32_t pid, uint64_t cpu_ns);

void recorder_totals(const struct recorder *recorder, struct recorder_totals *totals);
void recorder_note(struct recorder *recorder, const char *text); // a warning to keep in the profile
const char *recorder_noted(const struct recorder *recorder, unsigned index); // NULL: no more

// The state of the kernel's recording, to keep in the profile (struct profile).
void recorder_kernel(struct recorder *recorder, const char *kernel);

// The cost of sampling on this machine, to keep in the profile.
void recorder_overhead(struct recorder *recorder, const struct profile_overhead *overhead);

// The last update, then the file is rewritten compactly, unless it is compact, and marked complete.
// 0 or -errno.
int recorder_close(struct recorder *recorder);

#endif
