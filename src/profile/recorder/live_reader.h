// SPDX-License-Identifier: MIT
#ifndef CAIRN_PROFILE_RECORDER_LIVE_READER_H
#define CAIRN_PROFILE_RECORDER_LIVE_READER_H

// Reads one process's slice of the live memory and encodes what is new since the last time.
//
// The profiled program may have overwritten any byte. So each reference is checked against the
// arena's bounds before it is followed, each list ends by itself, and a contradiction to what was
// read before ends the reading of that tree, with a note.

#include "profile/creations.h"
#include "profile/queries/caused_metrics.h"
#include "profile/queries/module_table.h"
#include "profile/recorder/recorder.h"
#include "profile/write_records.h"
#include "tree/tree.h"

// Where what is found goes, and what all processes share.
struct live_sink {
    struct batch *batch;
    struct module_table *modules;
    struct creation_table creations; // calls that created threads, of all processes
    struct recorder_totals *totals;
    void (*note)(void *context, const char *text, size_t bytes);
    void *note_context;
    // A child of a process that is read has been waited for.
    void (*reaped)(void *context, uint32_t parent, uint32_t pid, uint64_t cpu_ns);
    // Samples of a process' start-up; NULL: none has any.
    bool (*startup)(void *context, uint32_t pid, struct startup_samples *samples);
    void *startup_context;
    uint64_t retold;       // nodes whose values were written again
    uint32_t next_tree;    // index of the next tree in the profile
    uint32_t source;       // enum live_source of the first process that has one
    unsigned metrics;      // in the profile
    bool follows_calls;    // the first value of a live frame counts calls
    unsigned calls_metric; // which metric that is then
    unsigned times;        // metrics of time, or of what else lies in one value of a statement
    unsigned time_metrics[2];
    unsigned time_value;    // in the tree: the first of them, the other one follows
    bool allocates;         // statements have the values of enum live_alloc_value
    unsigned alloc_metric;  // the first metric of these
    unsigned alloc_metrics; // how many there are
    unsigned alloc_shift;   // of numbers of blocks, where these are sampled
    uint32_t peak_stamp;    // then: of the process that is being read
    // Metrics that are values of statements, one after the other, in the order of
    // profile/queries/caused_metrics.h. With full trees.
    struct live_caused {
        unsigned metric, value; // the first of both
        unsigned count;         // 0: none
    } caused[CAUSED_EVENTS];
    // Metrics that are values of statements, one after the other, in the order of the session's
    // counters.
    unsigned counters, counter_metrics[LIVE_COUNTERS];
    unsigned counter_value;         // in the tree: the first of them
    const struct tree_traits *tree; // what the trees of the recording keep
    bool has_timeline;
    uint64_t start_ns; // of the recording: CLOCK_MONOTONIC
    // The metric that the second value of a node is: an error, or the weight of an edge. 0: none.
    unsigned bound_metric;
    // Makes one for errors, when the first full tree begins to forget. False: there is no room.
    bool (*want_errors)(void *context);
    void *errors_context;
    struct kernel_symbols
        *kernel;       // read when the first address of the kernel is met; NULL: not yet,
    bool kernel_asked; // or, if this is set, they cannot be read
};

struct live_reader;

// memory: the slice, mapped. NULL: out of memory.
struct live_reader *live_reader_new(const void *memory, uint64_t bytes);
void live_reader_free(struct live_reader *reader);

// Whether the process has come far enough to be read; its pid then (never changes later).
bool live_reader_ready(const struct live_reader *reader, uint32_t *pid);

enum live_presence { PROCESS_RUNS, PROCESS_IS_GONE };

// Encodes what is new; the process has the given index in the profile. True if anything was. bytes:
// how much of the slice may be touched now.
bool live_reader_update(struct live_reader *reader, uint32_t index, uint64_t bytes,
                        enum live_presence presence, struct live_sink *sink);

// For a process that is gone, after the last update: its CPU time in all, children that it waited
// for included, as the process that waited for it has learned. The part that it used after its
// goodbye is its exit. True if anything was encoded.
bool live_reader_end(struct live_reader *reader, uint32_t index, uint64_t cpu_ns,
                     struct live_sink *sink);

// Whether it has said goodbye, and its CPU time in the end is not known yet.
bool live_reader_awaits_end(const struct live_reader *reader);

// The process that has started it.
uint32_t live_reader_parent(const struct live_reader *reader);

// Trees were renumbered when the profile was compacted.
void live_reader_renumber(struct live_reader *reader, const uint32_t *tree_map);

#endif
