// SPDX-License-Identifier: MIT
#ifndef CAIRN_PROFILE_TIMELINE_H
#define CAIRN_PROFILE_TIMELINE_H

// The timeline of a recording ('cairn record --timeline'): when each cost was charged to which node
// of a tree. Over all charges, a tree's costs are their sums.
//
//   struct timeline_cursor cursor = timeline_begin(profile, tree);
//   for (struct timeline_charge charge; timeline_next(&cursor, &charge);)
//       ...

#include "profile/chunks/bytes.h"
#include "profile/profile.h"

struct timeline_charge {
    uint64_t time_ns; // since the recording began (profile_timeline.start_ns)
    uint64_t weight;  // in the unit of the metric: most of it lies before that time
    uint32_t node;    // of the tree
    uint32_t tid;     // the thread
    unsigned metric;  // index in the profile
};

// The charges of a thread follow each other in time. Several threads that have a tree take turns.
struct timeline_cursor {
    const struct profile *profile;
    uint32_t nodes;
    struct cursor sections, times, charged, weights; // columns of a section
    uint64_t left;                                   // in the section
    uint64_t lost;                                   // before the charges so far
    uint32_t tid, node;
    uint64_t time;
    uint64_t last[2], weight[2]; // of the metrics
};

struct timeline_cursor timeline_begin(const struct profile *profile,
                                      const struct profile_tree *tree);
bool timeline_next(struct timeline_cursor *cursor, struct timeline_charge *charge);

// A section of the file is of one thread. Its numbers stand in three columns, for like compresses
// beside like:
//
//   times    since the charge before; the first one since the beginning of the recording
//   charged  zigzag of the difference of nodes, twice; plus 1 if the second metric was charged
//   weights  0: all the time since the charge before in that metric; 1: the same weight as that;
//            else the weight plus 2
enum { WEIGHT_ELAPSED, WEIGHT_AGAIN, WEIGHT_PLAIN };

// Goes on to the next section, past what is left of this one. False: there is none, or it is
// damaged.
bool timeline_next_section(struct timeline_cursor *cursor);

// Whether the section is whole: as many charges as it says, of that many metrics and nodes.
bool timeline_section_is_sound(const struct timeline_cursor *section, unsigned metrics,
                               uint32_t nodes);

#endif
