// SPDX-License-Identifier: MIT
#ifndef CAIRN_BASE_ARENA_H
#define CAIRN_BASE_ARENA_H

// Memory that only grows, addressed by 32-bit references instead of pointers, so that another
// process can map the same pages elsewhere and follow every link. The unit of a reference is eight
// bytes; reference 0 is "nothing". Memory is handed out zeroed and never given back.
//
//   base ─► [ struct arena_head | block | block | block | untouched, zero ... | kept back ]
//                                                       ▲ used                ▲ limit
//
// A part can be kept back for users that must go on when the rest is full. They get memory behind
// all earlier blocks.

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

typedef uint32_t ref_t;

// The highest bit is free for who keeps a reference. So an arena has 16 GB at most.
#define ARENA_MOST_REF (UINT32_MAX >> 1)

// The first bytes of the mapping. The writer process allocates; a reader only looks.
struct arena_head {
    uint64_t nothing; // stays 0: the target of reference 0
    _Atomic uint64_t
        used;       // bytes handed out, this head included; any thread adds, relaxed is enough
    uint64_t limit; // bytes that may be handed out
    _Atomic uint64_t refused; // allocations that found no room
    uint64_t kept;            // bytes before the limit that arena_alloc() does not hand out
    _Atomic uint64_t granted; // bytes taken from a budget that others share
};

// A faulty program may overwrite the head, like all of the arena: so its size is known here as
// well. 0: a reader's, which checks by itself.
struct arena {
    unsigned char *base;
    uint64_t bytes;
    _Atomic int64_t *budget; // the rest for all arenas that share it; NULL: not counted
    _Atomic int64_t ahead;   // granted, and not handed out yet
};

static inline struct arena_head *arena_head(const struct arena *arena)
{
    return (struct arena_head *)arena->base;
}

static inline void *arena_at(const struct arena *arena, ref_t ref)
{
    return arena->base + (size_t)ref * 8;
}

// The target of a reference, if so many bytes of it lie in the arena; else NULL.
static inline void *arena_find(const struct arena *arena, ref_t ref, uint64_t bytes)
{
    return ref && bytes <= arena->bytes && (uint64_t)ref * 8 <= arena->bytes - bytes
               ? arena_at(arena, ref)
               : NULL;
}

// Makes an arena of zeroed memory at base; reserved is what the caller keeps for itself at the
// front, sizeof(struct arena_head) included.
void arena_init(struct arena *arena, void *base, size_t reserved, size_t limit);

// Keeps back the last bytes before the limit. Before anything is allocated.
void arena_keep_back(struct arena *arena, size_t bytes);

static inline uint64_t arena_limit(const struct arena *arena)
{
    const uint64_t limit = arena_head(arena)->limit;
    return limit < arena->bytes ? limit : arena->bytes;
}

// From here on, memory comes out of a budget, too. A first piece comes at once, whatever is left,
// so that each arena can begin; and the part that is kept back, if that is at most half of the
// rest. Otherwise less is kept back.
void arena_share(struct arena *arena, _Atomic int64_t *budget);

// Where the part that is kept back begins.
static inline uint64_t arena_kept_from(const struct arena *arena)
{
    return (arena_limit(arena) - arena_head(arena)->kept) & ~UINT64_C(7);
}

// Bytes that are left, of the common part or of what is kept back.
uint64_t arena_room(const struct arena *arena);
uint64_t arena_kept_room(const struct arena *arena);

// Memory from the part that is kept back. From then on, arena_alloc() finds no room. Zeroed,
// lock-free, signal-safe, 0 when there is none.
ref_t arena_alloc_kept(struct arena *arena, size_t bytes);

// Zeroed memory, or 0 when the limit is reached. Lock-free; safe in a signal handler.
ref_t arena_alloc(struct arena *arena, size_t bytes);

#endif
