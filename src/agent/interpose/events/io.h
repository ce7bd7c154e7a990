// SPDX-License-Identifier: MIT
#ifndef CAIRN_AGENT_INTERPOSE_EVENTS_IO_H
#define CAIRN_AGENT_INTERPOSE_EVENTS_IO_H

// The io event: operations on files, pipes and sockets, with the bytes that they move and the time
// that they take.
//
//   read(), send() ... ─► interposed (io_calls.c) ──────────┬─► the real one
//   fwrite() ─► libc: _IO_file_write() by a table of stdio ─┘      then io_note(): context ─► node
//                                (stdio.c)
//
// The functions that the program calls are in the agents that count I/O alone: with other events
// nothing stands between a program and its files.

#include "agent/interpose/interposed.h"
#include "agent/session/agent.h"
#include "agent/thread/counted.h"

// Where the bytes of an operation go.
enum io_direction {
    IO_OTHER, // nowhere: open, fsync
    IO_IN,
    IO_OUT,
    IO_THROUGH, // from one file to another: read, and written
};

// Once, when the main thread is known; in a child of fork; and for each recording of an agent that
// comes late, which ends with io_end(). 0 or -errno.
int io_start(void);
void io_end(void);

// An operation on a descriptor (-1: on none) that began at a time has ended; negative bytes: it has
// failed. `frame` is that of the function of ours that the program has called. Keeps errno.
void io_note(enum io_direction direction, int64_t bytes, uint64_t begun, const void *frame,
             int descriptor);

// io_calls.c: tells trackers of the functions that are interposed. Before it is on.
void io_tell_trackers(void);
struct interposed_group io_functions(void);

// stdio.c: has libc's streams call us. False: they cannot be made to.
bool stdio_intercept(void);
void stdio_release(void); // no more

#endif
