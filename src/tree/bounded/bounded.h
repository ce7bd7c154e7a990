// SPDX-License-Identifier: MIT
#ifndef CAIRN_TREE_BOUNDED_BOUNDED_H
#define CAIRN_TREE_BOUNDED_BOUNDED_H

// The bounded tree: the partial calling context tree (PCCT), of a few frames of each sample, in one
// buffer of fixed size.
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
// One writer, the thread that owns the tree; all that it does is safe in a signal handler, and
// allocates nothing after the buffer. Readers read it as any tree (tree/stable.h).
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

struct bounded_call {
    place_t site, function;
    uint64_t cost; // is added to the weight of the edge
    ref_t held;    // 0, or a node that must stay, and its ancestors
};

// The frame below `parent`, made if it is new. Never searches below a node that was just made.
// Where that makes room, and the tree forgets by age, others are forgotten, but neither `parent`
// nor what is held. 0: there is no room, call bounded_empty() and begin again.
ref_t bounded_enter(struct arena *arena, ref_t tree, ref_t parent, const struct bounded_call *call);

// The same if there is one; 0: there is none. Changes nothing.
ref_t bounded_find(const struct arena *arena, ref_t tree, ref_t parent, place_t site,
                   place_t function);

// Forgets everything but the root.
void bounded_empty(struct arena *arena, ref_t tree);

// The tree is as new: nothing was ever charged. For its owner alone.
void bounded_reset(struct arena *arena, ref_t tree);

// Adds to the cost of the context itself. Of the root, too.
void bounded_charge(struct arena *arena, ref_t tree, ref_t node, uint64_t cost);

// In the place of tree_child() and tree_call(): contexts are entered by the functions above, after
// bounded_begin(). 0.
ref_t bounded_no_child(struct arena *arena, ref_t tree, ref_t parent, ref_t edge);
ref_t bounded_no_call(struct arena *arena, ref_t tree, ref_t parent, ref_t edge, uint64_t amount);

// The root.
ref_t bounded_unplaced(struct arena *arena, ref_t tree, ref_t frame);

// True if `node` still is the child of `parent` by that edge: for references that were not held.
bool bounded_is(const struct arena *arena, ref_t tree, ref_t node, ref_t parent,
                const struct edge *edge);

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

#endif
