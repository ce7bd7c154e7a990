// SPDX-License-Identifier: MIT
#include "patch/detour.h"
#include "patch/functions/functions.h"
#include "patch/functions/padding.h"
#include "patch/stubs/bump_allocator.h"
#include "patch/write/code_write.h"
#include "patch/write/edits.h"
#include "patch/x86_64/detour_cell.h"
#include "patch/x86_64/relocate.h"
#include <errno.h>
#include <string.h>

#define POOL_BYTES (UINT64_C(1) << 20)
#define LEAD_INSTRUCTIONS 4 // of at least one byte each, and a jump of two
#define ADDRESS_SIZE 0x67   // a prefix that changes nothing about a call

// Within reach of all of a module. The first cell holds the hooks' addresses.
struct cell_pool {
    struct cell_pool *_Atomic next; // release, when it is whole
    uintptr_t start, end;
    uint32_t used;                  // cells; under the lock
    struct address_index by_target; // under the lock
};

static struct cell_pool *_Atomic pools;
static struct detour_hooks hooks;

void detours_start(const struct detour_hooks *given)
{
    hooks = *given;
}

// ---- detours

static bool reaches(const struct cell_pool *pool, uintptr_t address)
{
    int32_t distance;
    return relocate_distance(address, pool->start, &distance) &&
           relocate_distance(address, pool->end + INSTRUCTION_MOST, &distance) &&
           relocate_distance(address + INSTRUCTION_MOST, pool->start, &distance);
}

static struct cell_pool *add_pool(uintptr_t address)
{
    const struct patch_module *module = functions_module(address);
    struct cell_pool *pool = module ? bump_take(sizeof *pool) : NULL;
    void *memory = pool ? code_map_near(module->ref.start, module->ref.end, POOL_BYTES) : NULL;
    if (!memory)
        return NULL;
    pool->start = (uintptr_t)memory;
    pool->end = pool->start + POOL_BYTES;
    pool->used = 1;
    pool->next = atomic_load_explicit(&pools, memory_order_relaxed);
    if (edits_write_later(pool->start, &hooks, sizeof hooks, DETOUR_CELL) ||
        !reaches(pool, address))
        return NULL;
    atomic_store_explicit(&pools, pool, memory_order_release);
    return pool;
}

// A pool with room, within reach of the address.
static struct cell_pool *pool_for(uintptr_t address)
{
    for (struct cell_pool *pool = atomic_load_explicit(&pools, memory_order_relaxed); pool;
         pool = pool->next)
        if (reaches(pool, address) && pool->used < POOL_BYTES / DETOUR_CELL)
            return pool;
    return add_pool(address);
}

static uintptr_t next_place(const struct cell_pool *pool)
{
    return pool->start + (uintptr_t)pool->used * DETOUR_CELL;
}

// ---- planning

// The target of a detour: a function, or one whose address lies in a word.
struct goal {
    uintptr_t target, function, slot;
};

// The detour of a goal within reach, made if there is none; 0: no memory.
static uintptr_t detour_of(uintptr_t instruction, const struct goal *goal)
{
    const uintptr_t key = goal->slot ? goal->slot : goal->target;
    for (struct cell_pool *pool = atomic_load_explicit(&pools, memory_order_relaxed); pool;
         pool = pool->next) {
        void *known = reaches(pool, instruction) ? index_find(&pool->by_target, key) : NULL;
        if (known)
            return (uintptr_t)known;
    }
    struct cell_pool *pool = pool_for(instruction);
    if (!pool)
        return 0;
    struct detour_cell cell;
    const uintptr_t place = next_place(pool);
    if (!goal->slot)
        detour_cell_direct(&cell, pool->start, place, goal->target, goal->function);
    else if (!detour_cell_slot(&cell, pool->start, place, goal->slot))
        return 0;
    if (edits_write_later(place, &cell, sizeof cell, DETOUR_CELL) ||
        index_put(&pool->by_target, key, (void *)place))
        return 0;
    pool->used++;
    return place;
}

static int plan(uintptr_t instruction, const struct goal *goal)
{
    struct instruction in;
    if (!decode((const unsigned char *)instruction, INSTRUCTION_MOST, &in) ||
        (in.flow != FLOW_CALL && in.flow != FLOW_JUMP && in.flow != FLOW_BRANCH))
        return -ENOTSUP;
    const uintptr_t end = instruction + in.length, place = detour_of(instruction, goal);
    if (!place)
        return -ENOMEM;
    if (in.immediate_bytes == 1) {
        const uintptr_t island = padding_island(end, place);
        const int8_t near = (int8_t)(island - end);
        return island ? edits_add(end - sizeof near, &near, sizeof near, 0) : -ENOTSUP;
    }
    const int32_t distance = distance_to(end, place);
    return edits_add(end - sizeof distance, &distance, sizeof distance, 0);
}

int detour_plan_indirect(uintptr_t instruction, enum detour_hook hook)
{
    struct indirect_site site = {.address = instruction};
    const struct instruction *in = &site.in;
    if (!decode((const unsigned char *)instruction, INSTRUCTION_MOST, &site.in) ||
        (in->flow != FLOW_CALL_INDIRECT && in->flow != FLOW_JUMP_INDIRECT) ||
        in->length < CALL_BYTES || in->base == REGISTER_STACK || in->index == REGISTER_STACK)
        return -ENOTSUP;
    struct cell_pool *pool = pool_for(instruction);
    if (!pool)
        return -ENOMEM;
    struct detour_cell cell;
    const uintptr_t place = next_place(pool);
    if (!detour_cell_indirect(&cell, pool->start, place, &site, hook))
        return -ENOTSUP;
    if (edits_write_later(place, &cell, sizeof cell, DETOUR_CELL))
        return -ENOMEM;
    pool->used++;
    // Prefixes first, so that it returns to where it did.
    unsigned char code[INSTRUCTION_MOST];
    const size_t lead = in->length - CALL_BYTES;
    const int32_t distance = distance_to(instruction + in->length, place);
    memset(code, ADDRESS_SIZE, lead);
    code[lead] = in->flow == FLOW_CALL_INDIRECT ? 0xe8 : 0xe9;
    memcpy(code + lead + 1, &distance, sizeof distance);
    return edits_add(instruction, code, in->length, 0);
}

