// SPDX-License-Identifier: MIT
#include "hot_fixture.h"
#include "tree_nodes.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

static struct node *node_at(const struct stream *stream, ref_t ref)
{
    return arena_at(&stream->arena, ref);
}

static const struct tree *head_of(const struct stream *stream)
{
    return arena_at(&stream->arena, stream->tree);
}

struct tree_options hot_options(unsigned miner, uint64_t counters)
{
    return (struct tree_options){.kind = TREE_HOT,
                                 .miner = miner,
                                 .counters = counters,
                                 .sticky_items = counters * 6,
                                 .start = place_make(3, 7)};
}

struct tree_options full_options(void)
{
    return (struct tree_options){.kind = TREE_FULL, .metrics = 1, .start = place_make(3, 7)};
}

void stream_open(struct stream *stream, size_t bytes, const struct tree_options *options,
                 unsigned base, unsigned depth)
{
    memset(stream, 0, sizeof *stream);
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    stream->bytes = bytes;
    arena_init(&stream->arena, memory, sizeof(struct arena_head), bytes);
    if (options->kind == TREE_FULL)
        arena_keep_back(&stream->arena, bytes / 8);
    stream->tree = tree_new(&stream->arena, options);
    assert_true(stream->tree);
    stream->base = base;
    stream->depth = depth;
    stream->random = 88172645463325252u;
    stream->edges = calloc(base, sizeof *stream->edges);
    for (unsigned i = 0; i < base; i++)
        stream->edges[i] = tree_edge(&stream->arena, stream->tree, place_make(3, i + 1), i + 1);
    stream->names = 2;
    for (unsigned i = 0; i < depth; i++)
        stream->names *= base;
    stream->exact = calloc(stream->names, sizeof *stream->exact);
}

void stream_close(struct stream *stream)
{
    munmap(stream->arena.base, stream->bytes);
    free(stream->edges);
    free(stream->exact);
}

uint64_t stream_random(struct stream *stream)
{
    stream->random ^= stream->random << 13;
    stream->random ^= stream->random >> 7;
    stream->random ^= stream->random << 17;
    return stream->random;
}

uint64_t stream_skewed(struct stream *stream, unsigned skew)
{
    unsigned depth = 1 + (unsigned)(stream_random(stream) % stream->depth);
    uint64_t name = 1;
    for (unsigned i = 0; i < depth; i++) {
        uint64_t digit = stream->base;
        for (unsigned k = 0; k < skew; k++) {
            uint64_t draw = stream_random(stream) % stream->base;
            digit = draw < digit ? draw : digit;
        }
        name = name * stream->base + digit;
    }
    return name;
}

static unsigned digits_of(const struct stream *stream, uint64_t name, unsigned *digits)
{
    unsigned count = 0;
    for (; name > 1; name /= stream->base)
        digits[count++] = (unsigned)(name % stream->base);
    return count;
}

// As the short way of a hook does: it looks for the edge of a context that is monitored, and counts
// without a word. False: that takes the long way.
static bool count_by_hook(const struct stream *stream, const unsigned *digits, unsigned count,
                          uint64_t amount)
{
    struct arena arena = stream->arena;
    uint32_t length;
    ref_t node = tree_root(&arena, stream->tree);
    while (count && node)
        node =
            children_find(&arena, head_of(stream), node, stream->edges[digits[--count]], &length);
    if (!node || node_at(stream, node)->edge & TREE_UNMONITORED)
        return false;
    node_at(stream, node)->value[0] += amount;
    return true;
}

static bool tell(struct stream *stream, const unsigned *digits, unsigned count, uint64_t amount)
{
    const bool at_once = stream->by_calls && count > 0;
    ref_t node = tree_root(&stream->arena, stream->tree);
    while (count > at_once && node)
        node = tree_child(&stream->arena, stream->tree, node, stream->edges[digits[--count]]);
    if (at_once)
        node = tree_call(&stream->arena, stream->tree, node, stream->edges[digits[0]], amount);
    if (!node)
        return false;
    if (!at_once)
        tree_charge(&stream->arena, stream->tree, node, amount);
    return true;
}

bool stream_charge(struct stream *stream, uint64_t name, uint64_t amount)
{
    unsigned digits[64];
    const unsigned count = digits_of(stream, name, digits);
    if (!(stream->by_hooks && count_by_hook(stream, digits, count, amount)) &&
        !tell(stream, digits, count, amount))
        return false;
    stream->exact[name] += amount;
    stream->charged += amount;
    stream->events++;
    return true;
}

uint64_t stream_name(const struct stream *stream, ref_t ref)
{
    uint64_t name = 0, unit = 1;
    for (; ref != tree_root(&stream->arena, stream->tree); ref = node_at(stream, ref)->parent) {
        const struct node *node = node_at(stream, ref);
        struct edge edge;
        if (!ref || !node->edge ||
            !tree_edge_read(&stream->arena, stream->bytes, node->edge, &edge))
            return 0;
        assert_true(edge.function >= 1 && edge.function <= stream->base);
        name += (edge.function - 1) * unit;
        unit *= stream->base;
    }
    return name + unit;
}

uint64_t stream_used(const struct stream *stream)
{
    return atomic_load(&arena_head(&stream->arena)->used);
}

struct tree_hot stream_state(const struct stream *stream)
{
    struct tree_hot state;
    assert_true(tree_hot_read(&stream->arena, stream->bytes, stream->tree, &state));
    return state;
}

