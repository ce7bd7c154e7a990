// SPDX-License-Identifier: MIT
#ifndef CAIRN_LIVE_LIVE_H
#define CAIRN_LIVE_LIVE_H

// The memory that the agent and the tool share while a program runs.
//
// `cairn record` makes one sparse memory file. Page 0 is the session; each profiled process (each
// program image: exec makes a new one) takes the next slice, an arena that holds all it knows.
//
//   [ session | slice 0: live_process, modules, threads, trees | slice 1 | slice 2 | ... sparse ]
//
// The agent only stores to memory: it does no I/O after start-up, keeps no descriptor, needs no
// thread of its own, and whatever kills the program, the tool still has every sample. The tool
// scans the slices about once a second and appends what is new to the profile. It trusts nothing it
// reads here: the program may have scribbled over it.
//
// Lists are pushed at the head with release order and never change afterwards, so a reader that
// follows them sees whole records.

#include "base/arena.h"
#include "base/place.h"
#include "base/system/thread_name.h"
#include "base/verdict.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#define LIVE_MAGIC UINT64_C(0x0065766c6e726963) // "cirnlve"
#define LIVE_VERSION 17
#define LIVE_SESSION_BYTES 4096
// Where call sites are patched, targets of calls are bound before they are made: LD_BIND_NOW, in
// our words if the user has none of it.
#define LIVE_BIND_NOW "LD_BIND_NOW=cairn"
#define LIVE_ENVIRONMENT "CAIRN_SESSION" // its value: the path of the memory file
#define LIVE_EVEN "CAIRN_EVEN=1"         // if the others of ours would be odd in number

enum live_event {
    LIVE_EVENT_CPU,
    LIVE_EVENT_WALL,
    LIVE_EVENT_CALLS,
    LIVE_EVENT_ALLOC,
    LIVE_EVENT_IO,
    LIVE_EVENT_LOCK,
    LIVE_EVENT_OFFCPU,
    LIVE_EVENT_COUNTER, // what perf events count: struct live_counter, up to LIVE_COUNTERS
    LIVE_EVENTS
};

#define LIVE_COUNTERS 6

// The source that tells how much a thread has caused since its last sample.
enum live_rest {
    LIVE_REST_PAGE, // the event's page
    LIVE_REST_CPU,  // the thread's clock
    LIVE_REST_FAULTS,
    LIVE_REST_MINOR_FAULTS,
    LIVE_REST_MAJOR_FAULTS,
    LIVE_REST_SWITCHES,
};

// A perf event that is counted in each thread, and sampled.
struct live_counter {
    uint32_t type; // as in struct perf_event_attr
    uint32_t precise, exclude_kernel;
    uint32_t is_rate; // the period is samples a second, which the kernel keeps by itself
    uint64_t config, config1, config2;
    uint64_t period;
    uint32_t rest; // enum live_rest
    uint32_t zero;
};

// With the alloc event, the values of a statement in a full tree. Live is what was allocated less
// what was freed. Live at the process' peak are the saved values, if their stamp is the peak's
// (live_alloc). Otherwise nothing has changed here since then, and it is what is live now.
enum live_alloc_value {
    LIVE_ALLOC_BYTES,
    LIVE_ALLOC_BLOCKS,
    LIVE_FREED_BYTES, // any thread adds to these
    LIVE_FREED_BLOCKS,
    LIVE_SAVED_BYTES,  // live at the peak of the stamp
    LIVE_SAVED_BLOCKS, // low half; high half: the stamp
    LIVE_BIRTHS,       // of live bytes: in seconds of the recording (event/birth.h), modulo 2^64
    LIVE_TEMPORARY,    // of LIVE_FREED_BLOCKS: by the thread that had allocated nothing since
    LIVE_MAPPED,       // bytes that the program itself has mapped here, by mmap() and sbrk()
    LIVE_UNMAPPED,
    LIVE_ALLOC_VALUES,
    // Where blocks are sampled: the variance of LIVE_ALLOC_BLOCKS. Then numbers of blocks are in
    // parts of 1 << BYTE_SAMPLER_SHIFT (event/byte_sampler.h), but for saved ones.
    LIVE_ALLOC_VARIANCE = LIVE_ALLOC_VALUES,
    LIVE_ALLOC_SAMPLED_VALUES,
};

