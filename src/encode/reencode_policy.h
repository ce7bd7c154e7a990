// SPDX-License-Identifier: MIT
#ifndef CAIRN_ENCODE_REENCODE_POLICY_H
#define CAIRN_ENCODE_REENCODE_POLICY_H

// When to re-encode. Samples are decoded; the edges that they show are counted here, and become
// hotter; a pure function of the counters says whether a new encoding would pay.
//
// The reasons are the paper's: many edges are new, the hot paths have changed, ccStack is busy. An
// encoding that was made for one of the latter two and did not help (recursion cannot be encoded
// away) makes that reason twice as patient. And none is made before the last one has paid off: at
// most one part in `cost_parts` of the time is spent on it.
//
// Without samples, pushes tell: of edges that an encoding would give a number. When they have taken
// as long as it would, it is made. When they are fewer, but go on, it is made once that costs but
// one part in `cost_parts` of the time; if it has hardly saved any, the next one waits twice as
// long.

#include "encode/decode.h"

// Findings of samples since the last encoding. All start at 0.
struct observed {
    uint64_t samples;
    uint64_t taken; // edges that were newly taken, that is, not there at the thread's last sample
    uint64_t unencoded; // of these, pushed, though they could have a number by now
    uint64_t repeated;  // pushed because of recursion, or cut
    uint64_t misplaced; // have a number other than 0, though none into their callee is hotter
};

// Counts a decoded sample: the edges of its path that the thread's sample before did not have.
void observe_path(const struct graph *graph, const struct numbering *numbering,
                  const uint32_t *path, uint32_t count, struct observed *observed);

// How many edges two paths begin with in common.
uint32_t paths_share(const uint32_t *one, uint32_t one_count, const uint32_t *other,
                     uint32_t other_count);

// Halves the heat of all edges: what was long ago counts less. After each encoding.
void graph_cool(struct graph *graph);

enum reencode {
    REENCODE_NOT,
    REENCODE_EDGES, // many new edges
    REENCODE_HOT,   // hot edges have other numbers than 0
    REENCODE_STACK, // too many pushes, by samples
    REENCODE_WASTE, // pushes that an encoding would save
    REENCODE_REASONS
};

struct reencode_policy {
    uint32_t least_edges; // new edges that are worth an encoding, at least ...
    uint32_t edge_parts;  // ... and one in so many of the known ones
    uint64_t least_samples;
    uint32_t hot_percent;   // of the edges taken
    uint32_t stack_percent; // of the edges taken
    uint64_t least_cost;    // nanoseconds that any encoding takes
    uint32_t cost_parts;    // an encoding must be that much cheaper than the time since the last
    uint32_t waste_parts;   // pushes have hardly any waste that is below that part of the cost
    unsigned patience[REENCODE_REASONS]; // doublings of each one's threshold; 0 at first
    enum reencode last;                  // why the last one was made, of those that samples tell
    uint32_t last_percent;               // the share that led to it
};

#define POLICY_DEFAULT                                                                             \
    {                                                                                              \
        .least_edges = 16, .edge_parts = 8, .least_samples = 32, .hot_percent = 10,                \
        .stack_percent = 5, .cost_parts = 50, .waste_parts = 8, .least_cost = 50000                \
    }

struct policy_counters {
    uint32_t edges;         // known now
    uint32_t edges_encoded; // known when the encoding in force was made
    uint64_t nanoseconds;   // since then
    uint64_t last_cost;     // nanoseconds that making it took, all threads' waiting included
    uint64_t wasted;        // nanoseconds that pushes of edges took which could have a number
    struct observed observed;
};

// The waste that is worth an encoding, whose cost grows with the edges: a policy that pays
// twice what it had to, whatever comes, could not know better.
uint64_t reencode_policy_worth(const struct reencode_policy *policy,
                               const struct policy_counters *counters, uint32_t edges);

// Whether pushes alone are reason enough.
bool reencode_policy_is_wasteful(const struct reencode_policy *policy,
                                 const struct policy_counters *counters);

// The decision. Changes nothing.
enum reencode reencode_policy_decide(const struct reencode_policy *policy,
                                     const struct policy_counters *counters);

// Tells that an encoding was made for a reason, by what counters: adapts the patience.
void reencode_policy_encoded(struct reencode_policy *policy, enum reencode reason,
                             const struct policy_counters *counters);

#endif
