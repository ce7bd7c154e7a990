// SPDX-License-Identifier: MIT
// Every register, just before a return and just after it. A called function may change what the
// convention lets it change; whoever sits between `ret` and the caller may change nothing at all.

#include "common.h"
#include <cpuid.h>

enum { GENERAL = 16, ROUNDS = 6000 };

// Filled by the assembly below: [0] just before the return, [1] just after it.
uint64_t register_state[2][GENERAL];
unsigned char vector_state[2][8192] __attribute__((aligned(64)));
uint64_t vector_mask;
uint64_t spin_count;

// leaf: spins (samples land here), sets every register it may, notes them all, returns to `nest`,
// which returns to `probe`, which notes them again. rsp is left out: it must differ by the slots
// popped.
void register_probe(void);
__asm__(".text\n"
        ".macro note_all which\n"
        "    mov %rax, register_state+\\which*128+0(%rip)\n"
        "    mov %rbx, register_state+\\which*128+8(%rip)\n"
        "    mov %rcx, register_state+\\which*128+16(%rip)\n"
        "    mov %rdx, register_state+\\which*128+24(%rip)\n"
        "    mov %rsi, register_state+\\which*128+32(%rip)\n"
        "    mov %rdi, register_state+\\which*128+40(%rip)\n"
        "    mov %rbp, register_state+\\which*128+48(%rip)\n"
        "    mov %r8, register_state+\\which*128+56(%rip)\n"
        "    mov %r9, register_state+\\which*128+64(%rip)\n"
        "    mov %r10, register_state+\\which*128+72(%rip)\n"
        "    mov %r11, register_state+\\which*128+80(%rip)\n"
        "    mov %r12, register_state+\\which*128+88(%rip)\n"
        "    mov %r13, register_state+\\which*128+96(%rip)\n"
        "    mov %r14, register_state+\\which*128+104(%rip)\n"
        "    mov %r15, register_state+\\which*128+112(%rip)\n"
        "    mov vector_mask(%rip), %eax\n"
        "    mov vector_mask+4(%rip), %edx\n"
        "    xsave64 vector_state+\\which*8192(%rip)\n"
        "    mov register_state+\\which*128+0(%rip), %rax\n"
        "    mov register_state+\\which*128+24(%rip), %rdx\n"
        ".endm\n"
        ".type register_leaf, @function\n"
        "register_leaf:\n"
        "    .cfi_startproc\n"
        "    mov spin_count(%rip), %rcx\n"
        "1:  dec %rcx\n"
        "    jnz 1b\n"
        "    mov $0x1111111122222222, %rax\n"
        "    mov $0x1111111133333333, %rcx\n"
        "    mov $0x1111111144444444, %rdx\n"
        "    mov $0x1111111155555555, %rsi\n"
        "    mov $0x1111111166666666, %rdi\n"
        "    mov $0x1111111177777777, %r8\n"
        "    mov $0x1111111188888888, %r9\n"
        "    mov $0x1111111199999999, %r10\n"
        "    mov $0x11111111aaaaaaaa, %r11\n"
        "    fninit\n"
        "    fldpi\n"
        "    fld1\n"
        "    note_all 0\n"
        "    ret\n"
        "    .cfi_endproc\n"
        ".size register_leaf, .-register_leaf\n"
        ".type register_nest, @function\n"
        "register_nest:\n"
        "    .cfi_startproc\n"
        "    call register_leaf\n"
        "    ret\n"
        "    .cfi_endproc\n"
        ".size register_nest, .-register_nest\n"
        ".type register_probe, @function\n"
        "register_probe:\n"
        "    .cfi_startproc\n"
        "    push %rbx\n    .cfi_adjust_cfa_offset 8\n    .cfi_rel_offset rbx, 0\n"
        "    push %rbp\n    .cfi_adjust_cfa_offset 8\n    .cfi_rel_offset rbp, 0\n"
        "    push %r12\n    .cfi_adjust_cfa_offset 8\n    .cfi_rel_offset r12, 0\n"
        "    push %r13\n    .cfi_adjust_cfa_offset 8\n    .cfi_rel_offset r13, 0\n"
        "    push %r14\n    .cfi_adjust_cfa_offset 8\n    .cfi_rel_offset r14, 0\n"
        "    push %r15\n    .cfi_adjust_cfa_offset 8\n    .cfi_rel_offset r15, 0\n"
        "    sub $8, %rsp\n    .cfi_adjust_cfa_offset 8\n"
        "    mov $0x2222222211111111, %rbx\n"
        "    mov $0x2222222233333333, %rbp\n"
        "    mov $0x2222222244444444, %r12\n"
        "    mov $0x2222222255555555, %r13\n"
        "    mov $0x2222222266666666, %r14\n"
        "    mov $0x2222222277777777, %r15\n"
        "    mov %rsp, register_state+120(%rip)\n"
        "    call register_nest\n"
        "    note_all 1\n"
        "    mov %rsp, register_state+128+120(%rip)\n"
        "    fninit\n"
        "    add $8, %rsp\n    .cfi_adjust_cfa_offset -8\n"
        "    pop %r15\n    .cfi_adjust_cfa_offset -8\n    .cfi_restore r15\n"
        "    pop %r14\n    .cfi_adjust_cfa_offset -8\n    .cfi_restore r14\n"
        "    pop %r13\n    .cfi_adjust_cfa_offset -8\n    .cfi_restore r13\n"
        "    pop %r12\n    .cfi_adjust_cfa_offset -8\n    .cfi_restore r12\n"
        "    pop %rbp\n    .cfi_adjust_cfa_offset -8\n    .cfi_restore rbp\n"
        "    pop %rbx\n    .cfi_adjust_cfa_offset -8\n    .cfi_restore rbx\n"
        "    ret\n"
        "    .cfi_endproc\n"
        ".size register_probe, .-register_probe\n");

