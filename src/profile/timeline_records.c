// SPDX-License-Identifier: MIT
#include "profile/timeline_records.h"
#include "profile/read_records.h"
#include <stdlib.h>
#include <string.h>

enum { TIMELINE_START, TIMELINE_SECTION };

// Writing

struct columns {
    struct bytes times, nodes, weights;
};

static uint64_t weight_code(const struct timeline_charge *charge, const uint64_t *last,
                            const uint64_t *weight)
{
    return charge->weight == charge->time_ns - last[charge->metric] ? WEIGHT_ELAPSED
           : charge->weight == weight[charge->metric]               ? WEIGHT_AGAIN
                                                                    : charge->weight + WEIGHT_PLAIN;
}

static void put_columns(struct columns *columns, const struct timeline_charge *charges,
                        size_t count)
{
    uint64_t time = 0, last[2] = {0}, weight[2] = {0};
    uint32_t node = 0;
    for (size_t i = 0; i < count; i++) {
        const struct timeline_charge *charge = &charges[i];
        bytes_put_varint(&columns->times, charge->time_ns - time);
        bytes_put_varint(&columns->nodes,
                         zigzag((int32_t)(charge->node - node)) << 1 | charge->metric);
        bytes_put_varint(&columns->weights, weight_code(charge, last, weight));
        time = last[charge->metric] = charge->time_ns;
        weight[charge->metric] = charge->weight;
        node = charge->node;
    }
}

static void put_section_head(struct bytes *out, uint32_t tree)
{
    bytes_put_varint(out, TIMELINE_SECTION);
    bytes_put_varint(out, tree);
}

static void put_section(struct batch *batch, uint32_t tree, const struct timeline_charge *charges,
                        size_t count, uint64_t lost)
{
    struct bytes *out = &batch->payload[CHUNK_TIMELINE];
    struct columns columns = {0};
    const struct bytes *all[] = {&columns.times, &columns.nodes, &columns.weights};
    put_columns(&columns, charges, count);
    put_section_head(out, tree);
    bytes_put_varint(out, count ? charges[0].tid : 0);
    bytes_put_varint(out, lost);
    bytes_put_varint(out, count);
    for (unsigned i = 0; i < 3; i++)
        bytes_put_varint(out, all[i]->size);
    for (unsigned i = 0; i < 3; i++) {
        out->failed |= all[i]->failed;
        bytes_put(out, all[i]->data, all[i]->size);
    }
    bytes_free(&columns.times);
    bytes_free(&columns.nodes);
    bytes_free(&columns.weights);
    batch_flush_large(batch);
}

void timeline_put(struct batch *batch, uint32_t tree, const struct timeline_charge *charges,
                  size_t count, uint64_t lost)
{
    if (count == 0 && lost)
        put_section(batch, tree, NULL, 0, lost);
    while (count > 0) {
        size_t same = 1;
        while (same < count && same < WRITE_SECTION && charges[same].tid == charges[0].tid)
            same++;
        put_section(batch, tree, charges, same, lost);
        charges += same;
        count -= same;
        lost = 0;
    }
}

void timeline_put_start(struct batch *batch, const struct profile_timeline *timeline)
{
    struct bytes *out = &batch->payload[CHUNK_TIMELINE];
    if (!timeline->recorded)
        return;
    bytes_put_varint(out, TIMELINE_START);
    bytes_put_varint(out, timeline->start_ns);
    bytes_put_varint(out, timeline->metric_count);
    for (unsigned i = 0; i < timeline->metric_count; i++)
        bytes_put_varint(out, timeline->metrics[i]);
}

void timeline_put_tree(struct batch *batch, uint32_t index, const struct profile_tree *tree)
{
    const struct profile_charges *charges = &tree->charges;
    struct timeline_cursor cursor = {
        .sections = {charges->sections, charges->sections + charges->bytes, false}};
    for (const uint8_t *at = cursor.sections.at; timeline_next_section(&cursor);
         at = cursor.sections.at) {
        struct bytes *out = &batch->payload[CHUNK_TIMELINE];
        put_section_head(out, index);
        bytes_put(out, at, (size_t)(cursor.sections.at - at));
        batch_flush_large(batch);
    }
    // Of sections that are not there any more.
    if (charges->lost > cursor.lost)
        timeline_put(batch, index, NULL, 0, charges->lost - cursor.lost);
}

// Into a profile

static bool take_start(struct loader *loader, struct cursor *cursor)
{
    struct profile_timeline timeline = {.recorded = true, .start_ns = cursor_varint(cursor)};
    const uint64_t count = cursor_varint(cursor);
    if (cursor->failed || count == 0 || count > 2)
        return false;
    for (timeline.metric_count = 0; timeline.metric_count < count; timeline.metric_count++)
        timeline.metrics[timeline.metric_count] = cursor_varint32(cursor);
    for (unsigned i = 0; i < count; i++)
        if (cursor->failed || !loader_want_metrics(loader, timeline.metrics[i] + UINT64_C(1)))
            return false;
    timeline.stored_bytes = loader->profile->timeline.stored_bytes;
    loader->profile->timeline = timeline;
    return true;
}

static bool take_section(struct loader *loader, struct cursor *cursor)
{
    const uint32_t index = cursor_varint32(cursor);
    struct timeline_cursor section = {.sections = *cursor};
    if (cursor->failed || !loader->profile->timeline.recorded || !timeline_next_section(&section) ||
        !loader_has_tree(loader, index))
        return false;
    struct profile_tree *tree = &loader->profile->trees[index];
    struct profile_charges *charges = &tree->charges;
    const size_t bytes = (size_t)(section.sections.at - cursor->at);
    // Nodes may be missing where a chunk was lost.
    const uint32_t nodes = loader->scan->lost_places ? UINT32_MAX : tree->count;
    if (!timeline_section_is_sound(&section, loader->profile->timeline.metric_count, nodes) ||
        !loader_grow(loader, &charges->sections, charges->bytes, charges->bytes + bytes, 1))
        return false;
    memcpy(charges->sections + charges->bytes, cursor->at, bytes);
    cursor->at = section.sections.at;
    charges->bytes += bytes;
    charges->count += section.left;
    charges->lost += section.lost;
    return true;
}

bool timeline_take(struct loader *loader, struct cursor *cursor)
{
    const uint64_t kind = cursor_varint(cursor);
    if (kind == TIMELINE_START)
        return take_start(loader, cursor);
    return kind == TIMELINE_SECTION && take_section(loader, cursor);
}

void timeline_drop(struct profile_tree *tree)
{
    const uint64_t lost = tree->charges.lost + tree->charges.count;
    free(tree->charges.sections);
    tree->charges = (struct profile_charges){.lost = lost};
}