// With the io event, the values of a statement in a full tree, which are its metrics, too.
enum live_io_value {
    LIVE_IO_BYTES, // read and written
    LIVE_IO_READ,
    LIVE_IO_WRITTEN,
    LIVE_IO_OPERATIONS,
    LIVE_IO_NS,
    LIVE_IO_VALUES,
};

// Which operations the io event counts.
enum live_io_part { LIVE_IO_ALL, LIVE_IO_READS, LIVE_IO_WRITES };

// The same with the lock event. Time is that of waiting.
enum live_lock_value {
    LIVE_LOCK_NS,        // for mutexes and read-write locks
    LIVE_LOCK_CONTENDED, // of those: how often one was busy
    LIVE_LOCK_ACQUIRED,  // how often one was taken
    LIVE_LOCK_BLAME,     // of others, for locks that were taken here; any thread adds to it
    LIVE_SYNC_NS,        // for conditions, semaphores, barriers and the ends of threads
    LIVE_SYNCS,          // how often
    LIVE_LOCK_VALUES,
};

// The same with the offcpu event: the time that a thread is off the processor, all of it and by its
// cause. Other causes are the rest.
enum live_offcpu_value {
    LIVE_OFFCPU_NS,
    LIVE_OFFCPU_LOCK,  // it waits for another thread
    LIVE_OFFCPU_IO,    // for a file, a pipe, a socket, a page
    LIVE_OFFCPU_SLEEP, // for a time
    LIVE_OFFCPU_QUEUE, // for a processor: it was preempted
    LIVE_OFFCPU_WAITS, // how often
    LIVE_OFFCPU_VALUES,
};

enum live_trigger { LIVE_TRIGGER_NONE, LIVE_TRIGGER_ALL, LIVE_TRIGGER_BY_FUNCTION };

enum live_tracker { LIVE_TRACKER_WALK, LIVE_TRACKER_CALLS, LIVE_TRACKER_ENCODE };

enum live_tree_kind {
    LIVE_TREE_FULL,      // every context
    LIVE_TREE_HOT,       // hot contexts and their ancestors, in bounded memory
    LIVE_TREE_BOUNDED,   // a few frames a sample, a fixed buffer
    LIVE_TREE_FUNCTIONS, // no contexts: a counter per function
};

// Which algorithm finds the hot contexts (src/tree/miners/miner.h).
enum live_miner { LIVE_MINER_SPACE_SAVING, LIVE_MINER_LOSSY, LIVE_MINER_STICKY };

// Which contexts a bounded tree drops when its buffer is full.
enum live_purge { LIVE_PURGE_AGE, LIVE_PURGE_ALL };

// How the samples of a thread are asked for. `auto` tries them in this order.
enum live_source {
    LIVE_SOURCE_AUTO,
    LIVE_SOURCE_SIGTRAP, // perf software clock, synchronous SIGTRAP
    LIVE_SOURCE_SIGNAL,  // perf software clock, F_SETSIG
    LIVE_SOURCE_TIMER,   // POSIX timer on the thread's CPU clock
    LIVE_SOURCE_OUTSIDE, // perf software clock, whose samples the tool takes (src/outside); not asked for
};

// As a profile says it. The words to choose one are in choices.h.
static inline const char *live_source_name(unsigned source)
{
    static const char *const names[] = {"none", "perf-task-clock", "perf-task-clock-signal",
                                        "posix-timer", "perf-from-outside"};
    return source < sizeof names / sizeof *names ? names[source] : "unknown";
}

// How the kernel's work for the program is recorded, in full trees.
enum live_kernel {
    LIVE_KERNEL_NONE,
    LIVE_KERNEL_CALLS,  // the system call
    LIVE_KERNEL_FRAMES, // the kernel's own frames, too, where a clock can see them
};

// Which functions' calls are followed, or which functions take part in an encoding.
enum live_by {
    LIVE_BY_ENTRIES,   // none: only functions built with 'cairn cc'
    LIVE_BY_PROGRAM,   // of the program's own file
    LIVE_BY_LIBRARIES, // of that and its libraries, but for libc
    LIVE_BY_ALL,
};

