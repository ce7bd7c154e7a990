// SPDX-License-Identifier: MIT
#ifndef CAIRN_ANALYZE_DIFF_DIFF_VIEW_H
#define CAIRN_ANALYZE_DIFF_DIFF_VIEW_H

// A diff as a profile for the viewer: each metric becomes four, in this order. One of the first
// three is the width of a frame; the last counts the contexts whose change is more than noise.

#include "analyze/diff/diff_rows.h"

enum { VIEW_NEW, VIEW_OLD, VIEW_BOTH, VIEW_NAMED, VIEW_PARTS };

struct diff_view {
    struct analysis analysis; // no symbols: names are known
    struct calltree *tree;    // ordered by its first metric
    char *sides[DIFF_SIDES];  // the files, with commas
};

// By context, whatever the judgement says.
struct diff_view diff_view(const struct diff *diff, const struct diff_judgement *judgement);
void diff_view_free(struct diff_view *view);

#endif
