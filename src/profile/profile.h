// SPDX-License-Identifier: MIT
#ifndef CAIRN_PROFILE_PROFILE_H
#define CAIRN_PROFILE_PROFILE_H

// A profile in memory, as every reader of it sees it. docs/format.md says how it lies in a file.

#include "base/place.h"
#include "live/live.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

// The profile that is meant where none is named.
#define DEFAULT_PROFILE "cairn.out"

struct profile_metric {
    char *name;            // "cpu"
    char *unit;            // "ns"
    uint64_t period;       // in the metric's unit
    double rate_requested; // samples a second
    char *source;          // "perf-task-clock"
    uint64_t runs;         // recordings whose values were added up; 0: just one
};

#define PROFILE_MOST_METRICS 40

// Metrics are of several kinds. A cost, such as time, lies in statements; a frame has the number of
// returns that the marker saw in its place. A metric of this unit counts calls: it lies in frames,
// each of which has the calls of its own edge.
#define PROFILE_CALLS "calls"
// In trees that forget: by how much another metric may be too large, where that lies.
#define PROFILE_ERROR "error"
// Where blocks are sampled: the variance of the estimate of their number
// (profile/queries/sampling_error.h).
#define PROFILE_VARIANCE "variance"
#define PROFILE_ALLOC_VARIANCE "allocs variance"
// In a file that is recorded, or was: of live bytes, the seconds of the recording at which they were
// allocated, summed up modulo 2^64. A reader makes the bytes times their ages of it.
#define PROFILE_BIRTHS "births"
#define PROFILE_AGES "byte-seconds"
// In bounded trees: the weight of the edge that leads to a frame.
#define PROFILE_EDGE "edge"

// Where the metrics of the events "alloc", "io", "lock" and "offcpu" come from, and those of perf events that
// count something else than time.
#define PROFILE_ALLOC_SOURCE "malloc"
#define PROFILE_IO_SOURCE "libc"
#define PROFILE_LOCK_SOURCE "pthread"
#define PROFILE_OFFCPU_SOURCE "perf-switches"
#define PROFILE_COUNTER_SOURCE "perf-event"

static inline bool profile_has_unit(const struct profile_metric *metric, const char *unit)
{
    return metric->unit && strcmp(metric->unit, unit) == 0;
}

static inline bool profile_counts_calls(const struct profile_metric *metric)
{
    return profile_has_unit(metric, PROFILE_CALLS);
}

// Whether it is about the errors of another one, and shown beside that alone.
static inline bool profile_is_error(const struct profile_metric *metric)
{
    return profile_has_unit(metric, PROFILE_ERROR) || profile_has_unit(metric, PROFILE_VARIANCE);
}

static inline bool profile_is_edge(const struct profile_metric *metric)
{
    return profile_has_unit(metric, PROFILE_EDGE);
}

// Whether it lies in statements, and returns lie in its place.
static inline bool profile_is_cost(const struct profile_metric *metric)
{
    return !profile_counts_calls(metric) && !profile_has_unit(metric, PROFILE_ERROR) &&
           !profile_is_edge(metric);
}

// Every event was counted, rather than one in many sampled.
static inline bool profile_is_counted(const struct profile_metric *metric)
{
    return metric->period <= 1 && metric->rate_requested <= 0;
}

static inline bool profile_is_from(const struct profile_metric *metric, const char *source)
{
    return metric->source && strcmp(metric->source, source) == 0;
}

// The event "alloc".
static inline bool profile_is_alloc(const struct profile_metric *metric)
{
    return profile_is_from(metric, PROFILE_ALLOC_SOURCE);
}

// The event "io".
static inline bool profile_is_io(const struct profile_metric *metric)
{
    return profile_is_from(metric, PROFILE_IO_SOURCE);
}

// The event "lock".
static inline bool profile_is_lock(const struct profile_metric *metric)
{
    return profile_is_from(metric, PROFILE_LOCK_SOURCE);
}

// The event "offcpu".
static inline bool profile_is_offcpu(const struct profile_metric *metric)
{
    return profile_is_from(metric, PROFILE_OFFCPU_SOURCE);
}

// An event that the program causes itself, each one of which is counted.
static inline bool profile_is_caused(const struct profile_metric *metric)
{
    return profile_is_alloc(metric) || profile_is_io(metric) || profile_is_lock(metric) ||
           profile_is_offcpu(metric);
}

// A perf event that was counted in each thread, and sampled.
static inline bool profile_is_counter(const struct profile_metric *metric)
{
    return profile_is_from(metric, PROFILE_COUNTER_SOURCE);
}

// CPU time, wall time.
static inline bool profile_is_time(const struct profile_metric *metric)
{
    return profile_is_cost(metric) && profile_has_unit(metric, "ns") &&
           !profile_is_caused(metric) && !profile_is_counter(metric);
}

