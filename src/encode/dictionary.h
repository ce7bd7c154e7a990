// SPDX-License-Identifier: MIT
#ifndef CAIRN_ENCODE_DICTIONARY_H
#define CAIRN_ENCODE_DICTIONARY_H

// The meaning of one encoding, for ever. Each re-encoding has a time stamp and a dictionary, so
// that a context that was recorded under a stamp can be decoded at any later time.
//
// For each function n, `contexts` is the number of acyclic paths of encoded edges that end in it
// (the paper's numCC; 1 if none leads to it), and its encoded incoming edges, in the order of their
// numbers, cut the range [0, contexts) into one part per edge: part i begins at the edge's number
// (En) and is as long as its caller has contexts.
//
//   contexts of D = 3:   id 0 ........ 1 ........ 2
//                        └─ from B ──┘ └─ from C ┘      B: 1 context, number 0; C: 2, number 1
//
// Numbers follow from the ordered lists of edges and the silent edges of the graph alone, so these
// are all that a profile needs to keep.
//
// Where silent edges lead to a function (silent_edges.h), its range is made of parts, which need
// not touch: one for each function that leads to it, and its own, for those who call it. So a range
// need not begin with 0 either, but with `begin`. Nothing below that is counted: an edge cuts off
// as much as its caller's range is long, and its number is the distance between the begins of the
// two parts, which may be negative. A function's own part begins where its hottest caller's range
// does, if it can: then that edge's number is 0.
//
//   ids of A: 7 8 9      A calls B, B's own part: 7 8 9 | 10 11     number of A→B: 0
//   ids of C: 2 3        C calls B                A calls   C calls           C→B: 8
//
// A sub-path that begins with a function has the first id of its own part (`own`). Ids go from 0 to
// max_id in a sub-path that began at the root of its thread, and from max_id + 1 to 2 * max_id + 1
// in one that began with an unencoded edge.

#include "encode/graph/silent_edges.h"

struct dictionary_step { // one encoded edge, into the function that owns it
    uint64_t start;      // where its part begins
    uint32_t caller;
    uint32_t edge; // GRAPH_NONE: `caller` has led here silently, start is where its own part begins
};

struct dictionary_function {
    uint64_t begin;        // no id is below that
    uint64_t contexts;     // all ids are below that
    uint64_t own, own_end; // the part of those who call it
    uint32_t first;        // its steps
    uint32_t count;
    uint32_t calls;     // of these, those that are calls
    uint8_t reserved;   // the id 0 is kept for those without a part
    uint8_t has_no_own; // ids do not suffice for a part: see struct dictionary_plan
};

enum dictionary_ranges {
    RANGES_FROM_BEGIN,
    RANGES_FROM_ZERO, // of profiles before minor version 14: each range began with 0, and so did the
                      // root of a thread
};

struct dictionary {
    uint32_t stamp;
    uint32_t functions; // those known when it was made; later ones have one context, no step
    uint32_t edges;     // known when it was made
    uint32_t steps;     // calls
    uint64_t max_id;
    uint32_t overflows; // edges that did not fit
    uint32_t left_out;  // cold edges that would have
    uint32_t homeless;  // functions whose own part did not fit
    enum dictionary_ranges ranges;
    size_t bytes; // of this mapping
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
    const bool *reserved; // by function: the id 0 is kept for those that lead there silently and
                          // have no part; NULL: none
    bool *has_no_own; // by function: it has no part of its own, all calls of it push, and then its
                      // id is 0. With OVERFLOW_CUTS those that do not fit are added
    struct silent_edges *silent;
    unsigned id_bits; // 2 * max_id + 1 must fit
    enum dictionary_ranges ranges;
    enum dictionary_overflow overflow;
    uint64_t cold; // edges of less heat are left out, but for the first of each list
};

// 0, -ENOMEM, -ELOOP if the edges run in a circle, -EOVERFLOW.
int dictionary_build(const struct graph *graph, const struct dictionary_plan *plan,
                     struct dictionary **result);
void dictionary_free(const struct graph *graph, struct dictionary *dictionary);

// The first id of a sub-path that begins with an unencoded edge.
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
    const struct dictionary_function *from = &dictionary->function[step->caller];
    const uint64_t length =
        step->edge == GRAPH_NONE ? from->own_end - step->start : from->contexts - from->begin;
    return step->start <= id && id - step->start < length ? step : NULL;
}

// The number that a call by a step adds to the id, of which the lower bits count.
static inline uint64_t dictionary_number(const struct dictionary *dictionary,
                                         const struct dictionary_step *step)
{
    return step->start - dictionary->function[step->caller].begin;
}

// The id of a sub-path that begins with a function, without the base.
static inline uint64_t dictionary_own(const struct dictionary *dictionary, uint32_t function)
{
    return function < dictionary->functions ? dictionary->function[function].own : 0;
}

// The id of a thread that is in its root.
static inline uint64_t dictionary_root(const struct dictionary *dictionary, uint32_t root)
{
    return dictionary->ranges == RANGES_FROM_BEGIN ? dictionary_own(dictionary, root) : 0;
}

#endif
