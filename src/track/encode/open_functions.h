// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_ENCODE_OPEN_FUNCTIONS_H
#define CAIRN_TRACK_ENCODE_OPEN_FUNCTIONS_H

// What is known of functions beyond the graph: whether they can have numbers.

#include "track/encode/encode_parts.h"

enum {
    OPEN = 1,    // may go silently to where nobody knows
    OUTSIDE = 2, // does not take part, or cannot: its calls are not followed
    NOWHERE = 4, // it is open, and the graph knows it
    UNMET = 8,   // its sites are not known yet: as good as outside
    AGAIN = 16,  // was unloaded: the encoding in force may know it
    BEYOND = 32, // calls that are left as they are end in it: nobody knows who has come here
};

struct encode_facts { // by function of the graph
    uintptr_t address;
    uint16_t flags;
    uint32_t next; // to be looked at
};

// Room for one more function. False: no memory.
bool encode_facts_reach(uint32_t function);
// What a function begins with.
struct encode_facts encode_facts_new(uintptr_t address);
struct encode_facts *encode_facts_of(uint32_t function);

// What leads silently to an open function is open, too: over the edges from one on.
void encode_spread(uint32_t first_edge);

// A library was unloaded, and the function with it: it is met again if it is called.
void encode_unmeet(uint32_t function);
// Whether a function that was met again cannot have the numbers any more that it had.
bool encode_has_opened(uint32_t function);

// A function may go there silently; `behind` the instruction that does it. A target of 0 is not
// known.
void encode_add_silent(uint32_t from, uintptr_t behind, uintptr_t target, enum edge_kind kind);

// Where the function begins that a pc is in; 0: no table covers it.
uintptr_t encode_start_of(uintptr_t pc);

// Where a word of the GOT, or a PLT entry, leads to.
uintptr_t encode_target_behind(uintptr_t from, uintptr_t target, uintptr_t slot);

// An instruction of the function that stays as it is.
void encode_add_stays(uint32_t function, uintptr_t address, enum site_stays why);

// Compilers put cold code elsewhere, with a table of its own: to walks it is a function.
void encode_add_parts(uint32_t function);

#endif
