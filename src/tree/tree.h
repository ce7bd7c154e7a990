// SPDX-License-Identifier: MIT
#ifndef CAIRN_TREE_TREE_H
#define CAIRN_TREE_TREE_H

// The calling context tree. One writer (the thread that owns the tree), any number of readers, in
// other processes too, without a lock.
//
//   root (start routine)
//    └─ frame  edge = (call site, function entered)      value[0] = returns seen by the marker
//        ├─ frame ...
//        └─ statement  edge = (instruction, 0)            value[m] = cost in metric m
//
// Edges are interned: a node carries the 32-bit reference of its edge. Nodes are 16 bytes and one
// 8-byte value per metric, so 24 bytes with one metric. A frame node of the walk tracker carries no
// cost of its own (its statements do), so its first value counts returns. profile/profile.h says
// what the values of a metric mean.
//
// Writers find children through child/sibling (a list; a node of large fan-out gets a hash beside
// it). Readers never follow these: they scan the node blocks in order and use `parent` alone, which
// is written before the node is published and never changes, so a reader needs no luck with timing.
//
// When the arena is full, a full tree continues as one that forgets (hot.h), if a part of the arena
// was kept back for that. If that is not enough either, tree_child() returns 0: the caller charges
// tree_unplaced() of the deepest frame it did find, for which the tree keeps a reserve.
//
// A tree that forgets cold contexts has no statements: costs lie in its frames. Its nodes have two
// values (32 bytes), a count and its error, and are given to other contexts; so are those that a
// full tree makes then.

#include "base/arena.h"
#include "base/place.h"
#include <stdbool.h>

struct edge {
    place_t site;     // frame: the return address of the call (one past it: look up site - 1).
                      // statement: the instruction itself. 0 in a root and in an unplaced statement
    place_t function; // frame: where the function entered begins. statement: 0
};

struct node {
    ref_t parent;
    ref_t edge;
    ref_t child;   // writer only: latest used child, or the fan-out hash
    ref_t sibling; // writer only
    uint64_t value[];
};

// In a tree that forgets, a node that is there for the sake of its descendants alone has this bit
// set in its edge, and a free one has no edge at all.
#define TREE_UNMONITORED (UINT32_C(1) << 31)

static inline ref_t tree_node_edge(const struct node *node)
{
    return node->edge & ~TREE_UNMONITORED;
}

struct tree; // lives in an arena

// Which contexts are kept. The numbers are those of enum live_tree_kind.
enum tree_kind { TREE_FULL, TREE_HOT, TREE_BOUNDED, TREE_FUNCTIONS };

// How hot contexts are found (miner.h). The numbers are those of enum live_miner.
enum tree_miner { TREE_SPACE_SAVING, TREE_LOSSY_COUNTING, TREE_STICKY_SAMPLING };

// Which contexts a bounded tree drops when its buffer is full. The numbers are those of enum
// live_purge.
enum tree_purge { TREE_PURGE_AGE, TREE_PURGE_ALL };

struct tree_options {
    uint32_t kind;         // enum tree_kind
    uint32_t metrics;      // values of a node of a full tree; the others have values of their own
    place_t start;         // where the root was entered
    uint32_t miner;        // hot: enum tree_miner
    uint64_t counters;     // hot: 1/epsilon
    uint64_t sticky_items; // hot, Sticky Sampling: 1/epsilon * ln(1/(phi * delta))
    uint32_t depth;        // bounded: frames that a sample may walk
    uint32_t purge;        // bounded: enum tree_purge
    uint64_t bytes;        // bounded: the buffer
};

// A kind of tree, by what it keeps. Callers ask for this, and never which kind it is.
struct tree_traits {
    bool keeps_all;  // each context stays, and has statements below its frame with the costs of its
                     // own; else costs lie in frames. Until the arena is full: tree_forgets()
    bool has_paths;  // contexts; else one node for each function
    bool has_buffer; // of a fixed size, purged when it is full
    bool has_errors; // counts are bounds: the second value says how far they may be off
    bool weighs_edges; // a sample walks a few frames alone, and its second value is that of calls
};

// Any number: it may come from damaged memory.
const struct tree_traits *tree_traits_of(uint32_t kind);

// A new tree with its root. 0 when full, or for options that make no sense.
ref_t tree_new(struct arena *arena, const struct tree_options *options);

enum tree_kind tree_kind(const struct arena *arena, ref_t tree);

// True if nodes of the tree come and go: it is of a kind that forgets, or its arena was full.
bool tree_forgets(const struct arena *arena, ref_t tree);

// True if the node is what it is for as long as the tree is.
bool tree_node_stays(const struct arena *arena, ref_t tree, ref_t node);

ref_t tree_root(const struct arena *arena, ref_t tree);

