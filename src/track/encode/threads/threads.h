// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_ENCODE_THREADS_THREADS_H
#define CAIRN_TRACK_ENCODE_THREADS_THREADS_H

// Facts about a thread.

#include "encode/decode.h"
#include "track/encode/threads/confirmed.h"
#include "track/encode/threads/thread_state.h"
#include "track/encode/tracker.h"

enum {
    ENCODE_ASIDE = 64 << 10,
    ENCODE_FRAMES = 1 << 16, // deeper stacks are not looked at
    ENCODE_STACK = 1 << 20,  // entries of ccStack
    ENCODE_ABOVE = 32,       // frames above the root, of libc and the agent
    ENCODE_HINTS = 1 << 12,
    ENCODE_LANDINGS = 1 << 6,
};

// A frame as a walk sees it.
struct encode_frame {
    uintptr_t slot; // of its return address; 0: a signal's frame
    place_t site, function;
};

// Frames that make a walk, or the number, say less.
enum encode_obstacle {
    OBSTACLE_SIGNAL = 1,
    OBSTACLE_GAP = 2,       // without tables
    OBSTACLE_HOOK = 4,      // at work
    OBSTACLE_UNWINDER = 8,  // that looks at return addresses
    OBSTACLE_CALLBACK = 16, // of a function that takes part, called by code that does not
};

// A jump that was made before, and the state of where it landed. The same jump from the same state
// lands in the same one: programs whose coroutines yield by longjmp make a million a second.
struct encode_landing {
    uint64_t key; // of the state and the caller of longjmp
    uintptr_t sp, goal;
    uint64_t id;
    uint32_t depth, count; // of ccStack, and of the entry on top of it
    uint32_t stamp, unloads;
    bool known;
};

// Contexts of events until one is walked to see what the number says: of those that one tells, and
// of the others.
struct encode_event_turns {
    struct encode_turn {
        uint32_t left, period;
        uint32_t doubled; // how often, because it was always the same
    } numbered, unnumbered;
    uint32_t stamp;           // of the encoding for which that is so
    bool some;                // one was told
    bool due;                 // to be told of the walk that comes,
    struct encode_turn *turn; // and whose turn it is; NULL: always
};

struct encode_thread {
    // Samples are taken on a stack of ours: to decode a number takes some thousand bytes, and the
    // alternate stack of a Rust program has eight thousand, the signal's frame included.
    _Alignas(16) unsigned char aside[ENCODE_ASIDE];
    struct encode_state *state;
    struct encode_epoch *epoch;
    struct encode_thread *next; // of all, under the lock
    struct unwind_bounds stack;
    uintptr_t root_slot; // of the root's return address; 0: not known yet
    place_t root;
    uint8_t obstacles;   // by the last walk: enum encode_obstacle
    bool busy;           // a hook is on its slow path
    bool in_stub;        // for the moment, the state is that of who is about to call from one
    bool jumping;        // the state is that of where a longjmp lands: perhaps not there yet
    uintptr_t jump_sp;   // where it was called
    uintptr_t signal_sp; // of the last walk: of the oldest frame that a signal interrupted
    uint32_t count;      // frames of the last walk, youngest first
    uint32_t path_count; // of the last path that was decoded: at the end of `path`
    uint32_t ticks;
    struct encode_frame frames[ENCODE_FRAMES];
    struct walked walked[ENCODE_FRAMES];
    uint32_t path[ENCODE_FRAMES], before[ENCODE_FRAMES];
    uint32_t before_count;
    ref_t above_tree; // for which the frames from the root's on are known, last first:
    uint32_t above_count;
    struct edge above[ENCODE_ABOVE];
    struct confirmed_table confirmed;
    struct encode_event_turns turns;
    // How many frames to climb from a function to one whose number tells its context, by its place.
    uint8_t hint[ENCODE_HINTS];
    struct encode_landing landings[ENCODE_LANDINGS];
    struct cc_entry entries[ENCODE_STACK];
};

#endif
