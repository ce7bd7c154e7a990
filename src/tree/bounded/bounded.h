// SPDX-License-Identifier: MIT
#ifndef CAIRN_TREE_BOUNDED_BOUNDED_H
#define CAIRN_TREE_BOUNDED_BOUNDED_H

// The bounded tree: the partial calling context tree (PCCT). The bounded tree: a few frames of each
// sample, in one buffer of fixed size, with the hottest contexts and calls at hand at any time.
//
//   root
//    ├─ frame  edge = (site, function)    value[0] = cost of the context itself
//    │   └─ frame ...                     value[1] = cost of the samples in which its call was new
//    ├─ frame  edge = (0, function)       where the thread begins: nobody called it
//    └─ frame  edge = (?, function)       a detached root: what called it was too far away
//
// The site of a detached root is PLACE_UNKNOWN. value[1] distinguishes a function that is called
// often from one that takes long: a call that was there in the last sample adds nothing to it.
//
// One buffer holds all: the nodes, their edges, and the hashes that find them (see
// bounded_layout.h). When it is full, contexts are forgotten: all of them, or those that were not
// touched for longest, from the leaves inward. Their cost is counted, so that sums stay right.
//
// Order. The lists of the paper are sorted at all times: where many weights are alike, a node that
// grows passes all its equals, one by one. Here a list stands for a range of weights, four to each
// power of two. A node changes lists when its weight leaves the range, in constant time. The few
// that a reader asks for are sorted then.
//
// One writer, the thread that owns the tree; all that it does is safe in a signal handler, and
// allocates nothing after the buffer. Readers may look at the lists from any thread of the process,
// or from another one that maps the memory.
//
// A tree of functions is the same with nothing but children of the root: a counter per function.

#include "tree/tree.h"

// A new tree of kind bounded or functions, its buffer not yet taken. 0 when the arena is full. For
// tree_new().
ref_t bounded_new(struct arena *arena, const struct tree_options *options);

// Before a sample: takes the buffer, if that is still to be done. The sample's calls of
// bounded_enter() come next, from the oldest frame to the youngest. False if there is no buffer and
// never will be: it is too small, or was refused.
bool bounded_begin(struct arena *arena, ref_t tree);

// The frame below `parent`, made if it is new; `cost` is added to the weight of the edge. Never
// searches below a node that was just made. Where that makes room, and the tree forgets by age,
// others are forgotten, but neither `parent` nor `held` (0: none), nor their ancestors. 0: there is
// no room, call bounded_empty() and begin again.
ref_t bounded_enter(struct arena *arena, ref_t tree, ref_t parent, place_t site, place_t function,
                    uint64_t cost, ref_t held);

// The same if there is one; 0: there is none. Changes nothing.
ref_t bounded_find(const struct arena *arena, ref_t tree, ref_t parent, place_t site,
                   place_t function);

// Forgets everything but the root.
void bounded_empty(struct arena *arena, ref_t tree);

// The tree is as new: nothing was ever charged. For its owner alone.
void bounded_reset(struct arena *arena, ref_t tree);

// Adds to the cost of the context itself. Of the root, too.
void bounded_charge(struct arena *arena, ref_t tree, ref_t node, uint64_t cost);

// True if `node` still is the child of `parent` by that edge: for references that were not held.
bool bounded_is(const struct arena *arena, ref_t tree, ref_t node, ref_t parent, place_t site,
                place_t function);

// The counter of a function, room made as need be: to be charged. The root, if there is no room at
// all.
ref_t bounded_counter(struct arena *arena, ref_t tree, place_t function);

// Nodes that the buffer has room for; 0 before it was taken.
uint32_t bounded_capacity(const struct arena *arena, ref_t tree);

// The cost of contexts that were forgotten so far.
uint64_t bounded_purged(const struct arena *arena, ref_t tree);

// How often the records of edges were given to other edges. A reader that keeps edges by their
// references forgets them when this changes, and reads anew if it changed while it read.
uint32_t bounded_edge_epoch(const struct arena *arena, uint64_t arena_bytes, ref_t tree);

// The orders that readers may ask for.
enum bounded_order {
    BOUNDED_BY_COST, // contexts, or functions, by the cost of their own
    BOUNDED_BY_EDGE, // calls, by the weight of their edges
};

struct bounded_item {
    uint64_t weight;
    ref_t node;
    ref_t parent;
    struct edge edge;
};

// Copies the heaviest, at most `most` of them, in descending order. Returns how many. From any
// thread, while the tree changes: never faults, and takes a bounded number of steps; an item whose
// weight changes at that very moment may be missing.
size_t bounded_heaviest(const struct arena *arena, uint64_t arena_bytes, ref_t tree,
                        enum bounded_order order, struct bounded_item *items, size_t most);

#endif
