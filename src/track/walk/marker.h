// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_WALK_MARKER_H
#define CAIRN_TRACK_WALK_MARKER_H

// The marker: one return address per thread, replaced by the address of a stub.
//
//      younger                                    older
//   leaf │ ... │ G                │ H │ ... │ main │ _start
//              slot of G: marker_stub ──► table[hash(CFA of G)]: true return address, CFA, owner
//
// A sample walks until it reads marker_stub: everything older is known. When G returns, it returns
// into the stub, which asks marker_returned() for the true address (and so moves the marker to H's
// slot), and jumps there.
//
// The table entry follows from the stack address alone. So the stub works on any thread (a
// coroutine may have been moved), in a forked child, and when the owner has lost track of it.
// Entries that were given back keep their words until they are claimed anew, and markers that were
// lost are buried in a second table, because a program may copy a stack away and put it back later
// (greenlets, continuations).
//
// See-through: the unwind table of the stub is an expression over the same hash table, so
// exceptions and debuggers walk on to H. Backtraces would have a frame more: there is no marker
// while the program makes one (program_unwinders.h). The stub's personality routine takes the
// marker away in the search phase of an exception. So the second phase, which identifies frames by
// their CFA, never meets two frames of one CFA. If a marker was placed since (by a sample in a
// destructor), the second phase begins again without it.
//
// Invariants:
//  - a slot holds marker_stub only while the table has its CFA (or it is buried);
//  - a thread owns at most one entry;
//  - nothing here touches a vector register: results may be in them.

#include <stdbool.h>
#include <stdint.h>

struct marker_entry; // in the table
struct marker_owner; // a thread, seen from here

// Where the marker of a thread is.
struct marker {
    struct marker_entry *entry; // NULL: not placed
    uintptr_t slot;             // the stack slot that holds marker_stub
};

// The first and one past the last byte of the stub's code, and the address that is put into slots.
extern const unsigned char marker_code[], marker_code_end[], marker_stub[];

static inline bool marker_is_stub(uintptr_t address)
{
    return address == (uintptr_t)marker_stub;
}

static inline bool marker_in_code(uintptr_t pc)
{
    return pc >= (uintptr_t)marker_code && pc < (uintptr_t)marker_code_end;
}

// Once, in normal context, before the first marker is placed.
void marker_start(void);

// Replaces the return address in slot. False if the slot does not hold `expected`, or its table
// entry is taken. Signal-safe; only for the calling thread's own stack.
bool marker_place(struct marker *marker, uintptr_t slot, uintptr_t expected);

// Takes the marker away: puts the true address back if the slot still holds the stub. Signal-safe.
void marker_lift(struct marker *marker);

// The same by another thread, while the marked frame may return at any moment. The entry keeps its
// words, for a stub that is on its way.
void marker_take_away(struct marker *marker);

// Gives the entry up without touching the stack: the frame was cut away. Signal-safe.
void marker_bury(struct marker *marker);

// The true return address behind a stub met in the slot below cfa, 0 if it is not known.
// Signal-safe.
uintptr_t marker_truth(uintptr_t cfa);

// True if the entry still belongs to this marker (another thread may have returned through it).
bool marker_is_mine(const struct marker *marker);

// The owners of markers, in walk.c.

// The frame marked by `marker` has returned. False if it is not the calling thread's.
bool walk_marker_returned(struct marker *marker, uintptr_t cfa);

// An exception meets the calling thread's marker. The true return address, 0 if there is no marker.
uintptr_t walk_lift_for_exception(void);

#endif
