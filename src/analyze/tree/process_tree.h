// SPDX-License-Identifier: MIT
#ifndef CAIRN_ANALYZE_TREE_PROCESS_TREE_H
#define CAIRN_ANALYZE_TREE_PROCESS_TREE_H

// Processes under those that started them, as a tree whose nodes have their own cost, and that of
// all below them. A program that replaces another (exec) stands beside it.

#include "analyze/tree/build.h"

struct calltree *process_tree(struct functions *functions, const struct profile *profile,
                              const struct build_options *options);

#endif
