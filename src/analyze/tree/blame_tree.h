// SPDX-License-Identifier: MIT
#ifndef CAIRN_ANALYZE_TREE_BLAME_TREE_H
#define CAIRN_ANALYZE_TREE_BLAME_TREE_H

// The waiters for locks, and those who held them, as one tree:
//
//   main ─ wait_for_it ─ HELD_BY ─ start_thread ─ hold_it
//   └── the waiter ──┘             └── the holder ──────┘
//
// All costs lie in the last frame of the holder. The time is that of the metric "lock", the waits
// that of "contended"; other metrics are 0.

#include "analyze/tree/build.h"

#define HELD_BY "(held by)"

struct calltree *blame_tree(struct functions *functions, const struct profile *profile,
                            const struct build_options *options);

#endif