// The id of an edge; interned on first use. 0 when full. Safe in a signal handler.
ref_t tree_edge(struct arena *arena, ref_t tree, place_t site, place_t function);

// Asks the processor to have at hand what tree_edge() will look at: first where it looks, then
// (once that has come) what it finds there. Signal-safe.
void tree_expect_edge(const struct arena *arena, ref_t tree, place_t site, place_t function);
void tree_expect_edge_record(const struct arena *arena, ref_t tree, place_t site, place_t function);

// The child of parent by that edge, made if it is new. 0 when full (or edge is 0). Signal-safe.
ref_t tree_child(struct arena *arena, ref_t tree, ref_t parent, ref_t edge);

// The statement node without an address under a frame, from the reserve if the arena is full; when
// the reserve is gone too, the nearest ancestor's, at last the root's, which always exists. In
// trees without statements, the frame itself. Signal-safe.
ref_t tree_unplaced(struct arena *arena, ref_t tree, ref_t frame);

// An event of that cost in this context. Trackers charge by this alone: the kind of the tree
// decides what follows. The node may be forgotten at the next call for this tree, unless it is the
// parent then. Signal-safe; the owner of the tree alone.
void tree_charge(struct arena *arena, ref_t tree, ref_t node, uint64_t amount);

// Both in one, as the hooks of calls want it: an event in the child of parent by that edge. 0 when
// full: nothing was charged.
ref_t tree_call(struct arena *arena, ref_t tree, ref_t parent, ref_t edge, uint64_t amount);

// Counts something beside the events (returns, or calls where time is charged): in nodes that are
// exact, where there is a place for it. Signal-safe.
void tree_count(struct arena *arena, ref_t tree, ref_t node, uint64_t amount);

// A charge by another thread than the owner, when the process ends: only if that is no more than an
// addition. Node 0 stands for the root. `metric` is 0 but in a full tree of several. False: it was
// not charged.
bool tree_charge_late(struct arena *arena, ref_t tree, ref_t node, unsigned metric,
                      uint64_t amount);

// A node that the tracker keeps, with its ancestors, until it pins another one. Trees that do not
// forget do not care. Signal-safe.
void tree_pin(struct arena *arena, ref_t tree, ref_t node);

// Adds to one value of a node of a full tree. Signal-safe. Relaxed: one writer, and a reader may
// see either value.
static inline void tree_add(struct arena *arena, ref_t node, unsigned metric, uint64_t amount)
{
    uint64_t *value = &((struct node *)arena_at(arena, node))->value[metric];
    __atomic_store_n(value, __atomic_load_n(value, __ATOMIC_RELAXED) + amount, __ATOMIC_RELAXED);
}

unsigned tree_metrics(const struct arena *arena, ref_t tree);

// Reading, from any process: all nodes in the order they were made (parents before children, in a
// tree that does not forget; free nodes of one that does are passed over). Nodes have at least as
// many values as tree_metrics_read() says.
// `arena_bytes` bounds what may be touched; a damaged tree ends the scan early instead of faulting.
// Calls visit(node ref, node) until it returns false. Returns the number visited or -EBADMSG. Only
// the node's own bytes are known to be readable: its edge and parent are as found, for the visitor
// to check.
int64_t tree_scan(const struct arena *arena, uint64_t arena_bytes, ref_t tree,
                  bool (*visit)(void *context, ref_t ref, const struct node *node), void *context);

// How many values the nodes of a tree have; 0 if it is damaged or being made.
unsigned tree_metrics_read(const struct arena *arena, uint64_t arena_bytes, ref_t tree);

// True if nodes of the tree come and go (stable.h reads such trees): it is of a kind that forgets,
// or a full tree whose arena was full. False too if it is damaged.
bool tree_forgets_read(const struct arena *arena, uint64_t arena_bytes, ref_t tree);

// The state of a tree that keeps hot contexts (miner.h), or of a full tree since its arena was
// full.
struct tree_hot {
    uint32_t miner;     // enum tree_miner
    uint64_t counters;  // that it may have
    uint64_t monitored; // contexts that have one
    uint64_t floor;     // the most that a context without a counter can have had
    // The sum of the counts in the tree less what was charged, modulo 2^64: 0 with Space Saving if
    // events weigh the same.
    uint64_t made_up;
    uint64_t events; // that the miner has seen
    uint64_t scans;  // contexts that it looked at in search of the coldest
};

// False if it is no such tree, or damaged.
bool tree_hot_read(const struct arena *arena, uint64_t arena_bytes, ref_t tree,
                   struct tree_hot *state);

// The edge of a node that a scan has met. False if the reference leads out of the arena.
bool tree_edge_read(const struct arena *arena, uint64_t arena_bytes, ref_t ref, struct edge *edge);

#endif
