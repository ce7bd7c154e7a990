// SPDX-License-Identifier: MIT
// Generated code without tables and frame pointers, on a stack that is full of return addresses of
// calls that are over: whoever searches there finds those, and then nothing.

#include "common.h"
#include <sys/mman.h>

static volatile uint64_t sink;

NOIPA uint64_t deeper(unsigned depth)
{
    volatile uint64_t room[2] = {depth, depth};
    uint64_t sum = depth ? deeper(depth - 1) : 0;
    NO_TAIL_CALL();
    return sum + room[1];
}

// Makes room on the stack, of which it clears the upper half, works there, and leaves by a jump
// that does not tell where it leads.
static const unsigned char code[] = {
    0x55,                                           // push %rbp
    0x31, 0xed,                                     // xor  %ebp, %ebp
    0x48, 0x81, 0xec, 0x00, 0x04, 0x00, 0x00,       // sub  $0x400, %rsp
    0x31, 0xc0,                                     // xor  %eax, %eax
    0xb9, 0x40, 0x00, 0x00, 0x00,                   // mov  $64, %ecx
    0x48, 0x8d, 0xbc, 0x24, 0x00, 0x02, 0x00, 0x00, // lea  0x200(%rsp), %rdi
    0xf3, 0x48, 0xab,                               // rep stosq
    0x48, 0xff, 0xce,                               // dec  %rsi
    0x75, 0xfb,                                     // jnz  to it
    0xff, 0xe2,                                     // jmp  *%rdx
};
static const unsigned char epilogue[] = {
    0x48, 0x81, 0xc4, 0x00, 0x04, 0x00, 0x00, // add  $0x400, %rsp
    0x5d,                                     // pop  %rbp
    0xc3,                                     // ret
};
#define EPILOGUE 256

typedef void (*generated_code)(void *, uint64_t rounds, const void *epilogue);

NOIPA void run(generated_code generated, uint64_t rounds)
{
    sink += deeper(20);
    generated(NULL, rounds, (const char *)(uintptr_t)generated + EPILOGUE);
    NO_TAIL_CALL();
}

int main(void)
{
    unsigned char *memory =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    memcpy(memory, code, sizeof code);
    memcpy(memory + EPILOGUE, epilogue, sizeof epilogue);
    for (unsigned i = 0; i < 40; i++)
        run((generated_code)(uintptr_t)memory, 5000000);
    printf("stale\n");
    return 0;
}
