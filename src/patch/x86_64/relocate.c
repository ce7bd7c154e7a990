// SPDX-License-Identifier: MIT
#include "patch/x86_64/relocate.h"
#include <string.h>

bool relocate_can(const struct instruction *in)
{
    switch (in->flow) {
    case FLOW_NEXT:
        // A landing pad is the target of a jump.
        return !decode_is_landing_pad(in);
    case FLOW_JUMP:
    case FLOW_RETURN:
        return true;
    case FLOW_BRANCH: // loop and jrcxz have no long form
        return in->map == MAP_0F || (in->opcode & 0xf0) == 0x70;
    }
    return false;
}

bool relocate_touches_stack(const struct instruction *in)
{
    const bool pushes = in->map == MAP_ONE &&
                        ((in->opcode & 0xf0) == 0x50 || in->opcode == 0x68 || in->opcode == 0x6a ||
                         in->opcode == 0x8f || in->opcode == 0x9c || in->opcode == 0x9d ||
                         in->opcode == 0xc8 || in->opcode == 0xc9 || in->opcode == 0xff);
    const bool names_stack =
        in->has_modrm && (in->reg == REGISTER_STACK || (in->mod == 3 && in->rm == REGISTER_STACK));
    return pushes || names_stack;
}

bool relocate_distance(uintptr_t end, uintptr_t target, int32_t *distance)
{
    const int64_t wide = (int64_t)(target - end);
    *distance = (int32_t)wide;
    return *distance == wide;
}

bool relocate_jump(unsigned char *code, uintptr_t from, uintptr_t to)
{
    int32_t distance;
    const bool reaches = relocate_distance(from + 1 + sizeof distance, to, &distance);
    code[0] = RELOCATED_JUMP;
    memcpy(code + 1, &distance, sizeof distance);
    return reaches;
}

static size_t make_branch(unsigned char *code, const struct instruction *in, uintptr_t from,
                          uintptr_t to)
{
    size_t at = 0;
    if (in->flow == FLOW_JUMP) {
        code[at++] = 0xe9;
    } else {
        code[at++] = 0x0f;
        code[at++] = 0x80 | (in->opcode & 0x0f);
    }
    int32_t distance;
    if (!relocate_distance(to + at + 4, decode_target(in, from), &distance))
        return 0;
    memcpy(code + at, &distance, sizeof distance);
    return at + sizeof distance;
}

size_t relocate_make(unsigned char *code, const struct instruction *in, const unsigned char *bytes,
                     uintptr_t from, uintptr_t to)
{
    if (in->flow == FLOW_JUMP || in->flow == FLOW_BRANCH)
        return make_branch(code, in, from, to);
    memcpy(code, bytes, in->length);
    if (in->rip_relative) {
        const uintptr_t target = from + in->length + (uintptr_t)(intptr_t)in->disp;
        int32_t distance;
        if (!relocate_distance(to + in->length, target, &distance))
            return 0;
        memcpy(code + in->disp_at, &distance, sizeof distance);
    }
    return in->length;
}
