// SPDX-License-Identifier: MIT
#include "profile/recorder/live_contexts.h"
#include "encode/codebook/serial.h"
#include "profile/contexts.h"
#include <stdlib.h>

enum { NODES = 1 << 12 }; // that are written at once

static const struct intern_node *nodes_of(const struct live_contexts *contexts,
                                          const struct arena *arena, uint64_t bytes,
                                          uint32_t *capacity)
{
    // Acquire: how many there are was written before.
    const ref_t ref = atomic_load_explicit(&contexts->nodes, memory_order_acquire);
    *capacity = __atomic_load_n(&contexts->capacity, __ATOMIC_RELAXED);
    if (!ref || (uint64_t)ref * 8 + (uint64_t)*capacity * sizeof(struct intern_node) > bytes)
        return NULL;
    return arena_at(arena, ref);
}

uint32_t live_contexts_ready(const struct live_contexts_written *written,
                             const struct live_contexts *contexts, const struct arena *arena,
                             uint64_t bytes)
{
    uint32_t capacity;
    const struct intern_node *nodes = nodes_of(contexts, arena, bytes, &capacity);
    if (!nodes || !atomic_load_explicit(&contexts->asked, memory_order_relaxed))
        return 0;
    return intern_ready(nodes, written->nodes ? written->nodes : 1, capacity);
}

uint64_t live_contexts_reserved(const struct live_contexts *contexts, const struct arena *arena,
                                uint64_t bytes)
{
    uint32_t capacity, low = 0, high;
    const struct intern_node *nodes = nodes_of(contexts, arena, bytes, &capacity);
    if (!nodes)
        return 0;
    // They are whole from the first to the last that there is.
    for (high = capacity; low < high;) {
        const uint32_t middle = low + (high - low) / 2;
        if (middle == 0 || __atomic_load_n(&nodes[middle].level, __ATOMIC_RELAXED))
            low = middle + 1;
        else
            high = middle;
    }
    return intern_bytes_for(capacity - low);
}

static void put_bytes(struct live_contexts_written *written, struct batch *batch, uint32_t process,
                      const uint8_t *data, size_t size)
{
    contexts_put_sections(batch, process, written->bytes, data, size);
    written->bytes += size;
}

static bool put_sections(struct live_contexts_written *written,
                         const struct live_contexts_state *state, struct batch *batch,
                         uint32_t process)
{
    for (size_t i = 0; i < state->section_count; i++) {
        // The reference was looked at when the list was read.
        const struct live_sections *sections = arena_at(state->arena, state->sections[i]);
        const uint64_t at = (uint64_t)state->sections[i] * 8 + sizeof *sections;
        if (at > state->bytes)
            break;
        const uint32_t size = __atomic_load_n(&sections->bytes, __ATOMIC_RELAXED);
        if (size > state->bytes - at)
            break;
        put_bytes(written, batch, process, sections->data, size);
    }
    return state->section_count > 0;
}

static bool put_nodes(struct live_contexts_written *written,
                      const struct live_contexts_state *state, struct batch *batch,
                      uint32_t process)
{
    uint32_t capacity, from = written->nodes ? written->nodes : 1;
    const struct intern_node *nodes =
        nodes_of(state->contexts, state->arena, state->bytes, &capacity);
    if (!nodes || state->ready <= from || state->ready > capacity)
        return false;
    struct intern_node *copy = malloc(NODES * sizeof *copy);
    for (uint32_t to; copy && from < state->ready; from = to) {
        to = state->ready - from < NODES ? state->ready : from + NODES;
        for (uint32_t i = from; i < to; i++)
            copy[i - from] = nodes[i]; // they never change
        struct serial size = {0};
        serial_stacks(&size, copy, from, to);
        struct serial out = {.data = malloc(size.size), .capacity = size.size};
        if (!out.data)
            break;
        serial_stacks(&out, copy, from, to);
        put_bytes(written, batch, process, out.data, out.size);
        free(out.data);
        written->nodes = to;
    }
    free(copy);
    return true;
}

static bool put_modules(struct live_contexts_written *written,
                        const struct live_contexts_state *state, struct batch *batch,
                        uint32_t process)
{
    bool any = false;
    if (state->module_count > written->module_count) {
        if (!profile_grow((void **)&written->modules, written->module_count, state->module_count,
                          sizeof *written->modules))
            return false;
        written->module_count = state->module_count;
    }
    for (unsigned i = 0; i < state->module_count; i++) {
        if (written->modules[i] == state->modules[i])
            continue;
        written->modules[i] = state->modules[i];
        contexts_put_module(batch, process, i, state->modules[i]);
        any = true;
    }
    return any;
}

static bool put_counts(struct live_contexts_written *written, const struct live_contexts *contexts,
                       struct batch *batch, uint32_t process)
{
    const struct profile_contexts now = {
        .first = __atomic_load_n(&contexts->first, __ATOMIC_RELAXED),
        .number = atomic_load_explicit(&contexts->number, memory_order_relaxed),
        .walked = atomic_load_explicit(&contexts->walked, memory_order_relaxed),
        .unknown = atomic_load_explicit(&contexts->unknown, memory_order_relaxed),
    };
    const struct profile_contexts *then = &written->counts;
    if (now.first == then->first && now.number == then->number && now.walked == then->walked &&
        now.unknown == then->unknown)
        return false;
    written->counts = now;
    contexts_put_counts(batch, process, &now);
    return true;
}

bool live_contexts_update(struct live_contexts_written *written,
                          const struct live_contexts_state *state, struct batch *batch,
                          uint32_t process)
{
    bool any = put_modules(written, state, batch, process);
    any |= put_counts(written, state->contexts, batch, process);
    any |= put_sections(written, state, batch, process);
    return any | put_nodes(written, state, batch, process);
}
