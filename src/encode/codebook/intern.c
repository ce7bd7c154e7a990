// SPDX-License-Identifier: MIT
#include "encode/codebook/intern.h"
#include <errno.h>
#include <string.h>

// Two slots for each node, so that probes stay short.
enum { EACH = sizeof(struct intern_node) + 2 * sizeof(uint32_t) };

size_t intern_bytes(size_t bytes)
{
    size_t capacity = 2;
    while (capacity < UINT32_C(1) << 30 && EACH * capacity * 2 <= bytes)
        capacity *= 2;
    return EACH * capacity;
}

size_t intern_bytes_for(uint32_t nodes)
{
    return (size_t)nodes * EACH;
}

int intern_init(struct intern *intern, void *memory, size_t bytes)
{
    const size_t used = intern_bytes(bytes);
    if (used > bytes)
        return -ENOSPC;
    *intern = (struct intern){.node = memory, .capacity = (uint32_t)(used / EACH), .used = 1};
    intern->slot = (uint32_t *)(intern->node + intern->capacity);
    return 0;
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

static uint64_t hash_of(const struct intern_node *node)
{
    uint64_t hash = mix(mix(0, node->id), node->handle);
    return mix(mix(hash, (uint64_t)node->edge << 32 | node->count), node->parent);
}

static bool same(const struct intern_node *one, const struct intern_node *other)
{
    return one->id == other->id && one->handle == other->handle && one->edge == other->edge &&
           one->count == other->count && one->parent == other->parent;
}

static uint32_t new_node(struct intern *intern, const struct intern_node *wanted)
{
    // Looked at first, so that a full table does not count up for ever.
    uint32_t index = intern->capacity;
    if (__atomic_load_n(&intern->used, __ATOMIC_RELAXED) < intern->capacity)
        index = __atomic_fetch_add(&intern->used, 1, __ATOMIC_RELAXED);
    if (index >= intern->capacity) {
        __atomic_fetch_add(&intern->refused, 1, __ATOMIC_RELAXED);
        return 0;
    }
    struct intern_node *node = &intern->node[index];
    node->id = wanted->id;
    node->handle = wanted->handle;
    node->edge = wanted->edge;
    node->count = wanted->count;
    node->parent = wanted->parent;
    // Last: readers that see the level see the rest.
    __atomic_store_n(&node->level, wanted->level, __ATOMIC_RELEASE);
    return index;
}

static uint32_t find_or_add(struct intern *intern, const struct intern_node *wanted)
{
    uint64_t mask = (uint64_t)intern->capacity * 2 - 1, at = hash_of(wanted);
    uint32_t made = 0;
    for (;; at++) {
        uint32_t *slot = &intern->slot[at & mask];
        // Pairs with the exchange below: the node behind the slot is whole.
        uint32_t found = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
        if (!found) {
            if (!made)
                made = new_node(intern, wanted);
            if (!made)
                return 0;
            if (__atomic_compare_exchange_n(slot, &found, made, false, __ATOMIC_RELEASE,
                                            __ATOMIC_ACQUIRE))
                return made;
        }
        if (same(&intern->node[found], wanted))
            return found;
    }
}

uint32_t intern_origin(struct intern *intern, const struct intern_origin *origin)
{
    return find_or_add(intern, &(struct intern_node){.id = origin->id,
                                                     .handle = origin->handle,
                                                     .edge = INTERN_ORIGIN,
                                                     .count = origin->root,
                                                     .parent = origin->function,
                                                     .level = 1});
}

static uint32_t add_on_top(struct intern *intern, struct intern_node *node)
{
    if (node->parent == 0)
        return 0;
    node->level = __atomic_load_n(&intern->node[node->parent].level, __ATOMIC_RELAXED) + 1;
    return find_or_add(intern, node);
}

uint32_t intern_point(struct intern *intern, uint32_t parent, place_t place, uint32_t function)
{
    return add_on_top(intern,
                      &(struct intern_node){
                          .id = place, .edge = INTERN_POINT, .count = function, .parent = parent});
}

uint32_t intern_frame(struct intern *intern, uint32_t parent, place_t site, place_t function)
{
    return add_on_top(intern,
                      &(struct intern_node){
                          .id = site, .handle = function, .edge = INTERN_FRAME, .parent = parent});
}

uint32_t intern_stack(struct intern *intern, uint32_t origin, const struct cc_entry *stack,
                      uint32_t depth)
{
    uint32_t node = origin;
    for (uint32_t i = 0; i < depth && node; i++)
        node = find_or_add(intern, &(struct intern_node){.id = stack[i].id,
                                                         .edge = stack[i].edge,
                                                         .count = stack[i].count,
                                                         .parent = node,
                                                         .level = i + 2});
    return node;
}

uint32_t intern_ready(const struct intern_node *nodes, uint32_t from, uint32_t capacity)
{
    while (from < capacity && __atomic_load_n(&nodes[from].level, __ATOMIC_ACQUIRE))
        from++;
    return from;
}

int intern_context(const struct intern *intern, const struct interned_context *interned,
                   struct intern_result *result)
{
    const uint32_t at = (uint32_t)interned->handle;
    if (at == 0 || at >= intern->capacity)
        return -EBADMSG;
    const struct intern_node *node = &intern->node[at];
    uint32_t level = __atomic_load_n(&node->level, __ATOMIC_ACQUIRE);
    if (level == 0)
        return -EBADMSG;
    if (level - 1 > result->limit)
        return -ENOSPC;
    // Each parent is one level lower: so this ends, and stays inside of the stack.
    for (uint32_t left = level; left > 1; left--) {
        if (node->edge >= INTERN_FRAME || node->parent >= intern->capacity)
            return -EBADMSG;
        result->stack[left - 2] = (struct cc_entry){node->id, node->edge, node->count};
        node = &intern->node[node->parent];
        if (__atomic_load_n(&node->level, __ATOMIC_ACQUIRE) != left - 1)
            return -EBADMSG;
    }
    if (node->edge != INTERN_ORIGIN)
        return -EBADMSG;
    result->context = (struct encoded_context){.id = interned->id,
                                               .stack = result->stack,
                                               .depth = level - 1,
                                               .root = node->count,
                                               .function = interned->function};
    result->origin = (struct intern_origin){node->id, node->handle, node->parent, node->count};
    return 0;
}
