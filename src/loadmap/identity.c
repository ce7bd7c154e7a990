// SPDX-License-Identifier: MIT
#include "loadmap/identity.h"
#include "base/gc_hidden.h"
#include <string.h>

#define IDENTITIES 4096

// Files that have an id. Under the lock of loadmap.c.
static struct {
    uint64_t hash;
    uintptr_t base; // where it was when it was last announced
} identities[IDENTITIES] GC_HIDDEN;
static unsigned identity_count;

static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t count)
{
    const unsigned char *byte = bytes;
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ byte[i]) * UINT64_C(0x100000001b3);
    return hash;
}

// By words: names of libraries that were loaded later are compared whenever one is met.
uint64_t identity_of_name(const char *name)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325), word;
    size_t left = strlen(name);
    for (; left >= sizeof word; left -= sizeof word, name += sizeof word) {
        memcpy(&word, name, sizeof word);
        hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 32;
    }
    return hash_bytes(hash, name, left + 1);
}

uint64_t identity_of(const char *name, const struct image *image)
{
    return hash_bytes(identity_of_name(name), image->build_id, image->build_id_bytes);
}

unsigned identity_id(uint64_t hash, uintptr_t base, bool *moved)
{
    for (unsigned i = 0; i < identity_count; i++)
        if (identities[i].hash == hash) {
            *moved = identities[i].base != base;
            identities[i].base = base;
            return MODULE_FIRST_FILE + i;
        }
    if (identity_count == IDENTITIES)
        return 0;
    *moved = true;
    identities[identity_count].hash = hash;
    identities[identity_count].base = base;
    return MODULE_FIRST_FILE + identity_count++;
}
