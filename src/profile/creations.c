// SPDX-License-Identifier: MIT
#include "profile/creations.h"
#include "profile/read_records.h"
#include <stdlib.h>
#include <string.h>

enum { CREATIONS_STEP, CREATIONS_TREE };

void creation_table_free(struct creation_table *table)
{
    free(table->steps);
    free(table->slots);
    *table = (struct creation_table){0};
}

static uint32_t *find_slot(const struct creation_table *table, const struct profile_creation *step)
{
    uint64_t hash = (step->site ^ (uint64_t)step->parent << 32) * UINT64_C(0x9e3779b97f4a7c15);
    hash = (hash ^ hash >> 32 ^ step->function) * UINT64_C(0xbf58476d1ce4e5b9);
    for (size_t at = (hash ^ hash >> 31) & (table->slot_count - 1);;
         at = (at + 1) & (table->slot_count - 1)) {
        uint32_t *slot = &table->slots[at];
        const struct profile_creation *known = *slot ? &table->steps[*slot - 1] : NULL;
        if (!known || (known->parent == step->parent && known->site == step->site &&
                       known->function == step->function))
            return slot;
    }
}

static bool grow_slots(struct creation_table *table)
{
    if ((size_t)table->count * 2 < table->slot_count)
        return true;
    const size_t count = table->slot_count ? table->slot_count * 2 : 64;
    uint32_t *slots = calloc(count, sizeof *slots);
    if (!slots)
        return false;
    free(table->slots);
    table->slots = slots;
    table->slot_count = count;
    for (uint32_t i = 0; i < table->count; i++)
        *find_slot(table, &table->steps[i]) = i + 1;
    return true;
}

uint32_t creation_table_add(struct creation_table *table, const struct profile_creation *step)
{
    if (!grow_slots(table))
        return UINT32_MAX;
    uint32_t *slot = find_slot(table, step);
    if (*slot)
        return *slot - 1;
    if (!profile_grow((void **)&table->steps, table->count, table->count + (size_t)1, sizeof *step))
        return UINT32_MAX;
    table->steps[table->count++] = *step;
    *slot = table->count;
    return table->count - 1;
}

static void put_place(struct bytes *out, place_t place)
{
    bytes_put_varint(out, place ? place_module(place) + 1 : 0);
    if (place)
        bytes_put_varint(out, place_offset(place));
}

void creations_put_step(struct batch *batch, uint32_t index, const struct profile_creation *step)
{
    struct bytes *out = &batch->payload[CHUNK_CREATIONS];
    bytes_put_varint(out, CREATIONS_STEP);
    bytes_put_varint(out, index);
    bytes_put_varint(out, step->parent == PROFILE_NO_PARENT ? 0 : index - step->parent);
    put_place(out, step->function);
    put_place(out, step->site);
}

void creations_put_tree(struct batch *batch, uint32_t tree, uint32_t creator)
{
    struct bytes *out = &batch->payload[CHUNK_CREATIONS];
    if (!creator)
        return;
    bytes_put_varint(out, CREATIONS_TREE);
    bytes_put_varint(out, tree);
    bytes_put_varint(out, creator);
}

static bool take_place(struct loader *loader, struct cursor *cursor, place_t *place)
{
    if (!loader_module_of(loader, cursor, place))
        return false;
    if (*place)
        *place = place_make(place_module(*place), cursor_varint(cursor));
    return !cursor->failed;
}

// Steps whose chunk was lost are functions of which nothing is known.
static bool has_step(struct loader *loader, uint32_t index)
{
    struct profile *profile = loader->profile;
    if (index < profile->creation_count)
        return true;
    if (!loader_may_fill(loader, index - profile->creation_count, 1) ||
        !loader_grow(loader, &profile->creations, profile->creation_count, (size_t)index + 1,
                     sizeof *profile->creations))
        return false;
    while (profile->creation_count <= index)
        profile->creations[profile->creation_count++] =
            (struct profile_creation){.parent = PROFILE_NO_PARENT, .function = LOST_FUNCTION};
    return true;
}

static bool take_step(struct loader *loader, struct cursor *cursor)
{
    const uint32_t index = cursor_varint32(cursor), back = cursor_varint32(cursor);
    struct profile_creation step = {.parent = back ? index - back : PROFILE_NO_PARENT};
    if (cursor->failed || index == UINT32_MAX || back > index ||
        !take_place(loader, cursor, &step.function) || !take_place(loader, cursor, &step.site) ||
        !has_step(loader, index))
        return false;
    loader->profile->creations[index] = step;
    return true;
}

bool creations_take(struct loader *loader, struct cursor *cursor)
{
    const uint64_t kind = cursor_varint(cursor);
    if (kind == CREATIONS_STEP)
        return take_step(loader, cursor);
    const uint32_t tree = cursor_varint32(cursor), creator = cursor_varint32(cursor);
    if (kind != CREATIONS_TREE || cursor->failed || !loader_has_tree(loader, tree))
        return false;
    loader->profile->trees[tree].creator = creator;
    return true;
}

void creations_check(struct profile *profile)
{
    for (unsigned i = 0; i < profile->tree_count; i++) {
        uint32_t *creator = &profile->trees[i].creator;
        if (*creator > profile->creation_count ||
            (*creator && profile->creations[*creator - 1].function))
            *creator = 0;
    }
}
