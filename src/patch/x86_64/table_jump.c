// SPDX-License-Identifier: MIT
#include "patch/x86_64/table_jump.h"

void trail_add(struct jump_trail *trail, const struct instruction *in)
{
    trail->last[trail->count++ % TRAIL] = *in;
}

enum origin { ORIGIN_NOT_HERE, ORIGIN_LOADED, ORIGIN_COPIED, ORIGIN_COMPUTED };

// Compares and tests only read; stores read the register and write elsewhere.
static bool only_reads(const struct instruction *in)
{
    const uint8_t group = in->reg & 7;
    switch (in->opcode) {
    case 0x38:
    case 0x39:
    case 0x3a:
    case 0x3b:
    case 0x84:
    case 0x85:
        return true;
    case 0x80:
    case 0x81:
    case 0x83:
        return group == 7;
    case 0xf6:
    case 0xf7:
        return group < 2;
    case 0xff:
        return group == 4 || group == 6;
    }
    return false;
}

// Its registers are vectors, which have the same numbers.
static bool names_vectors(const struct instruction *in)
{
    const uint8_t op = in->opcode;
    const bool general =
        op == 0x2c || op == 0x2d || op == 0x50 || op == 0x7e || op == 0xc5 || op == 0xd7;
    return in->map == MAP_0F && !general &&
           ((op & 0xf8) == 0x10 || (op & 0xf8) == 0x28 || (op >= 0x50 && op < 0x80) || op == 0xc2 ||
            op == 0xc6 || op >= 0xd0);
}

// The field for a register is a part of the opcode.
static bool names_no_register(const struct instruction *in)
{
    const uint8_t op = in->opcode;
    if (in->map == MAP_0F)
        return op == 0x1f || op == 0xba || (op & 0xf0) == 0x90;
    return (op & 0xfc) == 0x80 || op == 0x8f || (op & 0xfe) == 0xc0 || (op & 0xfe) == 0xc6 ||
           (op & 0xfc) == 0xd0 || (op & 0xfe) == 0xf6 || (op & 0xfe) == 0xfe;
}

// Multiplies or divides: into rax and rdx.
static bool is_wide(const struct instruction *in)
{
    return in->map == MAP_ONE && (in->opcode & 0xfe) == 0xf6 && (in->reg & 7) >= 4;
}

// An entry of a table of addresses. A pointer to a virtual member function is none: it is odd, and
// one more than the distance of its entry from the begin of the table, which is added as it is.
static bool is_indexed(const struct instruction *in)
{
    const bool member = in->scale == 1 && in->base != NO_REGISTER && in->disp == -1;
    return in->index != NO_REGISTER && !member;
}

static bool has_base(const struct instruction *in)
{
    return in->rip_relative || in->base != NO_REGISTER;
}

static enum origin origin_in(const struct instruction *in, uint8_t reg)
{
    if (in->flow == FLOW_CALL || in->flow == FLOW_CALL_INDIRECT)
        return ORIGIN_COMPUTED; // may have changed any register that is not preserved
    if (in->vector || in->map > MAP_0F || names_vectors(in))
        return ORIGIN_NOT_HERE;
    if (in->map == MAP_ONE) {
        const uint8_t low = (in->opcode & 7) | (in->rex & 1 ? 8 : 0);
        if ((in->opcode & 0xf8) == 0x58 && low == reg)
            return ORIGIN_COMPUTED;
        if ((in->opcode & 0xf0) == 0xb0 && low == reg)
            return ORIGIN_COPIED;
        if (in->opcode == 0x8b && in->reg == reg)
            return in->mod == 3                      ? ORIGIN_COPIED
                   : !is_indexed(in) && has_base(in) ? ORIGIN_LOADED
                                                     : ORIGIN_COMPUTED;
        if (in->opcode == 0x89)
            return in->mod == 3 && in->rm == reg ? ORIGIN_COPIED : ORIGIN_NOT_HERE;
        if (only_reads(in))
            return ORIGIN_NOT_HERE;
    }
    const bool named = in->has_modrm && ((in->reg == reg && !names_no_register(in)) ||
                                         (in->mod == 3 && in->rm == reg));
    return named || (is_wide(in) && (reg == 0 || reg == 2)) ? ORIGIN_COMPUTED : ORIGIN_NOT_HERE;
}

// The latest of the instructions before `back` that says where the register comes from.
static enum origin origin_of(const struct jump_trail *trail, uint8_t reg, unsigned *back)
{
    const unsigned known = trail->count < TRAIL ? trail->count : TRAIL;
    while (++*back <= known) {
        const struct instruction *in = &trail->last[(trail->count - *back) % TRAIL];
        const enum origin origin = origin_in(in, reg);
        if (origin == ORIGIN_COPIED && in->has_modrm)
            reg = in->opcode == 0x89 ? in->reg : in->rm;
        else if (origin != ORIGIN_NOT_HERE)
            return origin;
    }
    // An argument, if these are all the instructions since the function's first.
    return trail->count <= TRAIL ? ORIGIN_NOT_HERE : ORIGIN_COMPUTED;
}

// The address that it was loaded from was computed with an index: an entry of a table.
static bool base_is_indexed(const struct jump_trail *trail, uint8_t base, unsigned back)
{
    const unsigned known = trail->count < TRAIL ? trail->count : TRAIL;
    while (++back <= known) {
        const struct instruction *in = &trail->last[(trail->count - back) % TRAIL];
        if (in->map != MAP_ONE || in->vector || !in->has_modrm)
            continue;
        const bool adds = (in->opcode == 0x01 && in->mod == 3 && in->rm == base) ||
                          (in->opcode == 0x03 && in->reg == base);
        if (adds || (in->opcode == 0x8d && in->reg == base))
            return adds || in->index != NO_REGISTER;
        if (in->opcode == 0x8b && in->reg == base)
            return false;
    }
    return false;
}

bool trail_leaves(const struct jump_trail *trail, const struct instruction *jump)
{
    if (jump->prefixes & PREFIX_SEGMENT)
        return false; // notrack: compilers put it on switches alone
    // The frame is gone.
    if (trail->count && decode_restores_stack(&trail->last[(trail->count - 1) % TRAIL]))
        return true;
    if (jump->mod != 3)
        return jump->rip_relative || (!is_indexed(jump) && jump->base != NO_REGISTER &&
                                      !base_is_indexed(trail, jump->base, 0));
    unsigned back = 0;
    const enum origin origin = origin_of(trail, jump->rm, &back);
    if (origin != ORIGIN_LOADED)
        return origin == ORIGIN_NOT_HERE || origin == ORIGIN_COPIED;
    const struct instruction *load = &trail->last[(trail->count - back) % TRAIL];
    return load->rip_relative || !base_is_indexed(trail, load->base, back);
}
