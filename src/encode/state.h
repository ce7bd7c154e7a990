// SPDX-License-Identifier: MIT
#ifndef CAIRN_ENCODE_STATE_H
#define CAIRN_ENCODE_STATE_H

// The context of a running thread as numbers, and what a call and its return do to it.
//
// A context is (id, ccStack), together with the function that the thread is in and the root of the
// thread. The id is the number of the current sub-path, which began at the root, or with the
// unencoded edge on top of ccStack; the entries hold the numbers of the sub-paths before.
//
//   main ─0─► a ─2─► b ┄┄► c ─1─► d          id = base + 1
//                       unencoded            ccStack: (id 2, edge b→c, 0)
//
// A call does what its *word* says, and its return undoes it:
//
//   0 or more       id += word, of which the lower 63 bits count      id -= word
//   WORD_PUSH       push (id, edge, 0); id = first                    id = that of the top; pop
//   WORD_REPEATS    as WORD_PUSH; but if (id, edge) is on top         the same; if the top was
//                   already, count it there                           counted, count it down
//
// `first` is the id that the callee begins with in the encoding: base + dictionary_own().
//
// Stubs and hooks in assembler (src/track/encode/*.S) do the same; tests/unit/test_encode_hooks.c
// compares the two.

#include <stdbool.h>
#include <stdint.h>

struct cc_entry {
    uint64_t id; // before the call
    uint32_t edge;
    uint32_t count; // how often the same call was repeated, with the same id
};

struct context_state {
    uint64_t id;
    uint32_t depth, limit; // entries of ccStack in use, and what there is room for
    struct cc_entry *stack;
    uint32_t root; // the function that the thread began in
    uint32_t over; // pushes that found no room: counted, not kept. The context is not known then
};

// An id has its number in the lower bits. In an open function, which may lead to where nobody
// knows, it has ID_OPEN as well, and below a call that leaves what is encoded ID_OUTSIDE: so
// whatever is reached from there unseen finds an id that it never has. Calls from open functions
// take ID_OPEN off, which is to add its complement: words that add are positive. A carry
// beyond the last bit means nothing.
//
// Numbers of edges may be negative, but the sum of those on a path is at least -max_id, and max_id is
// below a quarter of ID_OUTSIDE: so no path leads from an id with that to one that could be.
#define ID_BITS 48
#define ID_NUMBER_BITS 47 // of 2 * max_id + 1
#define ID_OUTSIDE (UINT64_C(1) << ID_BITS)
#define ID_OPEN (UINT64_C(1) << 55)
#define ID_MASK (UINT64_MAX >> 1)
#define ID_NONE UINT64_MAX

// The number of an id in a function; ID_NONE: it is not one of the function's.
static inline uint64_t id_number(uint64_t id, bool open)
{
    const uint64_t number = (id & ID_MASK) - (open ? ID_OPEN : 0);
    return number >> ID_BITS ? ID_NONE : number;
}

#define WORD_PUSH INT64_MIN                      // pushes the edge in the lower half
#define WORD_REPEATS (INT64_C(1) << 32)          // or counts it, if it is on top already
#define WORD_LONG (INT64_MIN | INT64_C(1) << 62) // the driver decides each time

static inline bool word_is_long(int64_t word)
{
    return (word & WORD_LONG) == WORD_LONG;
}

// All of these are signal-safe, and a handler that calls and returns in balance may interrupt them
// anywhere. The word is not a long one.
void context_call(struct context_state *state, int64_t word, uint64_t first);
void context_return(struct context_state *state, int64_t word);
void context_reset(struct context_state *state, uint64_t first); // back in the root

// A hash of the id, ccStack, and the place that a thread is at, for caches of contexts. No entry
// waits for another one: each has a factor by its place, which is odd.
static inline uint64_t context_key(const struct context_state *state, uint64_t place)
{
    const uint64_t other = UINT64_C(0xff51afd7ed558ccd);
    uint64_t factor = UINT64_C(0x9e3779b97f4a7c15), key = place * other + state->id;
    key = (key ^ key >> 32) * factor;
    for (const struct cc_entry *entry = state->stack, *end = entry + state->depth; entry < end;
         entry++, factor += UINT64_C(0xd6e8feb86659fd92)) {
        const uint64_t word = entry->id * other + ((uint64_t)entry->edge << 32 | entry->count);
        key += (word ^ word >> 32) * factor;
    }
    return key ^ key >> 32;
}

#endif
