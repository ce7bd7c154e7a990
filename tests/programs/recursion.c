// SPDX-License-Identifier: MIT
// Recursion as deep as asked for (the first argument), with a leaf that comes and goes at the
// bottom.

#include "common.h"
#include <pthread.h>

static volatile uint64_t sink;

NOIPA uint64_t bottom(unsigned i)
{
    sink += burn(i, 20);
    NO_TAIL_CALL();
    return i;
}

NOIPA uint64_t odd_depth(unsigned depth, unsigned leaves);

NOIPA uint64_t even_depth(unsigned depth, unsigned leaves)
{
    uint64_t sum = 1;
    if (depth == 0) {
        for (unsigned i = 0; i < leaves; i++)
            sum += bottom(i);
        return sum;
    }
    sum += odd_depth(depth - 1, leaves);
    NO_TAIL_CALL();
    return sum;
}

NOIPA uint64_t odd_depth(unsigned depth, unsigned leaves)
{
    uint64_t sum = even_depth(depth - 1, leaves);
    NO_TAIL_CALL();
    return sum + 2;
}

static unsigned depth;

static void *dive(void *unused)
{
    (void)unused;
    for (int i = 0; i < 3; i++)
        printf("depth %u: %llu\n", depth, (unsigned long long)even_depth(depth, 2000));
    return NULL;
}

int main(int argc, char **argv)
{
    depth = argc > 1 ? (unsigned)atoi(argv[1]) & ~1u : 1000;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    CHECK(pthread_attr_setstacksize(&attributes, (size_t)512 << 20) == 0);
    pthread_t thread;
    CHECK(pthread_create(&thread, &attributes, dive, NULL) == 0);
    pthread_join(thread, NULL);
    return 0;
}
