// SPDX-License-Identifier: MIT
// Which system call the interrupted code has made. Its number was in %rax, where its result is now.
// So it is read from the code before the `syscall` instruction: an instruction that loads a
// constant, and then only known instructions that leave %rax alone.

#include "unwind/arch.h"
#include <string.h>
#include <ucontext.h>

#define CALL_BYTES 2
#define LOOK_BACK 64    // bytes of code
#define MOST_CALLS 1024 // higher numbers are something else

static bool is_system_call(const unsigned char *code)
{
    return code[0] == 0x0f && code[1] == 0x05;
}

static bool is_rex(unsigned char byte)
{
    return (byte & 0xf0) == 0x40;
}

// The length of a ModRM byte and what belongs to it.
static size_t operand_bytes(const unsigned char *code)
{
    const unsigned mode = code[0] >> 6, base = code[0] & 7;
    if (mode == 3)
        return 1;
    const size_t index = base == 4;
    const bool absolute = mode == 0 && (base == 5 || (index && (code[1] & 7) == 5));
    return 1 + index + (mode == 1 ? 1 : mode == 2 || absolute ? 4 : 0);
}

// The same as below, of opcodes with two bytes: from the second one on.
static size_t long_bytes(const unsigned char *code, unsigned rex)
{
    const size_t bytes = 1 + operand_bytes(code + 1);
    const bool to_first = !(code[1] >> 3 & 7) && !(rex & 4);
    if ((code[0] & 0xf0) == 0x80) // a branch that was not taken
        return 5;
    if (code[0] == 0x1f) // nop
        return bytes;
    if ((code[0] & 0xf0) == 0x90) // set a byte, which is not one of %rax
        return code[1] >> 6 != 3 || (code[1] & 3) || rex & 1 ? bytes : 0;
    // Conditional moves, moves that extend.
    return ((code[0] & 0xf0) == 0x40 || (code[0] & 0xf6) == 0xb6) && !to_first ? bytes : 0;
}

// The length of an instruction that leaves %rax alone; 0 for all others.
static size_t harmless_bytes(const unsigned char *code)
{
    const unsigned char *at = code;
    if (*at == 0x64 || *at == 0x66) // %fs, or 16 bits
        at++;
    const unsigned rex = is_rex(*at) ? *at++ : 0, wide = rex & 8;
    const unsigned char opcode = *at++;
    const bool to_first = !(at[0] >> 3 & 7) && !(rex & 4); // the register operand is %rax
    const bool to_second = at[0] >> 6 == 3 && !(at[0] & 7) && !(rex & 1); // the other one is
    const size_t before = (size_t)(at - code);
    switch (opcode) {
    case 0x90: // nop
        return before;
    case 0x8b: // mov, lea, movslq, add, or, and, sub, xor to a register
    case 0x8d:
    case 0x63:
    case 0x03:
    case 0x0b:
    case 0x23:
    case 0x2b:
    case 0x33:
        return to_first ? 0 : before + operand_bytes(at);
    case 0x89: // the same to a register or memory
    case 0x01:
    case 0x09:
    case 0x21:
    case 0x29:
    case 0x31:
        return to_second ? 0 : before + operand_bytes(at);
    case 0x39: // cmp, test
    case 0x3b:
    case 0x85:
        return before + operand_bytes(at);
    case 0x80: // arithmetic with a byte, shifts; mov or arithmetic with four
        if (at[0] >> 6 == 3 && (at[0] & 7) == 4 && !rex) // %ah
            return 0;
        // fall through
    case 0x83:
    case 0xc1:
        return to_second ? 0 : before + operand_bytes(at) + 1;
    case 0x81:
    case 0xc7:
        return to_second ? 0 : before + operand_bytes(at) + 4;
    case 0x0f:
        return long_bytes(at, rex) ? before + long_bytes(at, rex) : 0;
    }
    if ((opcode & 0xf0) == 0x70) // a branch that was not taken
        return before + 1;
    if ((opcode & 0xf8) == 0xb8) // mov of a constant
        return (opcode & 7) || rex & 1 ? before + (wide ? 8 : 4) : 0;
    if ((opcode & 0xf0) == 0x50) // push, pop
        return opcode == 0x58 && !(rex & 1) ? 0 : before;
    return 0;
}

