// SPDX-License-Identifier: MIT
// What stands between main and all the rest of a program: a function that cleans up after
// exceptions, one that is left by a jump as soon as it is entered, one that jumps by a table to
// where nobody knows. And calls that go through others: of libc by the agent. The work is done a
// dozen calls deeper.

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#define KEPT __attribute__((noinline, noclone, noipa))

static volatile unsigned long sum;
static volatile bool throws;

KEPT static void work(unsigned long n)
{
    for (unsigned long i = 0; i < 200; i++)
        sum = sum + i * n;
}

KEPT static void call_signal(unsigned long n)
{
    for (int i = 0; i < 4; i++)
        std::signal(SIGUSR2, i % 2 ? SIG_DFL : SIG_IGN);
    sum = sum + n;
}

using function = void (*)(unsigned long);
static function last = work;

template <int depth> struct chain {
    KEPT static void go(unsigned long n)
    {
        if (depth % 3 == 0 && n % 2)
            chain<depth - 1>::go(n + 1);
        else
            chain<depth - 1>::go(n);
        sum = sum + 1;
    }
};

template <> struct chain<0> {
    KEPT static void go(unsigned long n)
    {
        last(n);
        sum = sum + 1;
    }
};

struct guard {
    KEPT explicit guard(unsigned long n) : n(n) { sum = sum + n; }
    KEPT ~guard() { sum = sum - n; }
    unsigned long n;
};

KEPT static void clean_up(unsigned long n)
{
    guard one(n);
    chain<12>::go(n);
    if (throws)
        throw n;
}

// Left at once, by a jump.
KEPT static void hand_over(unsigned long n)
{
    return chain<12>::go(n + 1);
}

// Entered once, and left through a pointer for what runs from then on.
static unsigned long calls = 150000;

KEPT static void run_all(unsigned long)
{
    for (unsigned long i = 0; i < calls; i++)
        chain<12>::go(i);
    calls = 0;
}

static function volatile all = run_all;

KEPT static void dispatch(unsigned long n)
{
    sum = sum + n;
    return all(n);
}

// To decoders a switch whose table cannot be read.
extern "C" void jump_by_table(unsigned long n);
extern "C" {
__attribute__((used)) function jump_targets[2] = {chain<12>::go, chain<11>::go};
}
__asm__(R"(
    .text
    .globl jump_by_table
    .type jump_by_table, @function
jump_by_table:
    .cfi_startproc
    movq %rdi, %rax
    andl $1, %eax
    leaq jump_targets(%rip), %rdx
    jmp *(%rdx,%rax,8)
    .cfi_endproc
    .size jump_by_table, . - jump_by_table
)");

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    function volatile first = chain<12>::go;
    throws = argc > 2;
    if (!std::strcmp(mode, "cleanup"))
        first = clean_up;
    else if (!std::strcmp(mode, "entered"))
        first = hand_over;
    else if (!std::strcmp(mode, "table"))
        first = jump_by_table;
    else if (!std::strcmp(mode, "older"))
        dispatch(0);
    else if (!std::strcmp(mode, "agent"))
        last = call_signal;
    else
        return 1;
    for (unsigned long i = 0; i < calls; i++) {
        try {
            first(i);
        } catch (unsigned long) {
            sum = sum + 1;
        }
    }
    std::printf("%lu\n", static_cast<unsigned long>(sum));
    return 0;
}
