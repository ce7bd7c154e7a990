// SPDX-License-Identifier: MIT
#ifndef CAIRN_ENCODE_CODEBOOK_INTERN_H
#define CAIRN_ENCODE_CODEBOOK_INTERN_H

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
// Two more kinds of nodes make a handle stand for a whole context. A *point* on top says where in
// the code, and in which function, the context was asked for. *Frames* take the place of entries
// where the number of a thread means nothing, and its stack was walked:
//
//   origin ◄── entry ◄── entry ◄── point          origin ◄── frame ◄── frame ◄── point
//
// Any thread adds, without a lock, in a signal handler too; equal stacks get equal nodes (but for a
// lost race, which costs a node). Nothing is taken back. When the memory is full, handles are 0.

#include "encode/decode.h"

// The kind of a node, in the place of its edge.
#define INTERN_ORIGIN GRAPH_NONE
#define INTERN_POINT (GRAPH_NONE - 1)
#define INTERN_FRAME (GRAPH_NONE - 2)

struct intern_node {
    uint64_t id;     // of the entry; of an origin: the creator's; of a point: its place; of a
                     // frame: the place of the call, 0 for the outermost one
    uint64_t handle; // 0; of an origin: the creator's, 0 if there is none; of a frame: the place
                     // of its function, 0 for all that a walk did not reach
    uint32_t edge;   // or INTERN_ORIGIN, INTERN_POINT, INTERN_FRAME
    uint32_t count;  // of the entry; of an origin: the root function; of a point: the function
                     // that it is in; GRAPH_NONE where frames are walked
    uint32_t parent; // node below; of an origin: the function that the creator was in
    uint32_t level;  // nodes from the origin to here; 0: still being written
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

// The bytes that it uses of so many; and those that so many nodes take.
size_t intern_bytes(size_t bytes);
size_t intern_bytes_for(uint32_t nodes);

// As many nodes as fit into zeroed memory (aligned to 8). -ENOSPC: fewer than two.
int intern_init(struct intern *intern, void *memory, size_t bytes);

// The node of a thread's origin; 0: full. Signal-safe.
uint32_t intern_origin(struct intern *intern, const struct intern_origin *origin);

// The node of a stack; 0: full, or there is no origin. Signal-safe.
uint32_t intern_stack(struct intern *intern, uint32_t origin, const struct cc_entry *stack,
                      uint32_t depth);

// A point, or a frame, on top of a node; 0: full, or there is no such node. Signal-safe.
uint32_t intern_point(struct intern *intern, uint32_t parent, place_t place, uint32_t function);
uint32_t intern_frame(struct intern *intern, uint32_t parent, place_t site, place_t function);

static inline uint32_t handle_stamp(uint64_t handle)
{
    return (uint32_t)(handle >> 32);
}

// A context as two numbers, and the function that it was taken in.
struct interned_context {
    uint64_t id, handle;
    uint32_t function;
};

// The context that two numbers stand for, and the origin of its thread.
struct intern_result {
    struct cc_entry *stack; // room that the caller provides, for `limit` entries
    uint32_t limit;
    struct encoded_context context;
    struct intern_origin origin;
};

// Safe for any handle. 0, -ENOSPC if the stack is deeper than the limit, -EBADMSG.
int intern_context(const struct intern *intern, const struct interned_context *interned,
                   struct intern_result *result);

// How many nodes may be read by now: all below are whole.
uint32_t intern_ready(const struct intern_node *nodes, uint32_t from, uint32_t capacity);

#endif
