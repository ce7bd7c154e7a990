// SPDX-License-Identifier: MIT
#ifndef CAIRN_ENCODE_STATISTICS_H
#define CAIRN_ENCODE_STATISTICS_H

// The numbers of the paper's Table 1 and of its Figures 9 and 10. No floating point: averages are
// left to the tool.

#include "encode/decode.h"

// One encoding: a point of Figure 9.
struct encoding_statistics {
    uint32_t stamp;
    uint32_t functions, sites, edges; // in the graph
    uint32_t encoded;                 // edges with a number ...
    uint32_t zero;                    // ... which is 0
    uint32_t back, cut, loops;        // edges without one, and why
    uint32_t fresh;                   // met since
    uint32_t plain;                   // sites that run as they were compiled
    uint32_t saving;                  // calls that save on TcStack
    uint64_t max_id;
    size_t dictionary_bytes;
};

void encoding_count(struct encoding_statistics *statistics, const struct numbering *numbering);

// What a dictionary alone tells, when the process is gone: the rest is 0. `functions` and `edges`
// are those known when it was made.
void dictionary_count(struct encoding_statistics *statistics, const struct dictionary *dictionary);

// Depths of contexts by powers of two: Figure 10, when summed up.
enum { DEPTH_CLASSES = 24 };

struct depth_statistics {
    uint64_t contexts;
    uint64_t path_sum, stack_sum;       // edges; entries of ccStack
    uint64_t path_class[DEPTH_CLASSES]; // class k: depths in [2^(k-1), 2^k); class 0: none
    uint64_t stack_class[DEPTH_CLASSES];
};

void depth_count(struct depth_statistics *statistics, uint32_t path, uint32_t stack);

#endif