static inline uint64_t profile_runs(const struct profile_metric *metric)
{
    return metric->runs ? metric->runs : 1;
}

// Whether a module is the agent, in one of its builds: libcairn.so, libcairn-alloc.so.
static inline bool profile_is_agent(const char *path)
{
    const char *name = strrchr(path, '/');
    return strncmp(name ? name + 1 : path, "libcairn", 8) == 0;
}

// Whether a module is what an interpreter of Python runs, by places that have names of their own.
static inline bool profile_is_python(const char *path)
{
    return path && strcmp(path, PLACE_PYTHON) == 0;
}

// The same for this and for a Java virtual machine.
static inline bool profile_is_runtime(const char *path)
{
    return profile_is_python(path) || (path && strcmp(path, PLACE_JAVA) == 0);
}

// Whether a module is files that are read and written, which have names alone, too.
static inline bool profile_is_files(const char *path)
{
    return path && strcmp(path, PLACE_FILES) == 0;
}

// Whether a module is the kernel.
static inline bool profile_is_kernel(const char *path)
{
    return path && strcmp(path, PLACE_KERNEL) == 0;
}

struct profile_module {
    char *path;
    uint8_t build_id[32];
    unsigned build_id_bytes;
};

// Numbers about the blocks of a process, beside its trees.
struct profile_alloc {
    uint64_t live, peak;           // bytes: at the end, and at most
    uint64_t unheld, unheld_bytes; // blocks without room in the table: never known to be freed
    uint64_t unknown;              // blocks freed that were not known: allocated before, or unheld
    uint64_t rootless;             // blocks without a context
    uint64_t verified, mismatches; // walks that were remembered: compared, and wrong
};

// The data that decodes the contexts that a process asked for (src/encode/codebook/serial.h).
struct profile_contexts {
    uint8_t *sections; // capacity as profile_grow() has it
    size_t bytes;
    uint16_t *modules; // from the numbers of modules in there to those of the profile; 0: not known
    unsigned module_count;
    bool cut; // the rest was lost
    uint32_t
        first; // node that handles count from: lower ones are of the process it was forked from
    uint64_t number, walked, unknown; // contexts told by numbers when they were new, by walks, not
};

struct profile_process {
    uint32_t pid, parent_pid;
    bool forked; // a fork of its parent rather than a new program image
    bool ended;  // said goodbye, or the tool saw it end
    uint64_t start_ns, end_ns;
    char **command; // NULL-terminated argv
    bool exclude_kernel;
    uint64_t tree_bytes;  // of its slice, used
    uint64_t agent_bytes; // private memory of the agent
    uint64_t thread_starts;
    uint64_t samples, cost_ns;  // its own, whether its trees are still apart or not
    struct live_encode encode;  // of the encode tracker; all 0 with others
    struct profile_alloc alloc; // with the alloc event; all 0 with others
    struct profile_contexts contexts;
    uint32_t merged_into; // process that its trees were folded into; PROFILE_NOT_MERGED: none
};

#define PROFILE_NOT_MERGED UINT32_MAX

#define PROFILE_NO_PARENT UINT32_MAX

// Modules in places are indices into profile.modules (0..2 are the reserved ones of place.h).
// There are many: no room between its members.
struct __attribute__((packed, aligned(4))) profile_node {
    uint32_t parent; // index in the same tree, smaller than the node's own; PROFILE_NO_PARENT: root
    place_t site;    // as in struct edge
    place_t function; // 0: a statement
};

// A step of a path on which threads were created: frames of the creator, from the outermost one,
// and then the call itself. The frames of a thread that creates others follow the call that created
// it. Paths that begin alike share steps.
struct profile_creation {
    uint32_t parent;  // index of the step before, smaller than its own; PROFILE_NO_PARENT: none
    place_t site;     // of a frame, as in a node. Of a call: its return address
    place_t function; // of a frame; 0: a call that creates threads
};

// The state of a hot tree; all 0 for others.
struct profile_hot {
    uint64_t counters; // contexts that it may count
    uint64_t floor;    // the most that a context without a counter can have had
    int64_t made_up;   // the sum of all counts less what was charged: errors that do not cancel out
};

// When the costs of a tree were charged, as it lies in the file (profile/timeline.h).
struct profile_charges {
    uint8_t *sections; // capacity as profile_grow() has it
    size_t bytes;
    uint64_t count;
    uint64_t lost; // charges that are missing, as far as they were counted
};

#define PROFILE_PHASE_BYTES 64

