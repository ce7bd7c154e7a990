// SPDX-License-Identifier: MIT
// Functions called by code that was generated, and has no unwind tables: it is called from several
// functions, at several depths, and by itself. As calls.c, it counts its calls and tells them.

#include "calls.h"
#include <string.h>
#include <sys/mman.h>

static volatile int sink;
static void (*generated)(void (*function)(int), int argument);

NOIPA static void leaf(int unused)
{
    (void)unused;
    sink++;
}

NOIPA static void other_leaf(int unused)
{
    (void)unused;
    sink--;
}

NOIPA static void nested(int depth)
{
    CALL(nested, other_leaf, 0);
    TRUTH(nested, leaf);
    generated(leaf, 0);
    if (depth > 0) {
        TRUTH(nested, nested);
        generated(nested, depth - 1);
    }
}

NOIPA static void first(int rounds)
{
    for (int i = 0; i < rounds; i++) {
        TRUTH(first, leaf);
        generated(leaf, i);
    }
}

NOIPA static void second(int depth)
{
    CALL(second, leaf, 0);
    TRUTH(second, nested);
    generated(nested, depth);
}

// Saves registers that the callee keeps, so that no word of older frames is left, and calls its
// first argument with the second.
static void generate(void)
{
    static const unsigned char code[] = {
        0x53, 0x53, 0x53, 0x53, 0x53, 0x53, 0x53, // push %rbx, seven times
        0x48, 0x89, 0xf8,                         // mov %rdi, %rax
        0x89, 0xf7,                               // mov %esi, %edi
        0xff, 0xd0,                               // call *%rax
        0x5b, 0x5b, 0x5b, 0x5b, 0x5b, 0x5b, 0x5b, // pop %rbx
        0xc3,
    };
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    memcpy(page, code, sizeof code);
    CHECK(mprotect(page, 4096, PROT_READ | PROT_EXEC) == 0);
    memcpy(&generated, &page, sizeof generated);
}

int main(void)
{
    generate();
    for (int i = 0; i < 1000; i++) {
        CALL(main, first, i % 7);
        CALL(main, second, i % 5);
        TRUTH(main, first);
        generated(first, 3);
        TRUTH(main, leaf);
        generated(leaf, 0);
    }
    tell_truth();
    return 0;
}
