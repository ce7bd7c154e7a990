// SPDX-License-Identifier: MIT
#ifndef CAIRN_PROFILE_RECORDER_LIVE_TREE_H
#define CAIRN_PROFILE_RECORDER_LIVE_TREE_H

// One tree in the live memory and how much of it is in the profile already.
//
// A full tree only grows, and what is new is appended. One that forgets is written anew, see
// live_lossy_tree.h; a full tree becomes one when its memory is used up.

#include "base/arena.h"
#include "profile/recorder/live_reader.h"
#include "profile/recorder/live_timeline.h"

// Nodes that lie one behind the other, as in a block: from index `first` to the next run's first.
struct node_run {
    ref_t start;
    uint32_t first;
};

struct live_tree {
    ref_t thread;   // struct live_thread
    uint32_t index; // in the profile; LIVE_TREE_UNWRITTEN until it has something to tell
    struct live_stats stats;
    struct profile_hot hot;
    uint32_t tid;
    uint64_t threads;
    char name[THREAD_NAME_BYTES];
    uint32_t count;   // nodes that are in the profile
    unsigned width;   // values of each
    uint64_t *values; // count * width, as in the profile
    bool *is_frame;   // count
    struct node_run *runs;
    uint32_t run_count;
    ref_t units; // a node, in units of references
    struct live_timeline_told timeline;
    bool busy;    // had something new the last time: worth another look
    bool damaged; // contradicts itself: not read any more
    // Of a tree that forgets (live_lossy_tree.h):
    bool forgets;
    struct profile_node *nodes; // count, as in the profile
    uint32_t frames;
    uint64_t calls;
    uint32_t skip; // readings to leave out
};

#define LIVE_TREE_UNWRITTEN UINT32_MAX

// How places of the process become places of the profile, and calls that created threads
// profile_tree.creator.
struct place_mapper {
    place_t (*map)(void *context, place_t place);
    uint32_t (*creator)(void *context, uint32_t number);
    void *context;
};

// The process that trees are read from.
struct tree_source {
    const struct arena *arena;
    uint64_t bytes;   // of the arena, that may be read
    uint32_t process; // in the profile
    enum live_presence presence;
    struct place_mapper mapper;
};

// Reads the stats and, if there is a reason to, the nodes. True if anything was encoded.
bool live_tree_update(struct live_tree *tree, const struct tree_source *source,
                      struct live_sink *sink);

void live_tree_free(struct live_tree *tree);

// The index of a node by its reference. False: it has not been read yet.
bool live_tree_find(const struct live_tree *tree, ref_t ref, uint32_t *index);

#endif