struct checking {
    const struct stream *stream;
    struct tree_hot state;
    uint64_t nodes, monitored, sum;
    uint8_t *needed; // by reference: has to be in the tree
};

static bool is_exact(const struct stream *stream, ref_t ref)
{
    return !hot_comes_and_goes(head_of(stream), ref);
}

// The statement without an address that a full tree has below its root.
static bool is_unplaced(const struct stream *stream, const struct node *node)
{
    return tree_node_edge(node) == head_of(stream)->unplaced_edge;
}

static void mark_needed(struct checking *checking, ref_t ref)
{
    for (; ref && !checking->needed[ref]; ref = node_at(checking->stream, ref)->parent)
        checking->needed[ref] = 1;
}

static bool mark_monitored(void *context, ref_t ref, const struct node *node)
{
    struct checking *checking = context;
    checking->nodes++;
    if (is_exact(checking->stream, ref) || miner_monitors(node))
        mark_needed(checking, ref);
    return true;
}

// How often a node is among the children of its parent.
static unsigned times_a_child(const struct stream *stream, ref_t parent, ref_t wanted)
{
    const struct node *node = node_at(stream, parent);
    unsigned times = 0;
    if (node->child && node_at(stream, node->child)->edge == 0) {
        const struct fanout *fanout = arena_at(&stream->arena, node->child);
        unsigned count = 0;
        for (uint32_t i = 0; i < fanout->slot_count; i++) {
            count += fanout->slots[i].edge != 0;
            times += fanout->slots[i].node == wanted;
        }
        assert_int_equal(count, fanout->count);
        return times + (fanout->unplaced == wanted);
    }
    for (ref_t child = node->child; child; child = node_at(stream, child)->sibling) {
        assert_int_equal(node_at(stream, child)->parent, parent);
        times += child == wanted;
    }
    return times;
}

static void check_bounds(const struct checking *checking, uint64_t name, const struct node *node)
{
    const uint64_t exact = checking->stream->exact[name];
    const uint64_t count = node->value[0], error = node->value[1];
    if (checking->state.miner == TREE_STICKY_SAMPLING) {
        assert_true(count <= exact);
        assert_int_equal(error, 0);
        return;
    }
    assert_true(count >= exact);
    assert_true(count - error <= exact);
    assert_true(error <= checking->state.floor);
}

static bool check_node(void *context, ref_t ref, const struct node *node)
{
    struct checking *checking = context;
    const struct stream *stream = checking->stream;
    if (is_unplaced(stream, node))
        return true;
    const uint64_t name = stream_name(stream, ref);
    if (!checking->needed[ref])
        fail_msg("context %lu is in the tree for nothing", (unsigned long)name);
    assert_true(name);
    if (node->parent)
        assert_int_equal(times_a_child(stream, node->parent, ref), 1);
    checking->sum += node->value[0];
    if (is_exact(stream, ref)) {
        assert_int_equal(node->value[0], stream->exact[name]);
        return true;
    }
    const bool long_way = node->edge & TREE_UNMONITORED;
    if (!miner_monitors(node)) {
        assert_true(long_way);
        assert_int_equal(node->value[1], 0);
        // Nobody has more than the floor without a counter: but with Sticky Sampling by chance.
        if (checking->state.miner != TREE_STICKY_SAMPLING)
            assert_true(stream->exact[name] <= checking->state.floor);
        return true;
    }
    checking->monitored++;
    assert_false(long_way);
    check_bounds(checking, name, node);
    return true;
}

void stream_check(const struct stream *stream)
{
    struct checking checking = {.stream = stream, .state = stream_state(stream)};
    const struct tree *tree = head_of(stream);
    const struct hot *hot = hot_of(&stream->arena, tree);
    checking.needed = calloc(stream->bytes / 8, 1);
    mark_needed(&checking, tree->root);
    mark_needed(&checking, hot->current);
    mark_needed(&checking, hot->pinned);
    assert_true(tree_scan(&stream->arena, stream->bytes, stream->tree, mark_monitored, &checking) >
                0);
    assert_int_equal(checking.nodes, tree_nodes(&stream->arena, stream->tree));
    tree_scan(&stream->arena, stream->bytes, stream->tree, check_node, &checking);
    assert_int_equal(checking.monitored, checking.state.monitored);
    assert_true(checking.monitored <= checking.state.counters ||
                checking.state.miner != TREE_SPACE_SAVING);
    assert_int_equal(checking.sum - checking.state.made_up, stream->charged);
    free(checking.needed);
}

static bool take_away(void *context, ref_t ref, const struct node *node)
{
    struct checking *checking = context;
    if (is_unplaced(checking->stream, node))
        return true;
    if (is_exact(checking->stream, ref) || miner_monitors(node))
        checking->needed[stream_name(checking->stream, ref)] = 1;
    return true;
}

void stream_check_found(const struct stream *stream, uint64_t cost)
{
    struct checking checking = {.stream = stream};
    checking.needed = calloc(stream->names, 1);
    tree_scan(&stream->arena, stream->bytes, stream->tree, take_away, &checking);
    for (uint64_t name = 1; name < stream->names; name++)
        if (stream->exact[name] && stream->exact[name] >= cost && !checking.needed[name])
            fail_msg("context %lu has %lu of %lu and was not found", (unsigned long)name,
                     (unsigned long)stream->exact[name], (unsigned long)stream->charged);
    free(checking.needed);
}
