// SPDX-License-Identifier: MIT
#ifndef CAIRN_PROFILE_RECORDER_RECORDER_STATE_H
#define CAIRN_PROFILE_RECORDER_RECORDER_STATE_H

// The state of a recorder; for recorder.c (the file) and recorder_processes.c (the processes)
// alone.

#include "profile/profile.h"
#include "profile/queries/module_table.h"
#include "profile/recorder/live_reader.h"
#include "profile/recorder/liveness.h"
#include "profile/recorder/recorder.h"
#include "profile/write_records.h"

enum { MOST_NOTES = 100 };

// One process, from when its slice appears until it has been read for the last time.
struct recorded_process {
    uint64_t slice;
    struct slice_place place;
    void *memory;
    struct live_reader *reader;
    struct liveness presence;
    uint32_t index; // in the profile
    bool ready;     // has come far enough to be in the profile
    bool ends;      // another program runs under its pid
    bool outside;   // it is sampled from outside: the slice itself says when it has ended
    unsigned waits; // readings that it was kept for, until a process has waited for it
};

// A process that was waited for, by the recorder (no parent) or by another one that is read.
struct reaped {
    uint32_t parent, pid;
    uint64_t cpu_ns;
};

enum { REAPED = 1 << 14 };

struct recorder {
    char *path;
    int file;
    struct profile head; // the content of the session record
    struct batch batch;
    struct live_sink sink;
    struct module_table modules;
    struct recorder_totals totals;
    int memory; // the live memory's descriptor
    ino_t inode;
    struct live_session *session;
    // Copies of the session's fields: the program could overwrite the originals.
    uint64_t slice_bytes;
    bool keeps_trees; // each tree is one of its own in the end, too
    uint64_t slices_seen;
    struct recorded_process *processes; // that are still read
    size_t count;
    unsigned pidfds, unproven;
    uint32_t next_process;
    uint32_t told_source;
    char *notes[MOST_NOTES];
    unsigned note_count;
    uint64_t start_ns, told_ns;
    uint64_t appended, compact_size; // bytes of the file
    unsigned ended;                  // processes since the last compaction
    struct reaped reaped[REAPED];    // by pid, the last ones; pid 0: none, or taken
    unsigned tellings;               // updates that had news of a tree
    int given_up;                    // -errno for which nothing more is written
};

enum reading { READ_ON, READ_LAST };

// Takes in the slices that were handed out since the last time. 0 or -errno.
int recorder_find_slices(struct recorder *recorder);

// Reads every process and lets go of those that are over. True if anything was new.
bool recorder_read_processes(struct recorder *recorder, enum reading reading);

// Notes that a process was waited for.
void recorder_reaped(void *recorder, uint32_t parent, uint32_t pid, uint64_t cpu_ns);

// Lets go of all, without giving memory back.
void recorder_drop_processes(struct recorder *recorder);

#endif
