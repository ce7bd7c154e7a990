// SPDX-License-Identifier: MIT
// Links with inlines.c: another file-local function of the same name, and calls through the PLT.
#include <stdio.h>
#include <stdlib.h>

extern volatile int sink;
int outer(int x);
int plain(int x);
int splits(int x);
int call_twin(int x);

__attribute__((cold, noinline)) void failed(int code)
{
    printf("failed with %d\n", code);
    exit(code);
}

static __attribute__((noinline)) int twin(int x)
{
    if (__builtin_expect(x == 4713, 0)) {
        failed(x + 2);
        sink -= 2;
    }
    return sink - x;
}

int main(int argc, char **argv)
{
    (void)argv;
    puts("go");
    return outer(argc) + plain(argc) + splits(argc) + twin(argc) + call_twin(argc) == 1;
}
