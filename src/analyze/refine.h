// SPDX-License-Identifier: MIT
#ifndef CAIRN_ANALYZE_REFINE_H
#define CAIRN_ANALYZE_REFINE_H

// Call path refinement: from all paths to those one asks about. Both return a new tree, summed.

#include "analyze/calltree.h"
#include "analyze/pattern.h"

#define REFINE_LIMIT 32 // patterns at a time

// Only paths on which every pattern matches some function, kept whole.
struct calltree *refine_through(const struct calltree *tree, struct pattern **patterns,
                                unsigned count);

// Only paths through a match, cut off above it: what matches outermost hangs under the root, merged
// over all its callers.
struct calltree *refine_focus(const struct calltree *tree, struct pattern *pattern);

#endif
