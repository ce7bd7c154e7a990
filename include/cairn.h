/* SPDX-License-Identifier: MIT */
#ifndef CAIRN_H
#define CAIRN_H

/*
 * cairn from within: a program that asks what is hot in it, while it runs.
 *
 *     cairn_start("rate=1000 tree=hot:1e-3", NULL, 0);
 *     ...
 *     cairn_hottest(CAIRN_FUNCTIONS, 10, show, NULL);    // hottest first, a call of show() each
 *
 * Link with libcairn (pkg-config cairn), and the program profiles itself. Run it under
 * `cairn record`, linked or not, and the same calls work on that recording. With neither, every
 * call is a test of a weak symbol and does nothing.
 *
 * All functions may be called by several threads at once; in signal handlers only those that say
 * so. Callbacks run in the thread that called, never in a signal handler, with no lock held.
 * Functions that return an int return a negative errno if they failed. docs/api.md has more.
 */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CAIRN_API_VERSION 1

enum cairn_kind {
    CAIRN_CONTEXTS = 0, /* a function as called along one path from the start of its thread */
    CAIRN_EDGES = 1,    /* a function as called from one place */
    CAIRN_FUNCTIONS = 2 /* a function, whoever called it */
};

#define CAIRN_UNKNOWN UINT64_MAX /* as an offset */

/* One activation on a path. The names of files live as long as the process. */
struct cairn_frame {
    uintptr_t function;      /* where it begins, now; 0: not known, or no longer loaded */
    uintptr_t site;          /* the return address of its call; 0: none, or not known */
    const char *module;      /* file that the function lies in; NULL: none (generated code) */
    uint64_t offset;         /* of the function in it, from its lowest address in memory */
    const char *site_module; /* the same of the call */
    uint64_t site_offset;
};

struct cairn_item {
    enum cairn_kind kind;
    uint64_t value;       /* its own cost, without that of what it called: ns, or calls */
    uint64_t total;       /* its own and that of all it called, each moment once */
    uint64_t error;       /* value may be too high by this, in trees that forget */
    uint64_t weight;      /* of its call, in a bounded tree: what samples cost that found it new */
    unsigned depth;       /* frames on the path; 1 for an edge or a function */
    unsigned frame_count; /* that are told: the innermost ones, if there are very many */
    const struct cairn_frame *frames; /* innermost first */
};

/* Called per item; a result other than 0 ends the enumeration. The item lives as long as the call.
 */
typedef int cairn_visit(const struct cairn_item *item, void *context);

struct cairn_totals {
    uint64_t value;   /* all that was charged: ns, or calls */
    uint64_t samples; /* 0 where calls are followed */
    uint64_t lost;    /* samples that could not be taken */
    uint64_t bytes;   /* of memory for trees, used */
    uint64_t trees;
};

/*
 * The calling context of a moment, small enough to be kept with every event. It means something in
 * the process that it was asked for in, to cairn_decode(), and as text to `cairn decode`, with the
 * profile of that process. handle 0: not known.
 */
struct cairn_context {
    uint64_t id;
    uint64_t handle;
};

#define CAIRN_CONTEXT_TEXT 56 /* bytes that the text of one takes at most */

/* Defined by libcairn. Programs use the functions below. */
#define CAIRN_WEAK __attribute__((weak))
CAIRN_WEAK int cairn_start_1(const char *options, char *error, size_t error_bytes);
CAIRN_WEAK int cairn_stop_1(void);
CAIRN_WEAK int cairn_running_1(void);
CAIRN_WEAK int cairn_purge_1(void);
CAIRN_WEAK int cairn_phase_1(const char *name);
CAIRN_WEAK int cairn_phase_begin_1(const char *name);
CAIRN_WEAK int cairn_phase_end_1(void);
CAIRN_WEAK int cairn_hottest_1(enum cairn_kind kind, unsigned most, cairn_visit *visit,
                               void *context);
CAIRN_WEAK int cairn_watch_1(enum cairn_kind kind, uint64_t threshold, cairn_visit *visit,
                             void *context);