struct live_options {
    uint32_t event;  // enum live_event: of several, that of a clock, if there is one
    uint32_t also;   // the others, a bit for each
    uint32_t source; // enum live_source that is asked for
    uint64_t period_ns;
    uint32_t marker; // 0: memoised walk
    uint32_t per_thread;
    uint32_t follow_fork;
    uint32_t tracker;         // enum live_tracker
    uint32_t trigger;         // enum live_trigger: with the walk tracker and the calls event
    uint32_t weights_all_new; // of samples at calls; 0: only the last edge
    uint32_t randomised;      // periods of calls
    uint32_t fold_recursion;  // calls: a function has one node on a path
    uint64_t call_period;     // a sample every so many calls
    uint64_t burst_interval_ns, burst_length_ns; // 0: calls are followed all the time
    uint32_t burst_one_in;    // adaptive: a burst in a known context is taken this rarely
    uint32_t empty_handler;   // measure the bare cost of the signals: the handler does nothing
    uint32_t tree;            // enum live_tree_kind
    uint32_t miner;           // enum live_miner, of a hot tree
    uint64_t hot_counters;    // 1/epsilon: counters of Space Saving, window of Lossy Counting
    uint64_t sticky_items;    // of Sticky Sampling: 1/epsilon * ln(1/(phi * delta))
    uint32_t bounded_depth;   // K: frames that a sample of a bounded tree may walk
    uint32_t purge;           // enum live_purge
    uint64_t bounded_bytes;   // of a bounded tree's buffer
    uint32_t verify;          // encode: walk at each sample, and compare
    uint32_t reencode_always; // encode: for tests, encode anew all the time
    uint32_t calls_by;        // enum live_by
    uint32_t encode_by;       // enum live_by: encode: which functions take part
    uint32_t kernel;          // enum live_kernel
    uint32_t calls_window;    // calls are followed while `recording` says so (--delay, --duration)
    uint32_t timeline;        // every charge of time leaves a struct live_timed
    uint64_t alloc_period;    // a sample every so many bytes; 0: every block is counted
    uint32_t io_part;         // enum live_io_part
    uint32_t counter_count;
    struct live_counter counters[LIVE_COUNTERS];
};

// Call sites of the program are rewritten, when it starts or while it runs.
static inline int live_rewrites(const struct live_options *options)
{
    return options->tracker == LIVE_TRACKER_ENCODE || options->calls_by != LIVE_BY_ENTRIES;
}

static inline int live_has(const struct live_options *options, enum live_event event)
{
    return options->event == event || options->also >> event & 1;
}

// There are events that the program causes itself, by functions that the agent interposes.
static inline int live_has_counted(const struct live_options *options)
{
    return live_has(options, LIVE_EVENT_ALLOC) || live_has(options, LIVE_EVENT_IO) ||
           live_has(options, LIVE_EVENT_LOCK);
}

// Several events have a full tree together. The values of its nodes are those of allocations, if
// there are any, then of I/O, of locks, of waits, CPU time, wall time, counters; calls lie in the first value
// of frames. So with one event it is always the first.
static inline unsigned live_io_value(const struct live_options *options)
{
    return !live_has(options, LIVE_EVENT_ALLOC) ? 0
           : options->alloc_period              ? LIVE_ALLOC_SAMPLED_VALUES
                                                : LIVE_ALLOC_VALUES;
}

static inline unsigned live_lock_value(const struct live_options *options)
{
    return live_io_value(options) + (live_has(options, LIVE_EVENT_IO) ? LIVE_IO_VALUES : 0);
}

static inline unsigned live_offcpu_value(const struct live_options *options)
{
    return live_lock_value(options) + (live_has(options, LIVE_EVENT_LOCK) ? LIVE_LOCK_VALUES : 0);
}

static inline unsigned live_time_value(const struct live_options *options)
{
    return live_offcpu_value(options) +
           (live_has(options, LIVE_EVENT_OFFCPU) ? LIVE_OFFCPU_VALUES : 0);
}

// The value of the event that trees are made for.
static inline unsigned live_main_value(const struct live_options *options)
{
    return options->event == LIVE_EVENT_ALLOC    ? 0
           : options->event == LIVE_EVENT_IO     ? live_io_value(options)
           : options->event == LIVE_EVENT_LOCK   ? live_lock_value(options)
           : options->event == LIVE_EVENT_OFFCPU ? live_offcpu_value(options)
                                                 : live_time_value(options);
}