// The length of an instruction that loads a constant into %rax; 0 if it does something else.
static size_t load_bytes(const unsigned char *code, unsigned char before, long *number)
{
    int32_t loaded;
    if ((code[0] == 0x31 || code[0] == 0x33) && code[1] == 0xc0 &&
        (!is_rex(before) || before == 0x48)) { // xor %eax, %eax
        *number = 0;
        return 2;
    }
    if (code[0] == 0xb8 && !is_rex(before)) { // mov $number, %eax
        memcpy(&loaded, code + 1, sizeof loaded);
        *number = loaded;
        return 5;
    }
    if (code[0] == 0x48 && code[1] == 0xc7 && code[2] == 0xc0) { // mov $number, %rax
        memcpy(&loaded, code + 3, sizeof loaded);
        *number = loaded;
        return 7;
    }
    return 0;
}

// An instruction, as far as it lies before the call: the bytes behind that may not be readable.
struct code_window {
    unsigned char code[8];
};

static struct code_window peek(const unsigned char *call, size_t before)
{
    struct code_window window = {{0}};
    for (size_t i = 0; i < sizeof window.code && i < before; i++)
        window.code[i] = *(call - before + i);
    return window;
}

static long checked(long number)
{
    return number >= 0 && number < MOST_CALLS ? number : ARCH_CALL_UNKNOWN;
}

long arch_coded_number(const unsigned char *call, size_t readable)
{
    if (readable > LOOK_BACK)
        readable = LOOK_BACK;
    for (size_t back = 2; back <= readable; back++) {
        long number;
        size_t left = back;
        size_t bytes =
            load_bytes(peek(call, left).code, back < readable ? *(call - back - 1) : 0, &number);
        while (bytes && bytes < left) {
            left -= bytes;
            bytes = harmless_bytes(peek(call, left).code);
        }
        if (bytes == left)
            return checked(number);
    }
    return ARCH_CALL_UNKNOWN;
}

bool arch_may_be_in_system_call(const void *ucontext)
{
    // The instruction has left the address behind it there, and the flags. One that is made once
    // more lies before that.
    const greg_t *registers = ((const ucontext_t *)ucontext)->uc_mcontext.gregs;
    const greg_t distance = registers[REG_RCX] - registers[REG_RIP];
    return (distance == 0 || distance == CALL_BYTES) && registers[REG_R11] == registers[REG_EFL];
}

long arch_system_call(const void *ucontext, size_t readable)
{
    const greg_t *registers = ((const ucontext_t *)ucontext)->uc_mcontext.gregs;
    const unsigned char *pc = (const unsigned char *)registers[REG_RIP];
    if (!arch_may_be_in_system_call(ucontext))
        return ARCH_CALL_NONE;
    if (registers[REG_RCX] != registers[REG_RIP])
        return is_system_call(pc) ? checked(registers[REG_RAX]) : ARCH_CALL_NONE;
    if (readable < CALL_BYTES || !is_system_call(pc - CALL_BYTES))
        return ARCH_CALL_NONE;
    return arch_coded_number(pc - CALL_BYTES, readable - CALL_BYTES);
}

bool arch_was_interrupted_at(const void *ucontext, uintptr_t pc)
{
    const greg_t *registers = ((const ucontext_t *)ucontext)->uc_mcontext.gregs;
    const uintptr_t now = (uintptr_t)registers[REG_RIP];
    return pc == now || (pc == now + CALL_BYTES && pc == (uintptr_t)registers[REG_RCX]);
}
