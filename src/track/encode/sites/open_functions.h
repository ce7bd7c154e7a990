// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_ENCODE_SITES_OPEN_FUNCTIONS_H
#define CAIRN_TRACK_ENCODE_SITES_OPEN_FUNCTIONS_H

// Facts about functions beyond the graph: whether they can have numbers.

#include "encode/graph/graph.h"
#include "track/encode/threads/threads.h"

enum {
    FUNCTION_OPEN = 1,             // may go silently to where nobody knows
    FUNCTION_OUTSIDE = 2,          // does not take part, or cannot: its calls are not followed
    FUNCTION_HAS_OPEN_EDGE = 4,    // it is open, and the graph knows it
    FUNCTION_NOT_INSTRUMENTED = 8, // its sites are not known yet: as good as outside
    FUNCTION_RELOADED = 16,        // was unloaded: the encoding in force may know it
    FUNCTION_REACHED_UNSEEN =
        32, // calls that are left as they are end in it: nobody knows who has come here
};

struct encode_function { // by function of the graph
    uintptr_t address;
    uint16_t flags;
    uint32_t next; // to be looked at
};

// Room for one more function. False: no memory.
bool encode_function_reserve(uint32_t function);
// The facts that a function begins with.
struct encode_function encode_function_new(uintptr_t address);
struct encode_function *encode_function_of(uint32_t function);

// A function that leads silently to an open one is open, too: over the edges from one on.
void encode_spread_open(uint32_t first_edge);

// A library was unloaded, and the function with it: it is met again if it is called.
void encode_forget_function(uint32_t function);
// Whether a function that was met again cannot have the numbers any more that it had.
bool encode_has_become_open(uint32_t function);

// The encoding in force does not hold any more for some function: no number is told until there is
// another one, soon.
void encode_invalidate(void);
// Before the edges are numbered: which of them may be.
void encode_choose_edges(void);

// ---- signal-safe

// Whether a function may be left silently in ways that are not in the graph.
bool encode_is_open(uint32_t function);
// Whether its calls are not followed.
bool encode_is_outside(uint32_t function);
// Whether calls that are left as they are end in the function: nobody knows who has come there.
bool encode_is_reached_unseen(uint32_t function);
// Whether nothing but its site stands against a number for the edge.
bool encode_may_number(uint32_t edge);
// Whether a call leads out of what is encoded.
bool encode_leads_outside(uint32_t edge);
// Whether the number that a thread has there is not that of the function: it does not take part,
// or was reached unseen.
bool encode_lacks_number(const struct encode_thread *thread, place_t function);

#endif
