// SPDX-License-Identifier: MIT
#ifndef CAIRN_TREE_HOT_H
#define CAIRN_TREE_HOT_H

// The tree of hot contexts (HCCT, by D'Elia, Demetrescu and Finocchi): the contexts that a miner
// monitors, and their ancestors.
//
//   root                                   ● monitored: value[0] its count, value[1] the error
//    ├─ ● main                             ○ there for its descendants alone: both are 0
//    │   ├─ ○ parse                        (the bit TREE_UNMONITORED is set in its edge)
//    │   │   └─ ● token
//    │   └─ ● eval                         of N: all that was charged; of M: the ● of the tree
//    └─ ...
//
// Each leaf is monitored, except two. The current context (the last that was asked for or charged)
// is pruned as soon as another one is asked for that is not below it. The pinned one is kept for a
// tracker. A context that loses its counter goes if it is a leaf, and then those of its ancestors
// that are no longer of use (Algorithm 1 of the paper). Its node is given to the next new context,
// so what is held between two calls here must be the current context, the pinned one, or an
// ancestor of either. A reference that is not is no danger, but may have become another context; a
// free node's stands for the root.
//
// A full tree whose arena is full continues like this, with the part that the arena has kept back.
// The nodes it has stay exact. New ones have two values, lie in blocks of their own, and come and
// go; as many are monitored as there is memory for. No more than half of what is left is taken, so
// that other threads' trees can go on, too.

#include "tree/layout.h"
#include "tree/miners/miner.h"

enum { HOT_METRICS = 2, HOT_FANOUTS = 27 };

struct hot {
    struct miner miner;
    // The fields below are for the writer alone.
    ref_t current;
    ref_t pinned;
    ref_t free_node;            // linked by sibling
    ref_t block;                // the newest one
    ref_t fanouts[HOT_FANOUTS]; // free ones, by size: linked by the second word
    uint64_t bytes_left;        // of what may be taken from the part that is kept back
};

static inline struct hot *hot_of(const struct arena *arena, const struct tree *tree)
{
    return arena_at(arena, tree->more);
}

static inline bool hot_comes_and_goes(const struct tree *tree, ref_t node)
{
    return tree_is_forgetting(tree) && node >= tree->hot_from;
}

// A tree of its own kind; or, where there is no room for a full one, a full one without any exact
// node, in what is kept back.
ref_t hot_new(struct arena *arena, const struct tree_options *options);
ref_t hot_new_in_kept(struct arena *arena, const struct tree_options *options);

// The arena is full, and the tree shall go on as far as something was kept back.
void hot_take_over(struct arena *arena, ref_t tree);

// How much the tree may still take of the part that is kept back; and notes that it has taken some.
uint64_t hot_room(const struct arena *arena, const struct tree *tree);
void hot_spend(const struct arena *arena, const struct tree *tree, uint64_t bytes);

ref_t hot_child(struct arena *arena, ref_t tree, ref_t parent, ref_t edge);
// The frame itself, or the root for one that is free: there are no statements.
ref_t hot_unplaced(struct arena *arena, ref_t tree, ref_t frame);

void hot_charge(struct arena *arena, ref_t tree, ref_t node, uint64_t amount);

// Both in one.
ref_t hot_call(struct arena *arena, ref_t tree, ref_t parent, ref_t edge, uint64_t amount);

void hot_pin(struct arena *arena, ref_t tree, ref_t node);

// The hashes of nodes with many children, when they are not needed any more. 0: there is none.
ref_t hot_take_fanout(const struct arena *arena, const struct tree *tree, uint32_t slots);
void hot_give_fanout(const struct arena *arena, const struct tree *tree, ref_t fanout,
                     uint32_t slots);

#endif
