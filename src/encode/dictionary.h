// SPDX-License-Identifier: MIT
#ifndef CAIRN_ENCODE_DICTIONARY_H
#define CAIRN_ENCODE_DICTIONARY_H

// What one encoding means, for ever. Each re-encoding has a time stamp and a dictionary, so that a
// context that was recorded under a stamp can be decoded at any later time.
//
// For each function n, `contexts` is the number of acyclic paths of encoded edges that end in it
// (the paper's numCC; 1 if none leads to it), and its encoded incoming edges, in the order of their
// numbers, cut the range [0, contexts) into one part per edge: part i begins at the edge's number
// (En) and is as long as its caller has contexts.
//
//   contexts of D = 3:   id 0 ........ 1 ........ 2
//                        └─ from B ──┘ └─ from C ┘      B: 1 context, number 0; C: 2, number 1
//
// Numbers follow from the ordered lists of edges alone, so these are all that a profile needs to
// keep. (A function that silent edges lead to may keep the id 0 for them: its first edge has 1.)
// Ids go from 0 to max_id in a sub-path that began at the root of its thread, and from max_id + 1
// to 2 * max_id + 1 in one that began with an unencoded edge.

#include "encode/graph.h"

struct dictionary_step { // one encoded edge, into the function that owns it
    uint64_t start;      // the edge's number
    uint32_t caller;
    uint32_t edge;
};

struct dictionary_function {
    uint64_t contexts;
    uint32_t first; // its steps
    uint32_t count;
};

struct dictionary {
    uint32_t stamp;
    uint32_t functions; // those known when it was made; later ones have one context, no step
    uint32_t edges;     // known when it was made
    uint32_t steps;
    uint64_t max_id;
    uint32_t overflows; // edges that did not fit
    size_t bytes;       // of this mapping
    const struct dictionary_function *function;
    const struct dictionary_step *step;
};

enum dictionary_overflow {
    OVERFLOW_CUTS,  // edges that do not fit are left out
    OVERFLOW_FAILS, // they make the plan invalid
};

// The lists that make a dictionary: edges[first[f] .. first[f + 1]) lead to function f, in the
// order of their numbers.
struct dictionary_plan {
    uint32_t stamp;
    uint32_t functions, edges_known;
    const uint32_t *first;
    const uint32_t *edges;
    const bool *reserved; // by function: its numbers begin with 1; NULL: all with 0
    unsigned id_bits;     // 2 * max_id + 1 must fit
    enum dictionary_overflow overflow;
    uint64_t cold; // edges of less heat are left out, but for the first of each list
};

// 0, -ENOMEM, -ELOOP if the edges run in a circle, -EOVERFLOW.
int dictionary_build(const struct graph *graph, const struct dictionary_plan *plan,
                     struct dictionary **result);
void dictionary_free(const struct graph *graph, struct dictionary *dictionary);

// What a sub-path that begins with an unencoded edge begins with.
static inline uint64_t dictionary_base(const struct dictionary *dictionary)
{
    return dictionary->max_id + 1;
}

// The edge by which a path with that id (without the base) enters a function; NULL: there is no
// such path. Signal-safe.
static inline const struct dictionary_step *dictionary_find(const struct dictionary *dictionary,
                                                            uint32_t function, uint64_t id)
{
    if (function >= dictionary->functions)
        return NULL;
    const struct dictionary_function *into = &dictionary->function[function];
    if (into->count == 0 || id >= into->contexts)
        return NULL;
    const struct dictionary_step *step = &dictionary->step[into->first];
    for (uint32_t count = into->count; count > 1;) {
        uint32_t half = count / 2;
        step = step[half].start <= id ? step + half : step;
        count -= half;
    }
    return step->start <= id ? step : NULL;
}

// Whether the id 0 of a function is kept for silent edges.
static inline bool dictionary_reserves(const struct dictionary *dictionary, uint32_t function)
{
    return function < dictionary->functions && dictionary->function[function].count > 0 &&
           dictionary->step[dictionary->function[function].first].start > 0;
}

#endif
