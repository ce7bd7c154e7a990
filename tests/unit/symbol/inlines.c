// SPDX-License-Identifier: MIT
// Compiled by the tests of src/symbol in many ways. The labels say where the tests look; the
// comments "at NAME" say on which line that is.
#define ALWAYS static inline __attribute__((always_inline))

volatile int sink;

__attribute__((cold)) void failed(int code);

ALWAYS void innermost(int x)
{
    __asm__ volatile(".globl mark_innermost\nmark_innermost: nop"); // at innermost
    sink += x;
}

ALWAYS void middle(int x)
{
    sink ^= x;
    innermost(x * 2); // at middle
}

__attribute__((noinline)) int outer(int x)
{
    sink = x;
    middle(x + 1); // at outer
    return sink;
}

__attribute__((noinline)) int plain(int x)
{
    __asm__ volatile(".globl mark_plain\nmark_plain: nop"); // at plain
    return sink + x;
}

// The error path is moved away from the function, to a symbol of its own: splits.cold.
__attribute__((noinline)) int splits(int x)
{
    if (__builtin_expect(x == 4711, 0)) {
        failed(x);
        sink++;
    }
    return sink * x;
}

static __attribute__((noinline)) int twin(int x)
{
    if (__builtin_expect(x == 4712, 0)) {
        failed(x + 1);
        sink--;
    }
    return sink + x;
}

int call_twin(int x)
{
    return twin(x) + 1;
}

// No type and no size, as hand-written assembly often has it.
__asm__(".text\n.balign 16\n.globl assembled\nassembled:\nnop\nnop\nnop\nret\n.balign 16\n"
        ".globl assembled_next\nassembled_next:\nnop\nret\n");

// As libc returns from signal handlers: the unwind table begins one byte before the function.
__asm__(".text\n.balign 16\n.cfi_startproc\n.cfi_signal_frame\nnop\n"
        ".globl returns_from_signal\n.hidden returns_from_signal\n"
        ".type returns_from_signal,@function\nreturns_from_signal:\nmov $15, %rax\nsyscall\n"
        ".cfi_endproc\n");
