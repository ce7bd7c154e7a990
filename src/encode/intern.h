// SPDX-License-Identifier: MIT
#ifndef CAIRN_ENCODE_INTERN_H
#define CAIRN_ENCODE_INTERN_H

// Contexts as two numbers, small enough to be logged with every event: the id, and a handle that
// stands for all the rest: the stamp, what is on ccStack, the root of the thread, and the context
// that created the thread.
//
//   handle:  stamp (32 bits) | node (32 bits)
//
//   nodes:   origin ◄── entry ◄── entry ◄── entry      a node is an entry of ccStack on top of what
//               │          ▲                            its parent stands for: stacks share all
//               ▼          └────── entry                that they have in common
//   the creator's (id, handle, function)
//
// Any thread adds, without a lock, in a signal handler too; equal stacks get equal nodes (but for a
// lost race, which costs a node). Nothing is taken back. When the memory is full, handles are 0.

#include "encode/decode.h"

struct intern_node {
    uint64_t id;     // of the entry; of an origin: the creator's
    uint64_t handle; // 0; of an origin: the creator's, 0 if there is none
    uint32_t edge;   // GRAPH_NONE: this is an origin
    uint32_t count;  // of the entry; of an origin: the root function
    uint32_t parent; // node below; of an origin: the function that the creator was in
    uint32_t level;  // entries from the origin to here, and 1; 0: still being written
};

struct intern {
    struct intern_node *node; // node 0 is not used
    uint32_t *slot;
    uint32_t capacity; // nodes; a power of two
    uint32_t used;     // any thread adds, relaxed: nodes are published by their level
    uint64_t refused;  // any thread adds
};

// Where a thread comes from.
struct intern_origin {
    uint64_t id, handle; // of the creator; 0, 0: none
    uint32_t function;   // in which the creator was
    uint32_t root;       // where the thread begins
};

// What a thread's last stack was, so that only what is new has to be looked up.
struct intern_memo {
    struct intern_known {
        struct cc_entry entry;
        uint64_t node;
    } * known;
    uint32_t limit; // how many entries there is room for
    uint32_t count;
    uint32_t origin;
};

// As many nodes as fit into zeroed memory (aligned to 8). -ENOSPC: fewer than two.
int intern_init(struct intern *intern, void *memory, size_t bytes);

// The node of a thread's origin; 0: full. Signal-safe.
uint32_t intern_origin(struct intern *intern, const struct intern_origin *origin);

// The handle of a stack; 0: full. `memo` may be NULL. Signal-safe.
uint64_t intern_stack(struct intern *intern, uint32_t stamp, uint32_t origin,
                      const struct cc_entry *stack, uint32_t depth, struct intern_memo *memo);

static inline uint32_t handle_stamp(uint64_t handle)
{
    return (uint32_t)(handle >> 32);
}

// The context behind (id, handle) in a function, with its stack copied to `stack`, and the origin
// of its thread. Safe for any handle. 0, -ENOSPC if the stack is deeper than limit, -EBADMSG.
int intern_context(const struct intern *intern, uint64_t id, uint64_t handle, uint32_t function,
                   struct cc_entry *stack, uint32_t limit, struct context *context,
                   struct intern_origin *origin);

// Nodes that may be read by now: all below are whole.
uint32_t intern_ready(const struct intern *intern, uint32_t from);

#endif