CAIRN_WEAK int cairn_unwatch_1(int watch);
CAIRN_WEAK int cairn_poll_1(void);
CAIRN_WEAK int cairn_watch_fd_1(void);
CAIRN_WEAK int cairn_snapshot_1(const char *path);
CAIRN_WEAK int cairn_totals_1(struct cairn_totals *totals);
CAIRN_WEAK const char *cairn_name_1(const struct cairn_frame *frame, char *text, size_t bytes);
CAIRN_WEAK struct cairn_context cairn_context_1(void);
CAIRN_WEAK const char *cairn_context_text_1(struct cairn_context context, char *text, size_t bytes);
CAIRN_WEAK int cairn_decode_1(struct cairn_context context, struct cairn_frame *frames,
                              unsigned most);
#undef CAIRN_WEAK

#define CAIRN_ABSENT (-38) /* -ENOSYS */

/* Whether libcairn is there at all. Signal-safe. */
static inline int cairn_present(void)
{
    return cairn_start_1 != 0;
}

/*
 * Begins a recording, or goes on with it after cairn_stop(). The options are words, named as on
 * the command line of `cairn record`:
 *
 *   event=cpu|wall  rate=HZ  period=TIME  memory=SIZE  marker=on|off  per-thread
 *   tree=full|hot:PHI[,EPS]|bounded:K|functions  miner=space-saving|lossy|sticky
 *   tree-memory=SIZE  purge=age|all  follow-fork=yes|no
 *
 * NULL: the defaults, or those of the first start, after which only the rate can change. Under
 * `cairn record` its options hold, and this only ends a pause. If it fails, error (room for
 * error_bytes; may be NULL) gets one line that says why.
 */
static inline int cairn_start(const char *options, char *error, size_t error_bytes)
{
    if (cairn_start_1)
        return cairn_start_1(options, error, error_bytes);
    static const char why[] = "not linked with libcairn, and not run by 'cairn record'";
    size_t length = 0;
    for (; error && length + 1 < error_bytes && why[length]; length++)
        error[length] = why[length];
    if (error && error_bytes)
        error[length] = 0;
    return CAIRN_ABSENT;
}

/* Pauses the recording of this process; what was recorded stays. */
static inline int cairn_stop(void)
{
    return cairn_stop_1 ? cairn_stop_1() : CAIRN_ABSENT;
}

/* 1 while samples are taken. Signal-safe. */
static inline int cairn_running(void)
{
    return cairn_running_1 ? cairn_running_1() : 0;
}

/* Forgets what was recorded so far: the questions below are about what comes. A profile that
 * `cairn record` writes keeps it. */
static inline int cairn_purge(void)
{
    return cairn_purge_1 ? cairn_purge_1() : CAIRN_ABSENT;
}

/*
 * Phases. Costs of a thread between begin and end go to trees of that name; `cairn report
 * --phase` shows them alone. Spans of a thread may lie within each other: the innermost counts.
 * cairn_phase() is for the whole process: it counts in threads that are in no span of their own,
 * until the next one; NULL ends it. Cheap (a store), and signal-safe. There can be 255 names of up
 * to 63 bytes.
 */
static inline int cairn_phase_begin(const char *name)
{
    return cairn_phase_begin_1 ? cairn_phase_begin_1(name) : CAIRN_ABSENT;
}

static inline int cairn_phase_end(void)
{
    return cairn_phase_end_1 ? cairn_phase_end_1() : CAIRN_ABSENT;
}

static inline int cairn_phase(const char *name)
{
    return cairn_phase_1 ? cairn_phase_1(name) : CAIRN_ABSENT;
}

/* The `most` hottest items (0: all) at this moment, by their own cost, the hottest first; edges of
 * a bounded tree by their weight. Stops nobody. Returns how many were visited. */
static inline int cairn_hottest(enum cairn_kind kind, unsigned most, cairn_visit *visit,
                                void *context)
{
    return cairn_hottest_1 ? cairn_hottest_1(kind, most, visit, context) : 0;
}

