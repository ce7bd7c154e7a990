// SPDX-License-Identifier: MIT
#include "base/likely.h"
#include "unwind/arch.h"
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

// rbx, rbp, rsp, r12 to r15, return address
const unsigned char arch_tracked[ARCH_TRACKED] = {3, 6, 7, 12, 13, 14, 15, 16};

int arch_tracked_slot(uint64_t reg)
{
    static const signed char slot[UNWIND_REGISTERS] = {-1, -1, -1, 0, -1, -1, 1, 2, -1,
                                                       -1, -1, -1, 3, 4,  5,  6, 7};
    return reg < UNWIND_REGISTERS ? slot[reg] : -1;
}

size_t arch_context_offset(unsigned reg)
{
    static const unsigned char index[UNWIND_REGISTERS] = {
        REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP, REG_R8,
        REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP,
    };
    return offsetof(ucontext_t, uc_mcontext.gregs) + sizeof(greg_t) * index[reg];
}

void arch_context_registers(const void *ucontext, uintptr_t registers[UNWIND_REGISTERS])
{
    const greg_t *from = ((const ucontext_t *)ucontext)->uc_mcontext.gregs;
    registers[0] = (uintptr_t)from[REG_RAX];
    registers[1] = (uintptr_t)from[REG_RDX];
    registers[2] = (uintptr_t)from[REG_RCX];
    registers[3] = (uintptr_t)from[REG_RBX];
    registers[4] = (uintptr_t)from[REG_RSI];
    registers[5] = (uintptr_t)from[REG_RDI];
    registers[6] = (uintptr_t)from[REG_RBP];
    registers[7] = (uintptr_t)from[REG_RSP];
    for (unsigned i = 0; i < 8; i++)
        registers[8 + i] = (uintptr_t)from[REG_R8 + i];
    registers[16] = (uintptr_t)from[REG_RIP];
}

// FF /2 with a ModRM byte at `modrm`: how long is it, opcode included?
static size_t indirect_call_bytes(unsigned char modrm, unsigned char sib)
{
    unsigned mode = modrm >> 6, rm = modrm & 7;
    if (((modrm >> 3) & 7) != 2)
        return 0;
    if (mode == 3)
        return 2;
    size_t bytes = 2;
    if (rm == 4)
        bytes++;
    if (mode == 1)
        return bytes + 1;
    if (mode == 2 || rm == 5 || (rm == 4 && (sib & 7) == 5))
        return bytes + 4;
    return bytes;
}

bool arch_follows_call(const unsigned char *start, const unsigned char *end)
{
    size_t before = (size_t)(end - start);
    if (before >= 5 && end[-5] == 0xe8)
        return true;
    // A REX prefix in front changes nothing about the length of the rest.
    for (size_t bytes = 2; bytes <= 7 && bytes <= before; bytes++)
        if (end[-(ptrdiff_t)bytes] == 0xff &&
            indirect_call_bytes(end[1 - (ptrdiff_t)bytes],
                                bytes > 2 ? end[2 - (ptrdiff_t)bytes] : 0) == bytes)
            return true;
    return false;
}

uintptr_t arch_call_target(const unsigned char *end)
{
    int32_t distance;
    memcpy(&distance, end - sizeof distance, sizeof distance);
    return end[-5] == 0xe8 ? (uintptr_t)end + (uintptr_t)(intptr_t)distance : 0;
}

bool arch_is_sigreturn(const unsigned char *code, size_t bytes)
{
    // mov $15, %rax (or %eax); syscall
    static const unsigned char wide[] = {0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05};
    static const unsigned char narrow[] = {0xb8, 15, 0, 0, 0, 0x0f, 0x05};
    return (bytes >= sizeof wide && memcmp(code, wide, sizeof wide) == 0) ||
           (bytes >= sizeof narrow && memcmp(code, narrow, sizeof narrow) == 0);
}

int arch_guess_slot(const unsigned char *start, const unsigned char *pc, const unsigned char *end,
                    bool *saved_fp)
{
    static const unsigned char endbr[] = {0xf3, 0x0f, 0x1e, 0xfa};
    size_t after = (size_t)(end - pc), before = (size_t)(pc - start);
    *saved_fp = false;
    if (after >= 4 && memcmp(pc, endbr, 4) == 0)
        return 0;
    if (after < 3)
        return -1;
    if (pc[0] == 0xc3 || pc[0] == 0xc2 || (pc[0] == 0xf3 && pc[1] == 0xc3) ||
        pc[0] == 0x55) // ret, or push %rbp
        return 0;
    // mov %rsp, %rbp after push %rbp
    if (before >= 1 && pc[-1] == 0x55 && pc[0] == 0x48 &&
        ((pc[1] == 0x89 && pc[2] == 0xe5) || (pc[1] == 0x8b && pc[2] == 0xec))) {
        *saved_fp = true;
        return 1;
    }
    return -1;
}

#define SHADOW_STACK_STATUS 0x5005 // ARCH_SHSTK_STATUS: headers of this age lack it
#define SHADOW_STACK_ON 1

bool arch_protects_returns(void)
{
    unsigned long features = 0;
    return !syscall(SYS_arch_prctl, SHADOW_STACK_STATUS, &features) && features & SHADOW_STACK_ON;
}

