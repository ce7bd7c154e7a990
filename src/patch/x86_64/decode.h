// SPDX-License-Identifier: MIT
#ifndef CAIRN_PATCH_X86_64_DECODE_H
#define CAIRN_PATCH_X86_64_DECODE_H

// One x86-64 instruction: how long it is, where it may go, which of its bytes depend on where it
// stands. No more is needed to find call sites and to move instructions elsewhere. So this is our
// own, a few tables, rather than a library: it runs in other people's programs between a call and
// its callee, where it must touch no vector register and call no function of theirs. The tests hold
// it against a full decoder.

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum flow {
    FLOW_NEXT,          // to the next instruction, or to a fault
    FLOW_BRANCH,        // there or to the next one: jcc, loop, jrcxz
    FLOW_JUMP,          // there
    FLOW_JUMP_INDIRECT, // to what its operand holds
    FLOW_CALL,
    FLOW_CALL_INDIRECT,
    FLOW_RETURN,
    FLOW_STOP, // ud2, hlt, int3
    FLOW_ODD,  // sees or changes where it is in another way: far ones, xbegin, syscall
};

enum {
    PREFIX_OPERAND = 1, // 66
    PREFIX_ADDRESS = 2, // 67
    PREFIX_F2 = 4,      // bnd, on branches
    PREFIX_F3 = 8,
    PREFIX_LOCK = 16,
    PREFIX_FS_GS = 32,
    PREFIX_SEGMENT = 64, // the other segments; 3e is notrack on indirect branches
};

enum opcode_map { MAP_ONE, MAP_0F, MAP_0F38, MAP_0F3A, MAP_OTHER };

struct instruction {
    uint8_t length;
    uint8_t flow; // enum flow
    uint8_t prefixes;
    uint8_t rex; // 0 if it has none (those of VEX and EVEX are left out)
    uint8_t map; // enum opcode_map; MAP_OTHER: three-byte VEX, EVEX, XOP of other maps
    uint8_t opcode;
    uint8_t opcode_at;
    bool vector; // written with VEX, EVEX or XOP
    bool has_modrm;
    uint8_t mod, reg, rm; // rm and reg with the bits of REX
    uint8_t base, index;  // of a memory operand; NO_REGISTER if none
    uint8_t scale;        // of the index: 1, 2, 4 or 8
    bool rip_relative;    // the displacement counts from the end of the instruction
    uint8_t disp_at, disp_bytes;
    uint8_t immediate_at, immediate_bytes;
    int32_t disp;
    int64_t immediate; // sign-extended; of branches: the distance from the end
};

#define NO_REGISTER 0xff
// As instructions number them.
#define REGISTER_STACK 4
#define REGISTER_FRAME 5
#define INSTRUCTION_MOST 15

// Decodes what is at `code`. False: no instruction, or one that needs more than `bytes`.
bool decode(const unsigned char *code, size_t bytes, struct instruction *instruction);

// The length of the instruction at `code` if it is a plain one: it leads to the next, is no
// padding, and of the usual form. 0: use decode(). Takes a quarter of its time. INSTRUCTION_MOST
// bytes must be readable.
unsigned decode_plain_length(const unsigned char *code);

// Where a direct branch at `address` goes.
static inline uintptr_t decode_target(const struct instruction *instruction, uintptr_t address)
{
    return address + instruction->length + (uintptr_t)instruction->immediate;
}

// endbr64, and no-ops of any length: the padding of compilers.
bool decode_is_landing_pad(const struct instruction *instruction);
bool decode_is_padding(const struct instruction *instruction);

// pop, leave, or an addition to the stack pointer: an epilogue.
bool decode_restores_stack(const struct instruction *instruction);

#endif