// The first of the counters.
static inline unsigned live_counter_value(const struct live_options *options)
{
    return live_time_value(options) + (unsigned)live_has(options, LIVE_EVENT_CPU) +
           (unsigned)live_has(options, LIVE_EVENT_WALL);
}

static inline unsigned live_values(const struct live_options *options)
{
    const unsigned values = live_counter_value(options) + options->counter_count;
    return values ? values : 1;
}

// True if wall time is recorded beside CPU time: both are read at the same ticks.
static inline int live_has_wall_beside(const struct live_options *options)
{
    return options->event == LIVE_EVENT_CPU && options->also >> LIVE_EVENT_WALL & 1;
}

// Written by the tool before the program starts, but for the atomics.
struct live_session {
    uint64_t magic;
    uint32_t version;
    uint32_t tool_pid;
    uint64_t slice_bytes;    // distance of slices, the budget of a process (--memory)
    _Atomic uint64_t slices; // handed out; every process adds one, relaxed
    // Bytes that arenas may yet take, of all processes together; each takes a piece when it needs
    // one, and the tool gives back what those had that are gone.
    _Atomic int64_t memory_left;
    _Atomic uint32_t recording; // 0: samples are ignored (--delay, --duration); the tool writes
    _Atomic uint32_t birth;     // of blocks (event/birth.h); the tool writes it at each reading
    // With 'cairn record -p': the tool holds it. The kernel writes into it that its holder is dead.
    pthread_mutex_t tool;
    struct live_options options;
    char agent_path[1024];      // for LD_PRELOAD
    char tree_name[64];         // the kind of the trees as in a profile: "hot:0.0001,2e-05"
    uint64_t start_realtime_ns; // in a snapshot: when its process began
    // 1: the first process has an event on itself, which the tool reads and the agent ends.
    uint32_t startup_sampled;
};

#define LIVE_HANDLER_BUCKETS 128 // of handler time: 4 per power of two, see live_bucket()

// One per tree. The owning thread writes, relaxed; readers may see it in the middle of a sample.
struct live_stats {
    uint64_t samples;
    uint64_t lost;     // signals that came while no sample could be taken
    uint64_t unplaced; // samples counted to an ancestor because the memory limit was reached
    uint64_t verdicts[VERDICT_COUNT]; // a marker walk on an incomplete cached part counts that
                                      // part's verdict
    uint64_t frames_stack;            // sum of stack depths
    uint64_t frames_walked;           // sum of frames really walked
    uint64_t handler_ns;              // sum
    uint64_t cost_ns;                 // sum of all weights, residues at thread end included
    uint64_t residue_ns;              // of that: time at the end of threads that no sample came for
    uint64_t waits;                   // of the samples: taken after a wait, and of wall time alone
    uint64_t sparse;   // of the samples: at the longer period of threads that are switched often
    uint64_t switches; // of threads, as far as they were counted; a sparse clock's count for less
    uint64_t purged; // of what was charged to contexts: lies in none any more (a bounded tree that
                     // was purged, counters that Lossy Counting dropped)
    uint64_t hook_samples, hook_ns; // that met a hook on calls: neither in `samples`, nor in
                                    // `cost_ns`, nor in the tree
    uint32_t handler_histogram[LIVE_HANDLER_BUCKETS];
};

struct live_module {
    ref_t next;
    uint32_t id;    // as in place_t
    uint64_t base;  // first loaded address when it was last (re)loaded
    uint64_t bytes; // extent in memory
    uint32_t build_id_bytes;
    uint8_t build_id[32];
    uint32_t path_bytes;
    char path[]; // not terminated
};

// A function that only a language's runtime can name, or a line in one
// (track/runtimes/runtime_names.h).
struct live_name {
    ref_t next;
    uint32_t line; // 0: not known
    place_t place, function;
    uint32_t function_bytes, file_bytes;
    char text[]; // the name of the function, then the file
};

// A span that the program named (include/cairn.h). On no list: trees refer to it.
struct live_phase {
    uint32_t bytes;
    char text[]; // followed by a zero
};

