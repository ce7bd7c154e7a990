// SPDX-License-Identifier: MIT
#ifndef CAIRN_TESTS_HOT_FIXTURE_H
#define CAIRN_TESTS_HOT_FIXTURE_H

// Streams of calls through a hot tree, with exact counts beside it.
//
// A context is a path of digits. Its name is the number that they make, behind a leading 1:
// 1 is the root, 14 its child by the edge of digit 4 (in base 10), 142 a child of that.

#include "tree/hot.h"

struct stream {
    struct arena arena;
    size_t bytes;
    ref_t tree;
    unsigned base, depth; // of contexts
    ref_t *edges;         // by digit
    uint64_t names;       // all are below
    uint64_t *exact;      // by name
    uint64_t charged;     // N
    uint64_t events;
    uint64_t random;
    bool by_calls; // the last step of a path and its charge are one: tree_call()
    bool by_hooks; // contexts that are monitored are counted without telling the miner
};

// Trees of hot contexts, with so many counters; and full ones.
struct tree_options hot_options(unsigned miner, uint64_t counters);
struct tree_options full_options(void);

void stream_open(struct stream *stream, size_t bytes, const struct tree_options *options,
                 unsigned base, unsigned depth);
void stream_close(struct stream *stream);

// The generator is the same on every machine.
uint64_t stream_random(struct stream *stream);

// A name, hot contexts being far more likely: each digit is the least of `skew` random ones.
uint64_t stream_skewed(struct stream *stream, unsigned skew);

// Goes to the context from the root, and charges it. False if it found no place.
bool stream_charge(struct stream *stream, uint64_t name, uint64_t amount);

// The name of a node's context; 0 if its path leads through a free node.
uint64_t stream_name(const struct stream *stream, ref_t node);

// Bytes of the arena that are taken.
uint64_t stream_used(const struct stream *stream);

struct tree_hot stream_state(const struct stream *stream);

// Fails the test unless the tree is as it must be: monitored contexts, the current and the pinned
// one, and their ancestors, each once among the children of its parent; M as the nodes tell; counts
// that add up; counts and errors that bound what is true.
void stream_check(const struct stream *stream);

// Fails unless each context of at least this cost is monitored.
void stream_check_found(const struct stream *stream, uint64_t cost);

#endif
