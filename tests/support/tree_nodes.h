// SPDX-License-Identifier: MIT
#ifndef CAIRN_TESTS_TREE_NODES_H
#define CAIRN_TESTS_TREE_NODES_H

// Nodes that a tree has, as its writer knows it: to compare with those that readers find.

#include "tree/bounded/bounded_layout.h"
#include "tree/hot.h"
#include "tree/layout.h"

static inline uint64_t tree_nodes(const struct arena *arena, ref_t ref)
{
    const struct tree *tree = tree_at(arena, ref);
    uint64_t nodes = 0;
    if (tree->kind == TREE_BOUNDED || tree->kind == TREE_FUNCTIONS)
        return ((const struct bounded *)(const void *)tree)->live_nodes + 1; // and the root
    for (ref_t at = tree->first_block; at;
         at = ((const struct node_block *)arena_at(arena, at))->next)
        nodes += ((const struct node_block *)arena_at(arena, at))->used;
    if (tree->forgets)
        for (ref_t at = hot_of(arena, tree)->free_node; at; at = tree_node(arena, at)->sibling)
            nodes--;
    return nodes;
}

#endif