// The calls that created threads, and the frames they were made from
// (track/context_id/thread_creation.h). Steps are numbered from 1 and never change; creators of
// threads add some, under a lock of the agent.
enum {
    LIVE_CREATION_BLOCK = 128,  // steps that are allocated together
    LIVE_CREATION_BLOCKS = 256, // of a process
    LIVE_CREATION_STEPS = LIVE_CREATION_BLOCK * LIVE_CREATION_BLOCKS,
};

struct live_creation_step {
    uint32_t parent;         // the step before; 0: none
    uint32_t child, sibling; // for the agent alone
    uint32_t level;   // of a call that creates threads: how many calls the path has so far; else 0
    place_t site;     // of a frame, as in an edge. Of a call: its return address
    place_t function; // of a frame. Of a call: the function that the calling thread began in
};

struct live_creations {
    _Atomic uint32_t count; // steps; release
    uint32_t first, calls;  // for the agent alone
    ref_t blocks[LIVE_CREATION_BLOCKS];
};

// With a timeline: a cost that was charged to a node of a full tree, and when.
struct live_timed {
    uint64_t time_ns; // CLOCK_MONOTONIC
    uint64_t weight;
    ref_t node;      // 0: the root
    uint32_t origin; // LIVE_ORIGIN()
};

// The thread, and which of the values of time was charged: the first or the second.
#define LIVE_ORIGIN(tid, value) ((uint32_t)(tid) << 1 | (value))

// The owner of a tree writes entry n into place n % capacity, over an older one. A reader sees by
// the count which entries it has missed. Before an owner would overwrite entries that are young, it
// goes on in a larger ring.
struct live_timeline_ring {
    _Atomic ref_t next; // release; 0: none yet
    uint32_t capacity;  // a power of two
    uint64_t first;     // number of its first entry
    struct live_timed entries[];
};

// Costs that another thread than the owner charged, when the process ended.
struct live_late {
    ref_t next;
    uint32_t zero;
    struct live_timed charge;
};

struct live_timeline {
    _Atomic ref_t first;     // struct live_timeline_ring; release; 0: none yet
    ref_t ring;              // that the owner writes to, with
    uint32_t mask;           // capacity - 1; for the agent alone
    _Atomic ref_t late;      // struct live_late
    _Atomic uint64_t begun;  // entries whose writing began, in all rings; before a release fence
    _Atomic uint64_t count;  // entries that were written, in all rings; release
    _Atomic uint64_t unheld; // charges for which there was no memory
};

// A tree and who writes it. When a thread ends, the next one of the same kind continues with its
// tree (unless per_thread), so short threads by the million need few trees. Threads are of one kind
// if they have the same start routine, names of the same pool (base/system/thread_name.h), and were
// created by the same call. A thread in another phase has another tree.
struct live_thread {
    ref_t next;
    ref_t tree;
    place_t start;               // start routine; 0 for the main thread
    ref_t phase;                 // struct live_phase; 0: none
    uint32_t creator;            // number of a step that is a call; 0: not known
    _Atomic uint32_t generation; // how often the program had purged when it was begun
    _Atomic uint32_t tid;        // current or last owner
    _Atomic uint32_t owned;      // 1 while a thread uses it
    _Atomic uint64_t threads;    // how many threads have used it
    uint64_t first_ns;           // CLOCK_MONOTONIC of first use
    // That the program gave to the owner, or the pool of the names of several; empty: none. The
    // owner writes; a reader may see half of a new one, and all of it the next time.
    char name[THREAD_NAME_BYTES];
    // For the agent alone: the time up to which the owner's clock is charged, and the node of the
    // last sample. While the tree has no owner: the time of its last owners since their last
    // samples. The next owner's clock continues from there.
    uint64_t charged;
    uint64_t pending;
    uint64_t pending_wall; // the same of wall time, if that is recorded beside CPU time
    ref_t last_node;
    struct live_timeline timeline;
    struct live_stats stats;
};

struct live_note {
    ref_t next;
    uint32_t bytes;
    char text[];
};

// Counters of trackers that patch call sites. Any thread writes, without order: an increment may be
// lost.
enum {
    LIVE_DEPTHS = 24, // class k: depths in [2^(k-1), 2^k); class 0: none
    LIVE_PROGRESS =
        48, // encodings that are told of one by one; of more, every second one, and so on
};

struct live_progress { // when an encoding was made
    uint64_t samples, functions, edges, max_id;
};

