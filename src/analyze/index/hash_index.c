// SPDX-License-Identifier: MIT

#include "analyze/index/hash_index.h"
#include "base/memory.h"

// A slot keeps 32 bits of the hash, and its home follows from these alone, so that the table can
// grow without the keys.
static size_t home(const struct hash_index *numbering, uint32_t hash)
{
    return hash & (numbering->capacity - 1);
}

struct hash_index_cursor hash_index_find(const struct hash_index *numbering, uint64_t hash)
{
    uint32_t kept = (uint32_t)(hash >> 32);
    return (struct hash_index_cursor){.hash = kept,
                                      .at = numbering->capacity ? home(numbering, kept) : 0};
}

bool hash_index_next(const struct hash_index *numbering, struct hash_index_cursor *cursor,
                     uint32_t *number)
{
    if (numbering->capacity == 0)
        return false;
    for (;;) {
        const struct hash_index_slot *slot = &numbering->slots[cursor->at];
        if (slot->number == 0)
            return false;
        cursor->at = (cursor->at + 1) & (numbering->capacity - 1);
        if (slot->hash != cursor->hash)
            continue;
        *number = slot->number - 1;
        return true;
    }
}

static void place_slot(struct hash_index *numbering, struct hash_index_slot slot)
{
    size_t at = home(numbering, slot.hash);
    while (numbering->slots[at].number)
        at = (at + 1) & (numbering->capacity - 1);
    numbering->slots[at] = slot;
}

void hash_index_add(struct hash_index *numbering, uint64_t hash, uint32_t number)
{
    if ((numbering->count + 1) * 2 > numbering->capacity) {
        struct hash_index old = *numbering;
        numbering->capacity = old.capacity ? old.capacity * 2 : 64;
        numbering->slots = memory_array(numbering->capacity, sizeof *numbering->slots);
        for (size_t i = 0; i < old.capacity; i++)
            if (old.slots[i].number)
                place_slot(numbering, old.slots[i]);
        free(old.slots);
    }
    place_slot(numbering,
               (struct hash_index_slot){.hash = (uint32_t)(hash >> 32), .number = number + 1});
    numbering->count++;
}

void hash_index_free(struct hash_index *numbering)
{
    free(numbering->slots);
    *numbering = (struct hash_index){0};
}
