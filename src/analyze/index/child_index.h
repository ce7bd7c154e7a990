// SPDX-License-Identifier: MIT
#ifndef CAIRN_ANALYZE_INDEX_CHILD_INDEX_H
#define CAIRN_ANALYZE_INDEX_CHILD_INDEX_H

// Finds the children of nodes in a tree that grows. The nodes lie elsewhere, in an array that the
// numbers index; the caller walks over the candidates and compares the edges itself.
//
//   struct child_cursor cursor = child_index_find(&index, parent, hash of the edge);
//   for (uint32_t found; child_index_next(&index, &cursor, &found);)
//       if (nodes[found] is the one) return found;
//   child_index_add(&index, &cursor, number of the new one);
//
// The first children of a node are a list, for these lie where the node does: a hash of all edges
// would miss the caches at every step. Further children are rare, and in a hash.

#include "analyze/index/hash_index.h"

struct child_links {
    uint32_t newest_child, older_sibling; // 0: none, as the root is no child
};

struct child_index {
    struct child_links *links; // by node
    size_t capacity, used; // used: links that are in order; those behind them were never written
    struct hash_index further; // by parent and edge
};

struct child_cursor {
    uint32_t parent;
    uint32_t next;   // in the list
    unsigned listed; // children met there
    uint64_t hash;   // of parent and edge
    struct hash_index_cursor further;
};

struct child_cursor child_index_find(const struct child_index *index, uint32_t parent,
                                     uint64_t edge);
bool child_index_next(const struct child_index *index, struct child_cursor *cursor,
                      uint32_t *child);
// After child_index_next() has found no more.
void child_index_add(struct child_index *index, const struct child_cursor *cursor, uint32_t child);
void child_index_free(struct child_index *index);

#endif