#define ALIGNMENT_CHECK (UINT64_C(1) << 18)

void arch_allow_unaligned(const void *ucontext)
{
    const greg_t *registers = ((const ucontext_t *)ucontext)->uc_mcontext.gregs;
    if (UNLIKELY(registers[REG_EFL] & (greg_t)ALIGNMENT_CHECK))
        __builtin_ia32_writeeflags_u64(__builtin_ia32_readeflags_u64() & ~ALIGNMENT_CHECK);
}

uint64_t arch_begin_unaligned(void)
{
    const uint64_t flags = __builtin_ia32_readeflags_u64();
    if (UNLIKELY(flags & ALIGNMENT_CHECK))
        __builtin_ia32_writeeflags_u64(flags & ~ALIGNMENT_CHECK);
    return flags;
}

void arch_restore_flags(uint64_t flags)
{
    if (UNLIKELY(flags & ALIGNMENT_CHECK))
        __builtin_ia32_writeeflags_u64(flags);
}

bool arch_is_after_system_call(const void *ucontext)
{
    // The instruction leaves the address behind it there.
    const greg_t *registers = ((const ucontext_t *)ucontext)->uc_mcontext.gregs;
    return registers[REG_RCX] == registers[REG_RIP];
}

#define SYSTEM_CALL_BYTES 2

static bool is_system_call(const unsigned char *code)
{
    return code[0] == 0x0f && code[1] == 0x05;
}

enum arch_interruption arch_interruption(const void *ucontext)
{
    // The instruction has left the address behind it there, and the flags: a call that is taken
    // back is all as it was but for these.
    const greg_t *registers = ((const ucontext_t *)ucontext)->uc_mcontext.gregs;
    const greg_t distance = registers[REG_RCX] - registers[REG_RIP];
    if (distance == SYSTEM_CALL_BYTES && registers[REG_R11] == registers[REG_EFL] &&
        is_system_call((const unsigned char *)registers[REG_RIP]))
        return ARCH_RESTARTING;
    return distance == 0 && registers[REG_RAX] == -EINTR ? ARCH_FAILING : ARCH_NO_CALL;
}

long arch_restarted_call(const void *ucontext)
{
    return (long)((const ucontext_t *)ucontext)->uc_mcontext.gregs[REG_RAX];
}

unsigned long arch_call_argument(const void *ucontext, unsigned index)
{
    static const unsigned char registers[] = {REG_RDI, REG_RSI, REG_RDX, REG_R10, REG_R8, REG_R9};
    return (unsigned long)((const ucontext_t *)ucontext)->uc_mcontext.gregs[registers[index]];
}

void arch_fail_call(void *ucontext)
{
    greg_t *registers = ((ucontext_t *)ucontext)->uc_mcontext.gregs;
    registers[REG_RAX] = -EINTR;
    registers[REG_RIP] += SYSTEM_CALL_BYTES;
}

// A register by its number in instructions.
static greg_t register_of(const greg_t *registers, unsigned number)
{
    static const unsigned char index[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                                          REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                          REG_R12, REG_R13, REG_R14, REG_R15};
    return registers[index[number]];
}

static bool loads_number(const unsigned char *code, long number)
{
    int32_t loaded;
    memcpy(&loaded, code + 1, sizeof loaded);
    return code[0] == 0xb8 && loaded == number;
}

// The number is not in %eax any more. The instruction that has put it there shows it: mov $number,
// %eax before the call, perhaps with a short one between them; or mov %register, %eax.
long arch_coded_call(const void *ucontext, long expected)
{
    const greg_t *registers = ((const ucontext_t *)ucontext)->uc_mcontext.gregs;
    const unsigned char *call = (const unsigned char *)registers[REG_RCX] - SYSTEM_CALL_BYTES;
    if (arch_interruption(ucontext) == ARCH_NO_CALL || !is_system_call(call))
        return -1;
    if (expected < 0) {
        int32_t number;
        memcpy(&number, call - 4, sizeof number);
        return call[-5] == 0xb8 ? number : -1;
    }
    const unsigned from = (call[-1] >> 3 & 7) + (call[-3] == 0x44 ? 8 : 0);
    const bool loads = loads_number(call - 5, expected) || loads_number(call - 8, expected) ||
                       loads_number(call - 9, expected);
    const bool moves = call[-2] == 0x89 && (call[-1] & 0xc7) == 0xc0 && from > 0 &&
                       register_of(registers, from) == expected;
    return loads || moves ? expected : -1;
}

void arch_repeat_call(void *ucontext, long number)
{
    greg_t *registers = ((ucontext_t *)ucontext)->uc_mcontext.gregs;
    registers[REG_RAX] = number;
    registers[REG_RIP] = registers[REG_RCX] - SYSTEM_CALL_BYTES;
}

// libc keeps it disguised.
uintptr_t arch_jump_goal(const void *buffer)
{
    uintptr_t guard, goal = ((const uintptr_t *)buffer)[6];
    __asm__("movq %%fs:0x30, %0" : "=r"(guard));
    return (goal >> 17 | goal << 47) ^ guard;
}
