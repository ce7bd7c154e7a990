// SPDX-License-Identifier: MIT
#include "patch/stubs/bump_allocator.h"
#include "base/system/agent_map.h"
#include "base/system/huge.h"
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CHUNK (UINT64_C(1) << 20)

static unsigned char *free_start, *free_end;
static uint64_t taken;

static void *map_zeroed(size_t bytes)
{
    // The system call itself: libc's mmap() may be what is being patched.
    agent_map_claim(bytes, AGENT_MAP_PRIVATE);
    long memory = syscall(SYS_mmap, agent_map_hint(bytes), bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == -1) {
        agent_map_release(bytes, AGENT_MAP_PRIVATE);
        return NULL;
    }
    // Large programs use all of it, at once; small ones need not have more than they use.
    if (taken >= CHUNK)
        huge_fill((uintptr_t)memory, bytes);
    taken += bytes;
    agent_map_note((void *)memory, bytes);
    return (void *)memory;
}

// Pieces that were given back, by size.
#define KEPT_MOST 4096
static struct kept {
    struct kept *next;
} * kept[KEPT_MOST / 16 + 1];

void bump_give_back(void *memory, size_t bytes)
{
    bytes = (bytes + 15) & ~(size_t)15;
    if (!memory || !bytes || bytes > KEPT_MOST)
        return;
    struct kept *piece = memory;
    piece->next = kept[bytes / 16];
    kept[bytes / 16] = piece;
}

void *bump_take(size_t bytes)
{
    bytes = (bytes + 15) & ~(size_t)15;
    if (bytes <= KEPT_MOST && kept[bytes / 16]) {
        struct kept *piece = kept[bytes / 16];
        kept[bytes / 16] = piece->next;
        return memset(piece, 0, bytes);
    }
    if (bytes >= CHUNK / 4)
        return map_zeroed((bytes + 4095) & ~(size_t)4095);
    if ((size_t)(free_end - free_start) < bytes) {
        unsigned char *chunk = map_zeroed(CHUNK);
        if (!chunk)
            return NULL;
        free_start = chunk;
        free_end = chunk + CHUNK;
    }
    void *memory = free_start;
    free_start += bytes;
    return memory;
}

uint64_t bump_bytes(void)
{
    return taken;
}

// Open addressing. A key never leaves its place: a dropped entry keeps it, without a value.
struct address_entry {
    _Atomic uintptr_t key;
    void *_Atomic value; // stored before the key, so readers that see the key see a value
};

struct address_table {
    size_t size, used; // size is a power of two
    struct address_entry entry[];
};

static size_t place_of(uintptr_t address, size_t size)
{
    return (size_t)(address * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (size - 1);
}

static struct address_entry *entry_of(struct address_table *table, uintptr_t address)
{
    size_t i = place_of(address, table->size);
    for (;; i = (i + 1) & (table->size - 1)) {
        uintptr_t key = atomic_load_explicit(&table->entry[i].key, memory_order_acquire);
        if (key == address || key == 0)
            return &table->entry[i];
    }
}

void *index_find(const struct address_index *index, uintptr_t address)
{
    struct address_table *table = atomic_load_explicit(&index->table, memory_order_acquire);
    if (!table || !address)
        return NULL;
    struct address_entry *entry = entry_of(table, address);
    return atomic_load_explicit(&entry->key, memory_order_acquire) == address
               ? atomic_load_explicit(&entry->value, memory_order_acquire)
               : NULL;
}

static void set_entry(struct address_table *table, uintptr_t address, void *value)
{
    struct address_entry *entry = entry_of(table, address);
    const bool fresh = atomic_load_explicit(&entry->key, memory_order_relaxed) == 0;
    atomic_store_explicit(&entry->value, value, memory_order_release);
    atomic_store_explicit(&entry->key, address, memory_order_release);
    table->used += fresh;
}

static struct address_table *grow(struct address_index *index, const struct address_table *old)
{
    const size_t size = old ? old->size * 4 : 1024;
    struct address_table *table = bump_take(sizeof *table + size * sizeof(struct address_entry));
    if (!table)
        return NULL;
    table->size = size;
    for (size_t i = 0; old && i < old->size; i++)
        if (old->entry[i].key && old->entry[i].value)
            set_entry(table, old->entry[i].key, old->entry[i].value);
    atomic_store_explicit(&index->table, table, memory_order_release);
    return table;
}

int index_put(struct address_index *index, uintptr_t address, void *value)
{
    struct address_table *table = atomic_load_explicit(&index->table, memory_order_relaxed);
    if ((!table || table->used >= table->size / 2) && !(table = grow(index, table)))
        return -ENOMEM;
    set_entry(table, address, value);
    return 0;
}