// Numbers of 64 bits alone.
struct live_encode {
    uint64_t functions, edges, max_id; // of the encoding in force
    uint64_t pushes;                   // on ccStacks
    uint64_t depth_sum, depth_samples; // entries of the ccStack, summed over samples
    uint64_t reencodings, reencode_ns;
    uint64_t sites_patched, sites_skipped;
    uint64_t decoded;              // samples that a known number told
    uint64_t confirmed;            // of which the number was new, and a walk said the same
    uint64_t walked;               // of which no number told
    uint64_t verified, mismatches; // numbers that were compared with a walk, and said otherwise
    uint64_t bytes;
    uint64_t stopped; // 1: an unwinder came that stubs would mislead; from then on all was walked
    // Why samples were walked: in a hook or stub; outside of main or of the stack, or at a time
    // when the state is not known; climbing met no function with a number, or none that decodes.
    // The rest differed.
    uint64_t in_hooks, outside, undecoded;
    // With the calls tracker, where call sites are patched: modules whose calls are followed; of
    // their sites (sites_patched) those through stubs, and by a signal each time; sites of other
    // modules that call back; of what was left (sites_skipped) indirect jumps that may be tail
    // calls; functions that cannot be decoded; modules that came too late.
    uint64_t modules, stubs, traps, callbacks, tables, opaque, late;
    // How deep the stack is where a sample was decoded, and the ccStack: the sum of the former, and
    // how often which.
    uint64_t path_sum, path_samples;
    uint64_t path_class[LIVE_DEPTHS], stack_class[LIVE_DEPTHS];
    uint64_t progress_count, progress_every; // one in so many encodings
    struct live_progress progress[LIVE_PROGRESS];
    uint64_t direct;  // samples that were told by the number of the function they hit
    uint64_t look_ns; // on finding and patching the sites of functions, of the thread's time
    // Samples with a number after a climb: out of leaf functions alone, or out of others, too.
    uint64_t from_leaf, climbed;
    // Of `pushes`, by reason: recursion; ids that would overflow; indirect calls of targets that
    // have no arm in the site's chain; edges that are newer than the thread's encoding.
    uint64_t pushes_recursion, pushes_overflow, pushes_armless, pushes_new;
};

// The blocks of a process, with the alloc event; any thread writes.
struct live_alloc {
    _Atomic uint64_t live;  // bytes in blocks that are known
    _Atomic uint64_t peak;  // the most that ever were
    _Atomic uint32_t stamp; // of that peak: how many there were
    uint32_t zero;
    _Atomic uint64_t unheld, unheld_bytes; // blocks that found no room in the table
    _Atomic uint64_t unknown;              // blocks freed that are not in the table
    _Atomic uint64_t rootless;             // blocks allocated where no context can be known
    // With verify: walks that were remembered and were walked again, and those that led elsewhere.
    _Atomic uint64_t verified, mismatches;
};

// With the lock event and a full tree: who has waited for whom. Any thread takes a free place by its
// key, release; and adds to the sums, relaxed.
#define LIVE_BLAMES 4096 // pairs of a process; a power of two

struct live_blame {
    _Atomic uint64_t pair; // node of the waiter << 32 | of the holder; 0: free
    _Atomic uint64_t ns, waits;
};

// A part of what is needed to decode contexts: whole sections of src/encode/codebook/serial.h.
struct live_sections {
    ref_t next;
    uint32_t bytes;
    uint8_t data[];
};

// The contexts that the program has asked for (include/cairn.h). All that decoding needs is here
// before the program has the context. Nodes are published by their level, which is written last.
struct live_contexts {
    _Atomic uint32_t asked;  // 1: the program has asked for one
    uint32_t first;          // handles count nodes from here (fork: those below are the parent's)
    _Atomic ref_t sections;  // struct live_sections
    _Atomic ref_t nodes;     // struct intern_node, `capacity` of them; release
    uint32_t capacity;       // written before
    _Atomic uint64_t number; // contexts that numbers told, when they were new
    _Atomic uint64_t walked; // that took a walk
    _Atomic uint64_t unknown;
};

// A child that the process has waited for.
struct live_reaped {
    ref_t next;
    uint32_t pid;
    uint64_t cpu_ns; // of it, and of children that it has waited for
};

