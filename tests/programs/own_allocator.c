// SPDX-License-Identifier: MIT
// Has an allocator inside of the executable, as programs that are linked with one statically do.

#include <stddef.h>
#include <stdio.h>
#include <string.h>

static _Alignas(16) char memory[1 << 20];
static size_t used;

void *malloc(size_t size)
{
    void *block = memory + used;
    used += (size + 15) & ~(size_t)15;
    return used <= sizeof memory ? block : NULL;
}

void free(void *block)
{
    (void)block;
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
    char *text = malloc(100);
    strcpy(text, "done");
    puts(text);
    free(text);
    return 0;
}
