// SPDX-License-Identifier: MIT
#ifndef CAIRN_ANALYZE_VIEWS_CALLERS_H
#define CAIRN_ANALYZE_VIEWS_CALLERS_H

// The tree read from the leaves up. Under the root hang functions; under a function, its callers;
// under these, theirs. All values in such a tree are those of the function it begins with, as far
// as they came along that path:
//
//   root ── malloc (self 8, total 9) ── parse (of these: self 6, total 6) ── main
//                                    └─ load  (of these: self 2, total 3) ── main

#include "analyze/tree/calltree.h"
#include "analyze/tree/pattern.h"

struct callers_options {
    unsigned metric;
    enum call_order order; // by which cost a path is judged to be worth following
    uint64_t least; // paths of less cost are not followed up; they are in their callee's value
    unsigned depth; // levels of callers that are followed
    uint64_t *cut;  // counts paths that go on beyond `depth`; may be NULL
    struct pattern *focus; // only functions that match begin a tree; NULL: all
};

// `tree` must be ordered. Returns a summed and ordered tree.
struct calltree *callers_tree(const struct calltree *tree, const struct callers_options *options);

#endif