// The CPU time of the process at its goodbye. The kernel's work afterwards is known to the process
// that waits for it.
struct live_goodbye {
    uint64_t cpu_ns;      // 0: it has said none, or CPU time is not what is recorded
    uint64_t cost_ns;     // of that: in trees, and in hooks
    uint64_t children_ns; // of children that it has waited for
};

enum live_state { LIVE_EMPTY, LIVE_STARTING, LIVE_RUNNING, LIVE_ENDED };

struct live_process {
    struct arena_head arena;
    _Atomic uint32_t state; // enum live_state; release, so that what stands below is readable
    uint32_t pid;
    uint32_t parent_pid;
    uint32_t source;          // enum live_source that works here; 0 before the first thread
    uint32_t exclude_kernel;  // 1: no samples inside the kernel; their time weighs on the next one
    uint32_t forked;          // 1: a fork of its parent (same program), 0: a new image
    uint32_t written_by_tool; // 1: it is sampled from outside, and knows nothing of this memory
    uint64_t start_ns;        // CLOCK_MONOTONIC
    _Atomic uint64_t end_ns;  // 0 until it says goodbye
    ref_t command;            // NUL-separated argv
    uint32_t command_bytes;
    _Atomic ref_t modules;          // struct live_module
    _Atomic ref_t threads;          // struct live_thread
    _Atomic ref_t notes;            // struct live_note
    _Atomic ref_t names;            // struct live_name
    _Atomic uint64_t agent_bytes;   // private memory of the agent besides the slice
    _Atomic uint64_t thread_starts; // threads that ever ran
    struct live_encode encode;      // of trackers that patch call sites
    struct live_alloc alloc;        // with the alloc event
    struct live_contexts contexts;
    struct live_creations creations;
    _Atomic ref_t reaped;          // struct live_reaped
    _Atomic uint32_t reaped_count; // that were met: not all are listed
    struct live_goodbye goodbye;   // written before end_ns
    _Atomic ref_t blames;          // LIVE_BLAMES of struct live_blame; 0: none
    // CPU time between exec and the first sample that could be taken: the kernel's, the loader's,
    // and the agent's own. Written before LIVE_RUNNING.
    uint64_t startup_ns;
};

#define LIVE_MOST_LISTED (1 << 20) // records: a longer list bites its own tail

// The record of a list of a process' own at `ref`, so many bytes of it. NULL: the list ends here,
// or the program has scribbled over it, and it leads out of the arena or has no end. `left` begins
// with LIVE_MOST_LISTED. Signal-safe.
static inline void *live_listed(const struct arena *arena, ref_t ref, size_t bytes, uint32_t *left)
{
    return *left && (*left)-- ? arena_find(arena, ref, bytes) : NULL;
}

// Pushes a record on a list of a live_process; *next is the record's own link. Signal-safe.
static inline void live_push(_Atomic ref_t *head, ref_t *next, ref_t record)
{
    *next = atomic_load_explicit(head, memory_order_relaxed);
    // Release: a reader that follows the list sees a whole record.
    while (!atomic_compare_exchange_weak_explicit(head, next, record, memory_order_release,
                                                  memory_order_relaxed)) {
    }
}

// Distinguishes program images whose contexts are in one log.
static inline uint32_t live_process_key(uint32_t pid, uint64_t start_ns)
{
    uint64_t hash = (start_ns ^ (uint64_t)pid << 40) * UINT64_C(0x9e3779b97f4a7c15);
    hash = (hash ^ hash >> 29) * UINT64_C(0xff51afd7ed558ccd);
    return (uint32_t)(hash >> 32);
}

// The histogram bucket of a handler time: 4 buckets per power of two.
static inline unsigned live_bucket(uint64_t ns)
{
    if (ns < 4)
        return (unsigned)ns;
    unsigned power = 63 - (unsigned)__builtin_clzll(ns);
    unsigned bucket = (power - 1) * 4 + (unsigned)(ns >> (power - 2) & 3);
    return bucket < LIVE_HANDLER_BUCKETS ? bucket : LIVE_HANDLER_BUCKETS - 1;
}

// The smallest time that falls into a bucket.
static inline uint64_t live_bucket_floor(unsigned bucket)
{
    return bucket < 4 ? bucket : (uint64_t)(4 + bucket % 4) << (bucket / 4 - 1);
}

#endif
