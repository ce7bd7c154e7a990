// SPDX-License-Identifier: MIT
// Preloaded into a program under `cairn record --track encode`: asks for its context now and then,
// so that the profile has what is needed to decode contexts, and with it the numbering in force.
// All programs take memory, and from many places.

#include <cairn.h>
#include <stddef.h>

enum { ALWAYS = 1000, SELDOM = 16 };

#define EXPORT __attribute__((visibility("default")))

// The C library's own, by names that nobody takes over.
void *__libc_malloc(size_t bytes);
void __libc_free(void *memory);

static void ask_sometimes(void)
{
    static unsigned long count;
    const unsigned long now = __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED);
    if (now < ALWAYS || now % SELDOM == 0)
        cairn_context();
}

EXPORT void *malloc(size_t bytes)
{
    ask_sometimes();
    return __libc_malloc(bytes);
}

EXPORT void free(void *memory)
{
    ask_sometimes();
    __libc_free(memory);
}