struct profile_tree {
    uint32_t process; // index
    uint32_t tid;     // of the (last) thread that grew it
    place_t start;    // start routine; 0: main thread
    uint64_t threads; // that shared it
    uint32_t
        creator; // the call that created its threads: index + 1 in profile.creations; 0: not known
    char phase[PROFILE_PHASE_BYTES]; // that the program named (include/cairn.h); empty: none
    char name[THREAD_NAME_BYTES];    // of its threads, or their pool; empty: the program gave none
    uint32_t count;
    struct profile_node *nodes; // parents before children, the root first
    uint64_t *values;           // count * metric_count: costs, calls or returns, see above
    struct live_stats stats;
    struct profile_hot hot;
    struct profile_charges charges; // with a timeline
};

// Waits for locks of one context, while another one held them. Several of the same pair add up.
struct profile_blame {
    struct {
        uint32_t tree, node;
    } waiter, holder;
    uint64_t ns, waits;
};

// One of the profiles that were merged: a rank of a parallel job, a machine, or a run.
struct profile_rank {
    char *name;       // its file
    uint64_t metrics; // a bit for each that it has
    uint8_t *costs;   // of statements: profile/ranks.h reads them
    size_t bytes;
};

// The cost of sampling beside the handlers, on the machine of the recording. All 0: not measured.
struct profile_overhead {
    uint64_t tick_ns;   // the interrupt and the signal of a sample
    uint64_t switch_ns; // added by a clock when its thread is switched
};

// The times of a recording, beside the charges of its trees.
struct profile_timeline {
    bool recorded;
    uint64_t start_ns;   // when the recording began: CLOCK_MONOTONIC, as that of processes
    unsigned metrics[2]; // whose charges there are
    unsigned metric_count;
    uint64_t stored_bytes; // in the file
};

// A function whose name is in no file: one of the kernel.
struct profile_function {
    place_t begin;
    uint64_t bytes;
    char *name;
};

// A function at a place, with the line in it.
struct profile_line {
    char *function;
    char *file; // empty: not known
    uint32_t line;
};

// The names of a place that another tool or the program's runtime has found. Such places are hashes of the names: the same
// names are the same place in every profile.
struct profile_place {
    place_t place;
    place_t begin;   // of the function
    uint64_t offset; // in the module; 0: not known
    uint32_t line_count;
    struct profile_line *lines; // innermost inlined function first
};

struct profile {
    unsigned format;
    char **command; // the recorded one, NULL-terminated
    char *tracker, *tree_kind;
    uint64_t start_realtime_ns;
    uint64_t duration_ns;
    bool complete; // recording ended in good order (else: cut off, still being written, or damaged)
    uint64_t file_bytes;
    uid_t owner; // of the file
    struct profile_overhead overhead;
    struct profile_blame *blames;
    unsigned blame_count;
    struct profile_timeline timeline;
    uint32_t rank_count; // of a merged profile
    struct profile_rank *ranks;
    unsigned metric_count;
    struct profile_metric *metrics;
    unsigned module_count;
    struct profile_module *modules;
    unsigned function_count;
    struct profile_function *functions; // of the kernel; a later one replaces an earlier one
    unsigned place_count;
    struct profile_place *places; // ascending; of imported profiles, and of PLACE_PYTHON
    char *kernel; // what is told of it: "frames", "calls", or "calls: " and why no frames; NULL:
                  // nothing
    unsigned process_count;
    struct profile_process *processes;
    uint32_t creation_count;
    struct profile_creation *creations;
    unsigned tree_count;
    struct profile_tree *trees;
    unsigned note_count;
    char **notes; // warnings for the user, each one line
};

// How many of its metrics are times.
unsigned profile_times(const struct profile *profile);

// Contexts and lines, of all trees together.
uint64_t profile_nodes(const struct profile *profile);

// If no time was sampled, the metric that the samples and the cost of trees are of: the first
// counter, else "offcpu", "alloc", "io" or "lock", in that order. NULL: samples of time they are.
const struct profile_metric *profile_samples_caused(const struct profile *profile);

// The word for such a sample: "allocation", "sampled allocation", "operation"; "sample" of another
// metric.
const char *profile_sample_word(const struct profile_metric *metric);

// Reads a profile, a growing one too. NULL and one line in *error (to be freed) if it is none. Of a
// damaged one, the sound part is returned, with a note about the loss.
struct profile *profile_read(const char *path, char **error);
void profile_free(struct profile *profile);

// The names of its phases, each once, with what is given between them; NULL if there are none. To
// be freed.
char *profile_phases(const struct profile *profile, const char *between);

// Whether threads of two trees do the same: they have a start routine, a creator, a phase and a
// pool of names in common. Main threads are alike whatever they are called.
bool profile_same_threads(const struct profile_tree *one, const struct profile_tree *other);

// Names a tree for its own threads and those of another one, which was added to it.
void profile_join_names(struct profile_tree *into, const struct profile_tree *tree);

// Writes a whole profile at once, compressed: to a temporary file beside path that then replaces
// it. 0 or -errno.
int profile_write(const struct profile *profile, const char *path);

#endif
