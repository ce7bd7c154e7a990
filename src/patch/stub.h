// SPDX-License-Identifier: MIT
#ifndef CAIRN_PATCH_STUB_H
#define CAIRN_PATCH_STUB_H

// What is known of a stub, and the memory that stubs lie in.
//
//   region:  [ unwind table | slot | slot | slot | ... ]      slots of one size, a power of two
//   slot:    [ distance | code ... ]
//
// Each slot begins with the distance to the place that its code stands for, so one expression, the
// same for all of a region, leads unwinders from any address in it to the true one (frames.h).

#include "patch/sites.h"

#define STUB_ENTRY 4 // bytes from the start of a slot to its first instruction
#define STUB_MOST 256
#define REGION_HEAD 256
#define DISTANCE_BIAS (UINT64_C(1) << 31) // distances are unsigned: unwinders do not extend signs

// Offsets are from the start of the slot, those of instructions that begin there.
struct stub {
    struct site *site;
    uintptr_t code; // the slot
    int64_t delta;
    uint8_t kind, shift;
    bool wide, is_free;
    uint8_t begin;                // behind the neighbours that come first
    uint8_t add, half_add, added; // half_add: 0 if it is one instruction
    uint8_t popped;               // the stack pointer is lower before it; 0: never
    uint8_t call, back;           // the call or jump itself, and where it returns to
    uint8_t half_sub, behind;
    uint8_t moved[JUMP_BYTES]; // where the instruction at that offset of the span is now
    uint8_t end;               // the jump back
    struct stub *next_free;
};

struct region {
    uintptr_t start, end; // end: of what can be used
    unsigned shift;
    uint32_t used, slots;
    struct stub *free_stubs;
    struct stub *_Atomic *stub; // by slot
};

// ---- regions.c; all but the look-ups under the lock

// A slot of at least `bytes` within reach of [low, high), with its struct stub. NULL: no memory.
struct stub *region_take(uintptr_t low, uintptr_t high, size_t bytes);
void region_give_back(struct stub *stub);

// The code of a slot, written by the next region_flush() at the latest. 0 or -errno.
int region_write(uintptr_t address, const void *bytes, size_t count);
int region_flush(void);

// The stub whose slot holds the address. Signal-safe.
struct stub *region_stub_at(uintptr_t address);
// The n-th region, by address; NULL: no more. Signal-safe.
const struct region *region_number(size_t number);
const struct region *region_at(uintptr_t address);

// ---- hops.c

// Memory for a jump at a distance from the site whose bytes are traps wherever an instruction of
// the site began. NULL: there is none.
unsigned char *hop_take(const struct site *site, uintptr_t low, uintptr_t high);
uint64_t hop_bytes(void);

#endif
