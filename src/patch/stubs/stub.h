// SPDX-License-Identifier: MIT
#ifndef CAIRN_PATCH_STUBS_STUB_H
#define CAIRN_PATCH_STUBS_STUB_H

// Stubs, and the memory that they lie in.
//
//   region:  [ unwind table | slot | slot | slot | ... ]      slots of one size, a power of two
//   slot:    [ distance | code ... ]
//
// Each slot begins with the distance to the place that its code stands for, so one expression, the
// same for all of a region, leads unwinders from any address in it to the true one (stub_cfi.h).

#include "patch/stubs/bump_allocator.h"
#include "patch/stubs/site.h"

#define STUB_ENTRY 4 // bytes from the start of a slot to its first instruction
#define STUB_MOST 16384
#define REGION_HEAD 1024
#define ASIDE_BYTES 8u // of a STUB_TABLE: the call of a hook, and the jump back
#define ASIDE_CALL 6u
#define DISTANCE_BIAS (UINT64_C(1) << 31) // distances are unsigned: unwinders do not extend signs

// Offsets are from the start of the slot, those of instructions that begin there.

// The call or jump of a stub, with what is around it.
struct stub_call {
    uintptr_t target; // 0: that of the site
    uint16_t popped;  // up to here the target is on the stack; 0: never
    uint16_t call;
    uint16_t back; // where the call returns to
};

struct stub {
    struct site *site;
    uintptr_t code; // the slot
    uint8_t kind, shift;
    bool is_free, displaced;    // displaced: it holds what has made room for its site (displace.h)
    uint16_t begin;             // behind the neighbours that come first
    uint16_t pushed;            // the target is on the stack from here on; 0: never
    uint16_t saved, restored;   // STUB_TABLE: a register is on the stack, behind the call
    uint16_t moved[JUMP_BYTES]; // where the instruction at that offset of the span is now
    uint16_t end;               // the jump back; 0 in those of tail jumps
    uint16_t aside;             // STUB_TABLE: the hook before the call, and that behind it
    struct stub_call call;
    uint32_t index;         // STUB_TABLE
    struct stub *otherwise; // STUB_CHAIN
    struct stub *next_free;
};

struct region {
    uintptr_t start, end; // end: of what can be used
    unsigned shift;
    uint32_t used, slots;
    struct stub *free_stubs;
    struct stub *_Atomic *stub; // by slot
};

// ---- regions.c; all but the look-ups in a transaction

// A slot of at least `bytes` within reach of [low, high), with its struct stub. NULL: no memory.
struct stub *region_take(uintptr_t low, uintptr_t high, size_t bytes);
void region_give_back(struct stub *stub);

// The stub whose slot holds the address. Signal-safe.
struct stub *region_stub_at(uintptr_t address);
// The n-th region, by address; NULL: no more. Signal-safe.
const struct region *region_number(size_t number);
const struct region *region_at(uintptr_t address);
uint64_t region_bytes(void); // of all

// ---- patch/sites.c

// Sites and islands, by address; written in transactions.
extern struct address_index patch_sites __attribute__((visibility("hidden")));

// ---- islands.c

// The bytes that the distance of a jump must have: bit i of `fixed`, byte i is that of `distance`.
struct island_shape {
    unsigned fixed;
    uint32_t distance;
};

// Memory for a jump at such a distance from `end`, and within reach of [low, high). NULL: there is
// none.
unsigned char *island_take(uintptr_t end, const struct island_shape *shape, uintptr_t low,
                           uintptr_t high);
// Nothing leads there any more. Not one of ours: nothing happens.
void island_give_back(uintptr_t island);
uint64_t island_bytes(void);

#endif