// How many bytes right before the jump take the frame down, and can be replaced: at least `least`;
// 0: not so many.
static size_t find_lead(uintptr_t instruction, size_t length, uintptr_t start, uintptr_t end,
                        size_t least)
{
    uintptr_t begins[LEAD_INSTRUCTIONS] = {0}; // of the epilogue so far, the latest first
    struct instruction in;
    for (uintptr_t pc = start; pc < instruction; pc += in.length) {
        if (!decode((const unsigned char *)pc, end - pc, &in))
            return 0;
        memmove(begins + 1, begins, sizeof begins - sizeof *begins);
        begins[0] = pc;
        if (!decode_restores_stack(&in))
            memset(begins, 0, sizeof begins);
    }
    size_t lead = 0;
    for (unsigned i = 0; i < LEAD_INSTRUCTIONS && begins[i] && lead < least; i++)
        lead = instruction - begins[i];
    if (lead < least)
        return 0;
    for (uintptr_t pc = start; pc < end; pc += in.length) {
        if (!decode((const unsigned char *)pc, end - pc, &in))
            return 0;
        const bool goes = in.flow == FLOW_JUMP || in.flow == FLOW_BRANCH || in.flow == FLOW_CALL;
        const uintptr_t target = goes ? decode_target(&in, pc) : 0;
        if (target > instruction - lead && target < instruction + length)
            return 0;
    }
    return lead;
}

int detour_plan_tail(uintptr_t instruction, uintptr_t start, uintptr_t end)
{
    struct indirect_site site = {.address = instruction};
    const struct instruction *in = &site.in;
    if (!decode((const unsigned char *)instruction, end - instruction, &site.in) ||
        in->flow != FLOW_JUMP_INDIRECT || in->length >= CALL_BYTES || in->base == REGISTER_STACK)
        return -ENOTSUP;
    const size_t lead =
        find_lead(instruction, in->length, start, end, (size_t)(CALL_BYTES - in->length));
    struct cell_pool *pool = lead ? pool_for(instruction) : NULL;
    struct detour_cell cell;
    if (!pool)
        return -ENOTSUP;
    const uintptr_t place = next_place(pool), from = instruction - lead;
    if (!detour_cell_tail(&cell, pool->start, place, &site, lead))
        return -ENOTSUP;
    if (edits_write_later(place, &cell, sizeof cell, DETOUR_CELL))
        return -ENOMEM;
    pool->used++;
    unsigned char jump[INSTRUCTION_MOST + CALL_BYTES];
    const int32_t distance = distance_to(from + CALL_BYTES, place);
    memset(jump, 0xcc, sizeof jump);
    jump[0] = 0xe9;
    memcpy(jump + 1, &distance, sizeof distance);
    return edits_add(from, jump, lead + in->length, 0);
}

int detour_plan(uintptr_t instruction, uintptr_t target, uintptr_t function)
{
    return plan(instruction, &(struct goal){.target = target, .function = function});
}

int detour_plan_slot(uintptr_t instruction, uintptr_t slot)
{
    return plan(instruction, &(struct goal){.slot = slot});
}

// ---- looking up

static const struct detour_cell *cell_at(uintptr_t pc)
{
    for (const struct cell_pool *pool = atomic_load_explicit(&pools, memory_order_acquire); pool;
         pool = pool->next)
        if (pc >= pool->start + DETOUR_CELL && pc < pool->end)
            return (const struct detour_cell *)(pc & -(uintptr_t)DETOUR_CELL);
    return NULL;
}

uintptr_t detour_function(uintptr_t back)
{
    const struct detour_cell *cell = cell_at(back);
    return cell && cell->kind == KIND_DIRECT ? cell->truth : 0;
}

bool detour_is_before(uintptr_t return_address)
{
    int32_t distance;
    const unsigned char *call = (const unsigned char *)return_address - CALL_BYTES;
    if (*call != 0xe8)
        return false;
    memcpy(&distance, call + 1, sizeof distance);
    return cell_at(return_address + (uintptr_t)(intptr_t)distance) != NULL;
}

enum unwind_standing detour_truth(uintptr_t *pc, uintptr_t *sp, bool *interrupted)
{
    const struct detour_cell *cell = cell_at(*pc);
    if (!cell || !cell->kind)
        return UNWIND_AS_IT_IS;
    const uintptr_t offset = *pc - (uintptr_t)cell;
    if (offset < cell->lead) {
        *pc = cell->truth - cell->lead + offset;
        *interrupted = true;
        return UNWIND_ELSEWHERE;
    }
    if (cell->kind != KIND_DIRECT) {
        if (offset >= cell->pushed && offset < cell->dropped)
            *sp += sizeof *sp;
        if (cell->kind == KIND_CALL) // the return address, which the call at the site has pushed
            *sp += sizeof *sp;
    }
    *pc = cell->kind == KIND_SLOT ? *(const uintptr_t *)cell->truth : cell->truth;
    *interrupted = true;
    return UNWIND_AT_CALL;
}
