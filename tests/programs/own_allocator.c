// SPDX-License-Identifier: MIT
// Has an allocator inside of the executable, as programs that are linked with one statically do. As
// that of GNU Common Lisp, it works from main() on, and not before.

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Alignas(16) char memory[1 << 20];
static size_t used;
static bool ready;

void *malloc(size_t size)
{
    if (!ready)
        abort();
    void *block = memory + used;
    used += (size + 15) & ~(size_t)15;
    return used <= sizeof memory ? block : NULL;
}

void free(void *block)
{
    (void)block;
    if (!ready)
        abort();
}

void *calloc(size_t count, size_t size)
{
    return malloc(count * size); // never used before
}

void *realloc(void *block, size_t size)
{
    void *moved = malloc(size);
    if (block && moved)
        memmove(moved, block, size);
    return moved;
}

int main(void)
{
    ready = true;
    char *text = malloc(100);
    strcpy(text, "done");
    puts(text);
    free(text);
    return 0;
}
