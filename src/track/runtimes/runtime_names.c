// SPDX-License-Identifier: MIT
#include "track/runtimes/runtime_names.h"
#include "base/gc_hidden.h"
#include <string.h>

#define KNOWN_BITS 16
#define KNOWN ((size_t)1 << KNOWN_BITS)
#define TRIES 16

// The places whose names were pushed. An entry is set once, by the thread that pushes it: relaxed,
// as nothing else is read by it.
static _Atomic place_t known[KNOWN] GC_HIDDEN;
static struct arena *memory;
static _Atomic ref_t *list;
static void (*tell)(const char *text);

void runtime_names_start(struct arena *arena, _Atomic ref_t *names, void (*note)(const char *text))
{
    tell = note;
    memory = arena;
    list = names;
}

void runtime_names_forget(void)
{
    for (size_t i = 0; i < KNOWN; i++)
        if (atomic_load_explicit(&known[i], memory_order_relaxed)) // else its page stays untouched
            atomic_store_explicit(&known[i], 0, memory_order_relaxed);
}

place_t runtime_place(unsigned module, uint64_t hash)
{
    const uint64_t offset = hash >> (64 - PLACE_OFFSET_BITS + 2) << 1;
    return place_make(module, offset ? offset : 2);
}

static void note_full(void)
{
    static _Atomic bool told; // relaxed: once is enough, twice is no harm
    if (tell && !atomic_exchange_explicit(&told, true, memory_order_relaxed))
        tell("a program has more lines of Python or Java than there is room for: some functions "
             "have no names");
}

bool runtime_names_lack(place_t place)
{
    const size_t first = (size_t)(place >> 1);
    for (size_t i = 0; i < TRIES; i++) {
        _Atomic place_t *entry = &known[(first + i) % KNOWN];
        place_t found = atomic_load_explicit(entry, memory_order_relaxed);
        if (!found && atomic_compare_exchange_strong_explicit(
                          entry, &found, place, memory_order_relaxed, memory_order_relaxed))
            return true;
        if (found == place)
            return false;
    }
    note_full();
    return false;
}

struct live_name *runtime_name_new(size_t function_bytes, size_t file_bytes)
{
    const ref_t ref =
        list ? arena_alloc(memory, sizeof(struct live_name) + function_bytes + file_bytes) : 0;
    if (!ref)
        return NULL;
    struct live_name *name = arena_at(memory, ref);
    name->function_bytes = (uint32_t)function_bytes;
    name->file_bytes = (uint32_t)file_bytes;
    return name;
}

void runtime_name_push(struct live_name *name)
{
    const ref_t ref = (ref_t)(((unsigned char *)name - memory->base) / 8);
    live_push(list, &name->next, ref);
}
