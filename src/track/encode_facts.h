// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_ENCODE_FACTS_H
#define CAIRN_TRACK_ENCODE_FACTS_H

// What is known of functions beyond the graph: whether they can have numbers.

#include "track/encode_parts.h"

enum {
    OPEN = 1,       // may go silently to where nobody knows
    PUSHES = 2,     // may go silently to where nobody knew before: its hook tells
    TAILS = 4,      // has a jump with such a hook
    LEFT = 8,       // has left by it
    NEWS = 16,      // to where nobody knew when the encoding in force was made
    HOT = 128,      // is called often, or calls
    DOUBTED = 64,   // somebody has come here whom the encoding in force does not know
    UNLOOKED = 256, // its sites are not known yet: as good as open
};

struct encode_facts { // by function of the graph
    uintptr_t address;
    uint16_t flags;
    uint8_t surprises; // jumps to where nobody knew, when that was not expected any more
    uint8_t calm;      // encodings since one led to where nobody knew
    uint32_t next;     // to be looked at
};

// Room for one more function. False: no memory.
bool encode_facts_reach(uint32_t function);
struct encode_facts *encode_facts_of(uint32_t function);

// What leads silently to an open function is open, too: over the edges from one on.
void encode_spread(uint32_t first_edge);

// A jump of a function has gone where nobody knew. True: when that was not expected any more.
bool encode_surprise(uint32_t caller, uint32_t callee);

#endif