// The vector registers must hold something that is worth keeping, in all of their width.
__attribute__((target("avx2"))) static void fill_ymm(const unsigned char *pattern)
{
    __asm__ volatile("vmovdqu (%0), %%ymm0; vmovdqu 32(%0), %%ymm1; vmovdqu 64(%0), %%ymm2;"
                     "vmovdqu 96(%0), %%ymm3; vmovdqu 128(%0), %%ymm8; vmovdqu 160(%0), %%ymm15"
                     :
                     : "r"(pattern)
                     : "xmm0", "xmm1", "xmm2", "xmm3", "xmm8", "xmm15");
}

__attribute__((target("avx512f"))) static void fill_zmm(const unsigned char *pattern)
{
    __asm__ volatile("vmovdqu64 (%0), %%zmm0; vmovdqu64 64(%0), %%zmm7; vmovdqu64 128(%0), %%zmm16;"
                     "vmovdqu64 192(%0), %%zmm31; kmovw (%0), %%k1; kmovw 2(%0), %%k7"
                     :
                     : "r"(pattern)
                     : "xmm0", "xmm7", "xmm16", "xmm31", "k1", "k7");
}

int main(void)
{
    unsigned a, b, c, d;
    CHECK(__get_cpuid(1, &a, &b, &c, &d) && (c & bit_OSXSAVE));
    CHECK(__get_cpuid_count(13, 0, &a, &b, &c, &d));
    // x87, SSE, AVX and AVX-512, as far as this machine has them.
    vector_mask = a & 0xe7;
    // Other parts of the state (AMX) are larger, and lie behind them.
    for (unsigned part = 2; part < 8; part++)
        if (vector_mask >> part & 1)
            CHECK(__get_cpuid_count(13, part, &a, &b, &c, &d) && a + b <= sizeof vector_state[0]);
    int avx2 = __builtin_cpu_supports("avx2"), avx512 = __builtin_cpu_supports("avx512f");
    unsigned char pattern[256];
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t value = (uint64_t)i;
        for (int word = 0; word < 32; word++) {
            value = burn(value, 0) * 6364136223846793005u + 1442695040888963407u;
            memcpy(pattern + word * 8, &value, 8);
        }
        spin_count = 100000 + (uint64_t)(i * 13 % 1000);
        memset(vector_state, 0, sizeof vector_state);
        if (avx2)
            fill_ymm(pattern);
        if (avx512)
            fill_zmm(pattern);
        register_probe();
        CHECK(memcmp(register_state[0], register_state[1], sizeof register_state[0]) == 0);
        // x87 keeps the address of its last instruction (bytes 8 to 23): the same, nothing ran
        // since.
        CHECK(memcmp(vector_state[0], vector_state[1], sizeof vector_state[0]) == 0);
    }
    printf("registers kept%s%s\n", avx2 ? ", ymm" : "", avx512 ? ", zmm" : "");
    return 0;
}
