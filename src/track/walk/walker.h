// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_WALK_WALKER_H
#define CAIRN_TRACK_WALK_WALKER_H

// A walker belongs to one thread. It keeps the frames of the last sample, oldest first, with their
// nodes:
//
//   frames[0] ... frames[m] ... frames[count-1]
//   oldest        marked         youngest
//
// As long as the marker is in the slot of frames[m], frames[0..m] are still on the stack,
// unchanged. A sample walks from the leaf to the marker, cuts the rest of the list off, appends
// what it walked, and moves the marker to the youngest frame that may carry it. Without a marker,
// the walk continues until it meets a frame of the last sample whose older frames were found by
// words that are unchanged (csprof's memoisation, without a walk); if it meets none, to the root.
// Both build the same tree.

#include "live/live.h"
#include "track/walk/marker.h"
#include "tree/tree.h"
#include "unwind/unwind.h"
#include <stddef.h>
#include <sys/types.h>

struct walk_frame {
    uintptr_t slot; // where its return address lies; 0: none
    uintptr_t ra;   // the (true) return address
    place_t site;   // of ra
    place_t function;
    uintptr_t bp; // the caller's, or what stands for it
    ref_t node;
    uint16_t flags; // WALK_*
    int16_t fp_offset;
};

enum {
    WALK_CFI =
        1, // frame and caller are known by unwind tables, on the thread's own stack: may be marked
    // In a bounded tree (walk_bounded.c):
    WALK_DETACHED = 2, // its caller is not known: a root of its own
    WALK_ADRIFT = 4,   // it, or a frame that it was called from, is detached
    WALK_GAP = 8,      // in the list, its caller is not before it
    // As FRAME_BY_WORDS has it, on the thread's own stack.
    WALK_BY_WORDS = 16,
    // Of Python, in the frame of C that is next to it in the list and older.
    WALK_PYTHON = 32,
    // Of an interpreter of Java, with WALK_BY_WORDS: `bp` stands for more words (java.h).
    WALK_INTERPRETED = 64,
};

#define WALK_RESTS 4 // gaps that are remembered

// Where a walk of limited length was cut off, so that later samples can go on from there. It holds
// as long as the frame below it is on the stack.
struct walk_rest {
    struct walk_frame frame;        // the first that was too many
    struct caller_registers caller; // pc 0: it has none
    size_t index;                   // in the list: the frame that it called
    bool valid;
};

struct walker {
    struct arena *arena;
    ref_t tree;
    struct live_stats *stats;
    struct unwind_bounds stack; // the thread's own: where it may reach
    uintptr_t lowest;           // how far down it has reached, as samples saw it
    uint32_t use_marker;
    uint32_t keeps_returns;  // 0: frames count something else
    struct tree_traits kind; // of the tree
    uint32_t limit;          // frames that a walk may take; 0: all
    uint32_t whole;          // of a bounded tree: walks go to the root all the same (insert_path.c)
    uint32_t with_python;    // frames of Python have nodes, too
    _Atomic uint32_t abandoned; // its recording is over, and its trees are gone
    uint32_t suspended;         // > 0: the marker is neither placed nor moved (backtrace() at work)
    uintptr_t leaf;             // an address in the function of the youngest frame; 0: not known
    // program_unwinders.h: an unwinder of the program has asked for a table, from this stack
    // pointer. Set by the thread in normal context, and cleared in its samples; 0: none is at work.
    volatile uintptr_t unwinding;
    struct walk_frame *frames;
    size_t count, capacity;
    size_t marked; // index of the marked frame, while marker.entry is set
    // frames[0 .. watched) were marked, or older than a frame that was: how often they end is
    // counted, as those of the others would be by chance.
    size_t watched;
    // How many frames the marker stays away from the leaf. Each return to it costs as much as a
    // walk of some frames: for events that are more frequent than returns, it shall be rare.
    size_t slack;
    uint32_t serial; // of the marker: changes whenever one is placed; never 0 then
    struct marker marker;
    size_t guess; // of the list, up to the oldest frame whose caller was guessed; 0: none was
    enum verdict rooted; // how the walk ended that frames[0] comes from
    // The load map's generation at the last sample; 0: its frames are not to be met without a walk.
    uint32_t known_since;
    size_t loose; // how many of the oldest frames have nodes that may be forgotten
    // The stub, or walk_jump(), is at work for the frame of this CFA (0: no). A sample that sees it
    // must not touch the list.
    volatile uintptr_t in_stub;
    struct walk_rest rests[WALK_RESTS]; // of gaps in the list, by index
    size_t rest_count;
};

// A thread's tree and stack, for its tracker.
struct tracker_place {
    struct arena *arena;
    ref_t tree;
    struct live_stats *stats;
    pid_t thread;
    struct unwind_bounds stack;
};

// The walker of the calling thread, or NULL. Set by the agent.
extern __thread struct walker *walk_current;

#endif
