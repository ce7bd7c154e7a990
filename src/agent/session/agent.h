// SPDX-License-Identifier: MIT
#ifndef CAIRN_AGENT_SESSION_AGENT_H
#define CAIRN_AGENT_SESSION_AGENT_H

// The agent's state: the session that it joined, and this process' part of the shared memory.

#include "live/attach.h"
#include "live/live.h"
#include <stdbool.h>
#include <sys/types.h>

// An interposed function: the program finds ours before libc's.
#define INTERPOSED __attribute__((visibility("default")))

struct agent {
    // Our handlers are installed, threads are known, and what the program does with signals is seen
    // through: by a session, or because the program is linked with us and may begin one.
    bool armed;
    bool active;   // there is a session: set once, by the constructor or by the program's own start
    bool traced;   // a tracer was seen at work: new threads look for it at once
    bool silent;   // it ends without a word: it may not ask for what it would say
    bool own;      // made by cairn_start(): no other process sees its memory
    bool attached; // it has come into a process that ran already (agent/attach/)
    uint32_t recording; // how often it has
    // Of such one: it goes. Handlers do nothing any more; sequentially consistent.
    _Atomic uint32_t left;
    _Atomic uint32_t visitors;   // threads that begin or end at the moment
    _Atomic uint32_t generation; // purges; trees of older ones are not asked any more
    _Atomic uint32_t paused;     // by cairn_stop(); handlers read it, relaxed: a moment has no edge
    struct live_session *session;
    char session_path[256]; // for children to open
    struct arena arena;     // this process' slice
    struct live_process *process;
    size_t slice_mapped;
    uint64_t slice; // its number in the session
    pid_t pid;      // differs in a vfork child, which shares our memory
};

extern struct agent agent;

// Our tables can be written (gc_hidden.c). Nothing may begin without.
extern bool gc_hidden_is_open;

// Takes the next slice of the session for this process. 0 or -errno.
int agent_take_slice(bool forked);

// Starts a session of the program's own with these options: the process leaves its armed state for
// memory of `bytes`. The threads are not begun yet. 0 or -errno. Not signal-safe.
int agent_begin_own(const struct live_session *like);

// The same with a session of the tool's, in a process that the agent has come into late; and the
// end of it: the process waits, with a few pages, for the next one. 0 or -errno.
int agent_begin_attached(const char *session_path);
void agent_end_attached(void);

// Around work of a thread's own on the session's memory, in normal context. False: it goes.
static inline bool agent_visit(void)
{
    // Sequentially consistent, as is `left`: one of the two sides sees the other.
    atomic_fetch_add(&agent.visitors, 1);
    return !atomic_load(&agent.left);
}

static inline void agent_visit_ends(void)
{
    atomic_fetch_sub(&agent.visitors, 1);
}

// The tool has ended without a word. Signal-safe.
bool agent_tool_is_gone(void);

// The program calls our functions in place of libc's: we were loaded before it.
bool agent_is_interposed(void);

// The tool reads it (live/attach.h).
extern struct live_attached cairn_attached;

// Whether samples count at this moment. Signal-safe, once the agent is active.
static inline bool agent_is_recording(void)
{
    // Relaxed: recording begins and ends at some moment, no other data depends on it.
    return atomic_load_explicit(&agent.session->recording, memory_order_relaxed) &&
           !atomic_load_explicit(&agent.paused, memory_order_relaxed);
}

// In a forked child: a slice of its own, and a fresh start of the calling thread.
void agent_after_fork(void);
void exec_after_fork(void); // part of it
void exec_before_fork(void);

// Says goodbye: the process ends in good order.
void agent_finish(void);

// Leaves a line for the user in the profile. Signal-safe.
void agent_note(const char *text);

// True in a child made by vfork: it runs in our memory, but is not us.
bool agent_in_vfork_child(void);

#endif
