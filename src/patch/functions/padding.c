// SPDX-License-Identifier: MIT
#include "patch/functions/padding.h"
#include "patch/functions/functions.h"
#include "patch/stubs/bump_allocator.h"
#include "patch/write/edits.h"
#include "patch/x86_64/decode.h"
#include "patch/x86_64/relocate.h"

#define ISLANDS_MOST 3
#define GAP_MOST 64

struct gap {
    uintptr_t end, next; // the free part
    unsigned count;
    struct {
        uintptr_t at, to;
    } island[ISLANDS_MOST];
};

static struct address_index gaps; // by start; under the lock

// True if control never runs past the end of the function.
static bool ends_for_good(const struct patch_function *function)
{
    struct instruction in = {.flow = FLOW_NEXT};
    for (uintptr_t pc = function->start; pc < function->end; pc += in.length)
        if (!decode((const unsigned char *)pc, function->end - pc, &in))
            return false;
    return in.flow == FLOW_JUMP || in.flow == FLOW_JUMP_INDIRECT || in.flow == FLOW_RETURN ||
           in.flow == FLOW_STOP || in.flow == FLOW_CALL; // of one that does not return
}

// Where padding that begins at `start` ends; 0: something else is there.
static uintptr_t end_of_padding(uintptr_t start)
{
    struct instruction in;
    uintptr_t pc = start;
    for (; pc - start < GAP_MOST && !functions_at(pc); pc += in.length)
        if (!decode((const unsigned char *)pc, INSTRUCTION_MOST, &in) ||
            !(decode_is_padding(&in) || *(const unsigned char *)pc == 0xcc))
            return 0;
    const struct patch_function *next = functions_at(pc);
    return next && next->start == pc ? pc : 0;
}

// The padding behind a function; NULL: there is none, or it is executed.
static struct gap *gap_behind(const struct patch_function *function)
{
    struct gap *gap = index_find(&gaps, function->end);
    if (gap)
        return gap;
    gap = bump_take(sizeof *gap);
    if (!gap || index_put(&gaps, function->end, gap))
        return NULL;
    gap->next = function->end;
    gap->end = ends_for_good(function) ? end_of_padding(function->end) : 0;
    return gap;
}

static bool is_near(uintptr_t end, uintptr_t island)
{
    return (intptr_t)(island - end) == (int8_t)(island - end);
}

// Free room for an island; 0.
static uintptr_t room_in(const struct gap *gap, uintptr_t end)
{
    return gap->next + JUMP_BYTES <= gap->end && is_near(end, gap->next) ? gap->next : 0;
}

// An island in the gap, an old one or a new one; 0.
static uintptr_t island_in(struct gap *gap, uintptr_t end, uintptr_t place)
{
    for (unsigned i = 0; i < gap->count; i++)
        if (gap->island[i].to == place && is_near(end, gap->island[i].at))
            return gap->island[i].at;
    const uintptr_t at = gap->count < ISLANDS_MOST ? room_in(gap, end) : 0;
    if (!at)
        return 0;
    unsigned char jump[JUMP_BYTES];
    if (!relocate_jump(jump, at, place) || edits_add(at, jump, sizeof jump, 0))
        return 0;
    gap->island[gap->count].at = at;
    gap->island[gap->count++].to = place;
    gap->next += JUMP_BYTES;
    return at;
}

// The first gap within reach, from *pc on, which moves behind it. NULL: no more.
static struct gap *next_gap(uintptr_t end, uintptr_t *pc)
{
    while (*pc <= end + INT8_MAX) {
        const struct patch_function *function = functions_at(*pc);
        struct gap *gap = function && is_near(end, function->end) ? gap_behind(function) : NULL;
        *pc = function ? function->end : *pc + 1;
        if (gap)
            return gap;
    }
    return NULL;
}

uintptr_t padding_island(uintptr_t end, uintptr_t place)
{
    uintptr_t island = 0, pc = end + INT8_MIN;
    for (struct gap *gap; !island && (gap = next_gap(end, &pc));)
        island = island_in(gap, end, place);
    return island;
}

uintptr_t padding_take(uintptr_t end)
{
    uintptr_t pc = end + INT8_MIN;
    for (struct gap *gap; (gap = next_gap(end, &pc));) {
        const uintptr_t room = room_in(gap, end);
        if (room) {
            gap->next += JUMP_BYTES;
            return room;
        }
    }
    return 0;
}

void padding_forget(uintptr_t start)
{
    struct gap *gap = index_find(&gaps, start);
    if (!gap)
        return;
    index_put(&gaps, start, NULL);
    bump_give_back(gap, sizeof *gap);
}
