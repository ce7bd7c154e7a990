// SPDX-License-Identifier: MIT
#include "tree/copy.h"
#include "tree/layout.h"

// Nodes with one value and those with two, each kind in a block of its own. Edges are not interned:
// each node brings its own.
enum { EXACT, BOUNDED_ERROR, BLOCKS };

// Some kinds keep more than struct tree for readers to look at: there it is zero.
#define HEAD_BYTES 512
_Static_assert(sizeof(struct tree) <= HEAD_BYTES, "room for the head of any tree");

struct copying {
    struct arena *to;
    const struct stable_tree *stable;
    ref_t blocks[BLOCKS];
    uint32_t counts[BLOCKS];
};

static unsigned block_of(const struct stable_node *node)
{
    return node->has_error ? BOUNDED_ERROR : EXACT;
}

static unsigned values_of(unsigned block)
{
    return block == BOUNDED_ERROR ? 2 : 1;
}

static bool make_blocks(struct copying *copying)
{
    for (uint32_t i = 0; i < copying->stable->count; i++)
        copying->counts[block_of(stable_at(copying->stable, i))]++;
    for (unsigned i = 0; i < BLOCKS; i++) {
        if (!copying->counts[i])
            continue;
        copying->blocks[i] =
            arena_alloc(copying->to, sizeof(struct node_block) +
                                         copying->counts[i] * tree_node_bytes(values_of(i)));
        if (!copying->blocks[i])
            return false;
        struct node_block *block = arena_at(copying->to, copying->blocks[i]);
        block->metrics = values_of(i);
        block->capacity = copying->counts[i];
        atomic_store_explicit(&block->used, copying->counts[i], memory_order_relaxed);
    }
    return true;
}

// Where each node goes is kept in what was read, in place of where it came from.
static void place_nodes(struct copying *copying)
{
    uint32_t next[BLOCKS] = {0};
    for (uint32_t i = 0; i < copying->stable->count; i++) {
        struct stable_node *node = &copying->stable->nodes[copying->stable->order[i]];
        const unsigned block = block_of(node);
        node->ref = tree_node_in_block(copying->blocks[block], values_of(block), next[block]++);
    }
}

static bool copy_nodes(struct copying *copying, const struct arena *arena, uint64_t arena_bytes)
{
    for (uint32_t i = 0; i < copying->stable->count; i++) {
        const struct stable_node *node = stable_at(copying->stable, i);
        const ref_t edge = arena_alloc(copying->to, sizeof(struct edge));
        if (!edge || !tree_edge_read(arena, arena_bytes, node->edge, arena_at(copying->to, edge)))
            return false;
        struct node *copy = arena_at(copying->to, node->ref);
        copy->edge = edge | (node->monitored ? 0 : TREE_UNMONITORED);
        copy->parent =
            node->parent == STABLE_NO_PARENT ? 0 : stable_at(copying->stable, node->parent)->ref;
        copy->value[0] = node->value[0];
        if (node->has_error)
            copy->value[1] = node->value[1];
    }
    return true;
}

ref_t tree_copy(struct arena *to, const struct stable_tree *stable, const struct arena *arena,
                uint64_t arena_bytes, ref_t from)
{
    struct copying copying = {.to = to, .stable = stable};
    const ref_t ref = arena_alloc(to, HEAD_BYTES);
    if (!ref || !stable->count || !make_blocks(&copying))
        return 0;
    place_nodes(&copying);
    if (!copy_nodes(&copying, arena, arena_bytes))
        return 0;
    const struct tree *original = arena_at(arena, from);
    struct tree *tree = arena_at(to, ref);
    tree->kind = original->kind;
    tree->metrics = copying.blocks[EXACT] ? 1 : 2;
    tree->root = stable_at(stable, 0)->ref;
    atomic_store_explicit(&tree->forgets,
                          atomic_load_explicit(&original->forgets, memory_order_relaxed),
                          memory_order_relaxed);
    for (unsigned i = BLOCKS; i-- > 0;) {
        if (!copying.blocks[i])
            continue;
        struct node_block *block = arena_at(to, copying.blocks[i]);
        atomic_store_explicit(&block->next,
                              atomic_load_explicit(&tree->first_block, memory_order_relaxed),
                              memory_order_relaxed);
        atomic_store_explicit(&tree->first_block, copying.blocks[i], memory_order_relaxed);
    }
    return ref;
}
