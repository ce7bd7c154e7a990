// SPDX-License-Identifier: MIT
#include "patch/functions/displace.h"
#include "patch/stubs/stub.h"
#include "patch/write/edits.h"
#include "patch/x86_64/relocate.h"
#include <errno.h>
#include <string.h>

#define BLOCK_BYTES 64 // of a thread's control block: the word that protects stacks is in it

// The frame, a word of the module itself, or of the thread's control block: there is memory.
static bool reads_safely(const struct instruction *in)
{
    const bool is_lea = in->map == MAP_ONE && in->opcode == 0x8d;
    const bool segment = in->prefixes & PREFIX_FS_GS;
    const bool on_stack = in->base == REGISTER_STACK && in->index == NO_REGISTER && !segment;
    const bool in_block = segment && in->base == NO_REGISTER && in->index == NO_REGISTER &&
                          !in->rip_relative && in->disp >= 0 && in->disp < BLOCK_BYTES;
    return in->mod == 3 || is_lea || in->rip_relative || on_stack || in_block;
}

bool displace_can(const struct instruction *in)
{
    const bool flows = in->flow == FLOW_NEXT || in->flow == FLOW_BRANCH;
    if (!flows || in->length < VICTIM_LEAST || in->prefixes & PREFIX_LOCK || !relocate_can(in) ||
        relocate_touches_stack(in))
        return false;
    if (in->map == MAP_ONE && !in->vector) {
        const bool divides = in->opcode == 0xf6 || in->opcode == 0xf7;
        const bool absolute = in->opcode >= 0xa0 && in->opcode <= 0xa3;
        if (divides || absolute)
            return false;
    }
    return !in->has_modrm || decode_is_padding(in) || reads_safely(in);
}

unsigned displace_how_far(unsigned length)
{
    // Three rather than four: then the highest byte of the first distance is free.
    return length >= DISPLACED_MOST ? JUMP_BYTES : length >= 8 ? 3 : length - JUMP_BYTES;
}

// The instruction, then a jump to what follows it. False: it would not reach what it refers to.
static bool fill_slot(struct stub *stub, const struct displacement *displacement)
{
    unsigned char code[STUB_ENTRY + RELOCATED_MOST + JUMP_BYTES];
    const unsigned char *victim = (const unsigned char *)displacement->victim;
    const uintptr_t entry = stub->code + STUB_ENTRY;
    struct instruction in;
    if (!decode(victim, displacement->length, &in))
        return false;
    const size_t bytes = relocate_make(code + STUB_ENTRY, &in, victim, displacement->victim, entry);
    // Unwinders look up the byte before the address that they have.
    const uint32_t head = (uint32_t)(displacement->victim + 1 - stub->code + DISTANCE_BIAS);
    memcpy(code, &head, sizeof head);
    stub->end = (uint16_t)(STUB_ENTRY + bytes);
    return bytes &&
           relocate_jump(code + stub->end, stub->code + stub->end,
                         displacement->victim + displacement->length) &&
           !edits_write_later(stub->code, code, stub->end + (size_t)JUMP_BYTES,
                              UINT64_C(1) << stub->shift);
}

static struct stub *make_slot(struct site *site, uintptr_t low, uintptr_t high)
{
    struct stub *stub = region_take(low, high, STUB_ENTRY + RELOCATED_MOST + JUMP_BYTES);
    if (!stub)
        return NULL;
    stub->site = site;
    stub->displaced = true;
    if (fill_slot(stub, site->displacement))
        return stub;
    region_give_back(stub);
    return NULL;
}

// Places for both jumps. The island of the site; NULL: there are none.
static unsigned char *take_islands(struct displacement *displacement, uintptr_t low, uintptr_t high,
                                   unsigned char **door)
{
    const unsigned inside = displacement->inside;
    const uintptr_t second = displace_inside(displacement);
    struct island_shape shape = {0};
    if (inside < JUMP_BYTES) { // the second jump begins in the distance of the first
        shape.fixed = 1u << (inside - 1);
        shape.distance = (uint32_t)RELOCATED_JUMP << 8 * (inside - 1);
    }
    *door = island_take(displacement->victim + JUMP_BYTES, &shape, low, high);
    if (!*door || !relocate_jump(displacement->code, displacement->victim, (uintptr_t)*door))
        return NULL;
    shape = (struct island_shape){0};
    for (unsigned i = 0; inside + 1 + i < JUMP_BYTES; i++) {
        shape.fixed |= 1u << i;
        shape.distance |= (uint32_t)displacement->code[inside + 1 + i] << 8 * i;
    }
    unsigned char *island = island_take(second + JUMP_BYTES, &shape, low, high);
    return island && relocate_jump(displacement->code + inside, second, (uintptr_t)island) ? island
                                                                                           : NULL;
}

bool displace_prepare(struct site *site, uintptr_t low, uintptr_t high)
{
    struct displacement *displacement = site->displacement;
    unsigned char *door, *island = take_islands(displacement, low, high, &door);
    struct stub *stub = island ? make_slot(site, low, high) : NULL;
    if (!stub)
        return false;
    site->room = (uintptr_t)island;
    // Before the first trap is written, or the first jump.
    atomic_store_explicit(&displacement->door, door, memory_order_release);
    atomic_store_explicit(&displacement->stub, stub, memory_order_release);
    return !index_put(&patch_sites, (uintptr_t)door, site) &&
           !index_put(&patch_sites, displacement->victim, site) &&
           !index_put(&patch_sites, displace_inside(displacement), site);
}

int displace_open_door(const struct displacement *displacement)
{
    const struct stub *stub = atomic_load_explicit(&displacement->stub, memory_order_relaxed);
    const uintptr_t door =
        (uintptr_t)atomic_load_explicit(&displacement->door, memory_order_relaxed);
    unsigned char jump[JUMP_BYTES];
    if (!relocate_jump(jump, door, stub->code + STUB_ENTRY))
        return -ERANGE;
    return edits_write_now(door, jump, sizeof jump);
}
