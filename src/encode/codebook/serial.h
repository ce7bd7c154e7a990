// SPDX-License-Identifier: MIT
#ifndef CAIRN_ENCODE_CODEBOOK_SERIAL_H
#define CAIRN_ENCODE_CODEBOOK_SERIAL_H

// The graph, the dictionaries and the interned stacks as bytes, for the profile, and back. A stream
// is a sequence of sections in any order that makes sense (what a section speaks of has come
// before); it can be written and read piece by piece while the program runs. All numbers are LEB128
// varints, "signed" ones zigzag.
//
//   1  graph        first function, count, for each: entry - that of the one before (signed)
//                   first edge, count, for each: caller - that of the edge before (signed), callee
//                   - caller (signed), site - entry of the caller (signed), kind + 8 * flags
//   4  dictionary   stamp, 0, functions, edges known, max id, lists; for each: the number of its
//                   function - that of the one before - 1, four times how many edges (+ 1 if it
//                   keeps the id 0 for others, + 2 if it has no ids of its own), for each: its
//                   number - that before (signed)
//   2               the same of an encoding whose ranges begin with 0 (dictionary.h)
//   3  stacks       first node, count, for each:
//                   0, id, root + 1, function + 1, handle     of an origin
//                   1, place, function + 1, parent            of a point
//                   2, site, function, parent                 of a frame
//                   3 + edge, id, count, parent               of an entry
//                   with parent - number of the node (signed)
//
// A dictionary is written as the lists of encoded edges of each function; the numbers follow from
// the lists and the silent edges. So the reader need not believe any number, and what it accepts
// can be decoded.

#include "encode/codebook/intern.h"

enum serial_section {
    SECTION_GRAPH = 1,
    SECTION_DICTIONARY_FROM_ZERO = 2,
    SECTION_STACKS = 3,
    SECTION_DICTIONARY = 4,
};

// Where bytes are put. When there is no room they are only counted.
struct serial {
    uint8_t *data;
    size_t size, capacity;
};

// Functions and edges from those numbers on. The writer's lock is held.
void serial_graph(struct serial *out, const struct graph *graph, uint32_t from_function,
                  uint32_t from_edge);

void serial_dictionary(struct serial *out, const struct dictionary *dictionary);

// Nodes in [from, to), to being intern_ready(); `nodes` is the first of them.
void serial_stacks(struct serial *out, const struct intern_node *nodes, uint32_t from, uint32_t to);

#endif