/*
 * Watches: visit is called once for each item whose own cost, from now on, passes the threshold.
 * Samples only take note; cairn_poll() runs the callbacks that are due, in the thread that calls
 * it, and returns how many they were. A program that would rather sleep asks cairn_watch_fd() for
 * a descriptor that can be read (poll, epoll) when there is something to poll for; it stays
 * libcairn's: do not read or close it. cairn_watch() returns a number for cairn_unwatch(). At most
 * 16 at a time, and 64 items that wait for cairn_poll().
 */
static inline int cairn_watch(enum cairn_kind kind, uint64_t threshold, cairn_visit *visit,
                              void *context)
{
    return cairn_watch_1 ? cairn_watch_1(kind, threshold, visit, context) : CAIRN_ABSENT;
}

static inline int cairn_unwatch(int watch)
{
    return cairn_unwatch_1 ? cairn_unwatch_1(watch) : CAIRN_ABSENT;
}

static inline int cairn_poll(void)
{
    return cairn_poll_1 ? cairn_poll_1() : 0;
}

static inline int cairn_watch_fd(void)
{
    return cairn_watch_fd_1 ? cairn_watch_fd_1() : CAIRN_ABSENT;
}

/* Writes what this process has recorded so far to a file, which `cairn report`, `info`, `export`
 * and the rest read like a profile. A file of that name is replaced if it is a profile or a
 * snapshot, else the result is -EEXIST. */
static inline int cairn_snapshot(const char *path)
{
    return cairn_snapshot_1 ? cairn_snapshot_1(path) : CAIRN_ABSENT;
}

static inline int cairn_totals(struct cairn_totals *totals)
{
    struct cairn_totals nothing = {0, 0, 0, 0, 0};
    *totals = nothing;
    return cairn_totals_1 ? cairn_totals_1(totals) : CAIRN_ABSENT;
}

/* The name of a frame's function, put into text: as the loader knows it, or the symbol table of its
 * file; else "file+0xoffset". Opens files: not for a hot path. Returns text. */
static inline const char *cairn_name(const struct cairn_frame *frame, char *text, size_t bytes)
{
    if (cairn_name_1)
        return cairn_name_1(frame, text, bytes);
    if (bytes)
        *text = 0;
    return text;
}

/*
 * The calling context of the caller. Under `cairn record --track encode` it is a number that the
 * thread has at hand: a few nanoseconds where it was asked for before, a few microseconds where it
 * was not. Elsewhere the stack is walked each time. Never another path than the true one: what
 * cannot be told is not known (handle 0), and so is everything while nothing is recorded.
 * Signal-safe.
 */
static inline __attribute__((always_inline)) struct cairn_context cairn_context(void)
{
    struct cairn_context nothing = {0, 0};
    return cairn_context_1 ? cairn_context_1() : nothing;
}

/* A context as text without blanks, such as "c:9f3a01c2.1a.3.7.5e", for a log that `cairn decode`
 * reads later; "c:?" if it is not known. Returns text, which has room for CAIRN_CONTEXT_TEXT bytes,
 * or is cut off. Signal-safe. */
static inline const char *cairn_context_text(struct cairn_context context, char *text, size_t bytes)
{
    if (cairn_context_text_1)
        return cairn_context_text_1(context, text, bytes);
    if (bytes)
        *text = 0;
    return text;
}

/*
 * The path of a context of this process: fills frames[0 .. most), innermost first, and returns how
 * many there are, which may be more. A frame without a site began its thread; if more follow it,
 * these are the path on which the thread was created. A frame without a function stands for all
 * that could not be found out. -ENOENT: not known; -EINVAL: no context of this process; -ESTALE:
 * one of the process that this one was forked from.
 */
static inline int cairn_decode(struct cairn_context context, struct cairn_frame *frames,
                               unsigned most)
{
    return cairn_decode_1 ? cairn_decode_1(context, frames, most) : CAIRN_ABSENT;
}

#ifdef __cplusplus
}
#endif

#endif
