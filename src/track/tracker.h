// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_TRACKER_H
#define CAIRN_TRACK_TRACKER_H

// A tracker names the calling context of an event, as the node of the thread's tree that the
// event's cost belongs to.
//
//     event ─► tracker->locate() ─► node ─► tree_charge()
//
//   walk     unwinds the stack down to the marker             track/walk/
//   calls    follows every call                               track/calls/
//   encode   keeps a number that is the context               track/encode/
//
// A recording has one tracker. The agent calls it through this struct and never asks which one it
// is; trackers.c has the table. A tracker that does not need a function has NULL there: call it
// through the helpers below the struct.

#include "live/live.h"
#include "track/walk/walk.h"
#include <sys/types.h>

struct calls_thread;
struct trigger_thread;
struct stack_cache;

// A thread, as trackers see it. In the thread's own record; zeroed before tracker->open().
struct tracked {
    struct walker walker;           // walk; encode walks where no number applies
    struct calls_thread *calls;     // calls
    struct trigger_thread *trigger; // a stack sample at every N-th call
    // For events that the program causes itself, once there are some:
    struct stack_cache *stack_cache; // walks that need not be repeated
    uint32_t walks;                  // before there was a stack cache
};

// The process, for its tracker.
struct tracker_process {
    const struct live_options *options;
    struct live_encode *encode; // what trackers that patch call sites count
    struct live_alloc *alloc;   // remembered contexts that were verified
    uintptr_t hands_on;         // the function of the agent that calls handlers of the program
    bool recording;
    void (*note)(const char *text); // a line for the user
};

struct tracker {
    // A line for the user that says what is missing where the program has an unwinder of its own.
    // NULL: nothing is.
    const char *(*unwinder_note)(const struct live_options *options);
    bool patches; // rewrites code: functions whose runtime looks up return addresses are left alone

    // The process. In normal context, before a thread is profiled. 0 or -errno; a process in which
    // the tracker cannot work, but walks can, gets a note.
    int (*start)(const struct tracker_process *process);

    // A thread. In normal context; close() may come for another thread than the calling one.
    int (*open)(struct tracked *tracked, const struct tracker_place *place);
    void (*close)(struct tracked *tracked);
    // The calling thread is about to run this function of the program's, or has ended.
    void (*enter)(uintptr_t root, struct unwind_bounds stack);
    void (*leave)(void);
    // The thread continues with another tree, in its own handler. NULL: it cannot, and is opened
    // anew.
    void (*turn_to)(struct tracked *tracked, ref_t tree, struct live_stats *stats);

    // The node of the interrupted code; 0: not now. Signal-safe, all signals blocked.
    ref_t (*locate)(struct tracked *tracked, void *ucontext, uint64_t weight);
    // True if the tracker's own hooks were interrupted: that time is none of the program's.
    // Signal-safe. NULL: there are no hooks whose time counts.
    bool (*is_hook)(const void *ucontext);
    // The node of the program's code that has called a function of ours; 0: not now. In normal context, or in a
    // handler of the program's that has not interrupted another call of this.
    ref_t (*locate_caller)(struct tracked *tracked, const struct caller_registers *caller,
                           uint64_t weight);

    // Calls in bursts, or in a window of time: the thread's clock decides when. first_tick() and
    // tick() say when it is to tick next; owed() how much of its time is not accounted for.
    // Signal-safe.
    uint64_t (*first_tick)(struct tracked *tracked, uint64_t owed);
    uint64_t (*tick)(struct tracked *tracked, const void *ucontext, bool recording);
    uint64_t (*owed)(const struct tracked *tracked);

    // The calling thread jumps out of frames (longjmp); `frame` is that of the function of ours.
    void (*jump)(const void *buffer, const void *frame);
    // The tracker's state of the calling thread's stack may be wrong (vfork, posix_spawn).
    void (*doubt)(void);
    // There may be more threads from now on, perhaps some that the agent does not see.
    void (*expect_threads)(void);
};

// That of the recording; walk until there is one.
extern const struct tracker *tracker;

const struct tracker *tracker_of(enum live_tracker which);

// The calling thread's handlers and hooks find it from now on; NULL: they find nothing. Signal-safe.
void tracked_adopt(struct tracked *tracked);

// Not at the moment: the marker's stub or an unwinder of the program is at work. Signal-safe.
bool tracked_may_turn(const struct tracked *tracked);

// A stack sample at a call is being taken: its walker is in use. Signal-safe.
bool tracked_is_busy(const struct tracked *tracked);

// While the agent changes the calling thread's tree outside of a handler: calls of a handler of the
// program's must not enter it. tracked_release() takes the result of tracked_hold().
struct calls_thread *tracked_hold(void);
void tracked_release(struct calls_thread *held);

// A library was unloaded, or calls were not seen: cursors are found by a walk. In normal context.
void trackers_forget_places(void);

// True if unloading is noticed without questions around dlclose().
bool trackers_see_unloading(void);

// Functions of the agent, which call nothing of the program's, and what they may end in by a jump.
// Before there are threads.
void trackers_leave_calls(const uintptr_t *functions, unsigned count);
void trackers_doubt_functions(const uintptr_t *functions, unsigned count);

// Around fork. In the child: first its locks, then, when it has memory of its own (NULL: it is not
// profiled), its counters.
void trackers_before_fork(void);
void trackers_after_fork_in_parent(void);
void trackers_break_locks(void);
void trackers_after_fork(const struct tracker_process *process);

// tracker->doubt(), for assembly, too.
void tracker_doubt(void);

static inline bool tracker_is_hook(const void *ucontext)
{
    return tracker->is_hook && tracker->is_hook(ucontext);
}

static inline void tracker_enter(uintptr_t root, struct unwind_bounds stack)
{
    if (tracker->enter)
        tracker->enter(root, stack);
}

static inline void tracker_leave(void)
{
    if (tracker->leave)
        tracker->leave();
}

static inline void tracker_jump(const void *buffer, const void *frame)
{
    if (tracker->jump)
        tracker->jump(buffer, frame);
}

static inline void tracker_expect_threads(void)
{
    if (tracker->expect_threads)
        tracker->expect_threads();
}

#endif
