// SPDX-License-Identifier: MIT
#include "patch/x86_64/detour_cell.h"
#include "patch/x86_64/relocate.h"
#include <string.h>

static void put_distance(unsigned char *code, size_t *at, uintptr_t cell, uintptr_t target)
{
    const int32_t distance = distance_to(cell + *at + 4, target);
    memcpy(code + *at, &distance, sizeof distance);
    *at += sizeof distance;
}

static void put_bytes(unsigned char *code, size_t *at, const void *bytes, size_t count)
{
    memcpy(code + *at, bytes, count);
    *at += count;
}

// call *hook(%rip)
static void put_hook(struct detour_cell *cell, size_t *at, uintptr_t place, uintptr_t literal)
{
    put_bytes(cell->code, at, "\xff\x15", 2);
    put_distance(cell->code, at, place, literal);
    cell->back = (uint8_t)*at;
}

void detour_cell_direct(struct detour_cell *cell, uintptr_t hooks, uintptr_t place,
                        uintptr_t target, uintptr_t function)
{
    int32_t distance;
    size_t at = 0;
    memset(cell, 0, sizeof *cell);
    cell->truth = function;
    cell->target = target;
    cell->kind = KIND_DIRECT;
    put_hook(cell, &at, place, hooks + offsetof(struct detour_hooks, direct));
    if (relocate_distance(place + at + CALL_BYTES, target, &distance)) {
        put_bytes(cell->code, &at, "\xe9", 1);
        put_distance(cell->code, &at, place, target);
    } else { // jmp *target(%rip)
        put_bytes(cell->code, &at, "\xff\x25", 2);
        put_distance(cell->code, &at, place, place + offsetof(struct detour_cell, target));
    }
}

// Puts the code behind the push of a target: the hook, and the jump there.
static bool put_rest(struct detour_cell *cell, size_t at, uintptr_t place, uintptr_t literal)
{
    cell->pushed = (uint8_t)at;
    put_hook(cell, &at, place, literal);
    put_bytes(cell->code, &at, "\x48\x8d\x64\x24\x08", 5); // lea 8(%rsp), %rsp
    cell->dropped = (uint8_t)at;
    // Through the red zone, which a signal's handler leaves alone.
    put_bytes(cell->code, &at, "\xff\x64\x24\xf8", 4); // jmp *-8(%rsp)
    return at <= sizeof cell->code;
}

// push *slot(%rip)
bool detour_cell_slot(struct detour_cell *cell, uintptr_t hooks, uintptr_t place, uintptr_t slot)
{
    int32_t distance;
    size_t at = 0;
    memset(cell, 0, sizeof *cell);
    cell->truth = slot;
    cell->kind = KIND_SLOT;
    put_bytes(cell->code, &at, "\xff\x35", 2);
    if (!relocate_distance(place + at + 4, slot, &distance))
        return false;
    put_distance(cell->code, &at, place, slot);
    return put_rest(cell, at, place, hooks + offsetof(struct detour_hooks, indirect));
}

// The operand, pushed: the same with another number in its ModRM byte.
static bool put_push(struct detour_cell *cell, size_t *at, uintptr_t place,
                     const struct indirect_site *site)
{
    unsigned char push[INSTRUCTION_MOST], moved[RELOCATED_MOST];
    struct instruction as_push = site->in;
    unsigned char *operand = &push[as_push.opcode_at + 1];
    memcpy(push, (const void *)site->address, as_push.length);
    *operand = (unsigned char)((*operand & 0xc7) | 0x30);
    as_push.flow = FLOW_NEXT;
    const size_t size = relocate_make(moved, &as_push, push, site->address, place + *at);
    put_bytes(cell->code, at, moved, size);
    return size != 0;
}

// Puts the instructions before a short tail jump, the hook, and the jump.
bool detour_cell_tail(struct detour_cell *cell, uintptr_t hooks, uintptr_t place,
                      const struct indirect_site *site, size_t lead)
{
    size_t at = 0;
    memset(cell, 0, sizeof *cell);
    cell->truth = site->address;
    cell->kind = KIND_JUMP;
    cell->lead = (uint8_t)lead;
    put_bytes(cell->code, &at, (const void *)(site->address - lead), lead);
    return put_push(cell, &at, place, site) &&
           put_rest(cell, at, place, hooks + offsetof(struct detour_hooks, indirect));
}

bool detour_cell_indirect(struct detour_cell *cell, uintptr_t hooks, uintptr_t place,
                          const struct indirect_site *site, enum detour_hook hook)
{
    size_t at = 0;
    memset(cell, 0, sizeof *cell);
    cell->truth = site->address;
    cell->kind = site->in.flow == FLOW_CALL_INDIRECT ? KIND_CALL : KIND_JUMP;
    if (!put_push(cell, &at, place, site))
        return false;
    return put_rest(cell, at, place,
                    hooks + (hook == DETOUR_WITHIN ? offsetof(struct detour_hooks, within)
                                                   : offsetof(struct detour_hooks, indirect)));
}
