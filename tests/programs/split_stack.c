// SPDX-License-Identifier: MIT
// Built with -fsplit-stack: each function asks for the stack that it needs, and gets it anywhere.

#include "common.h"
#include <pthread.h>

static volatile uint64_t sink;

NOIPA int recurse(int depth)
{
    volatile char room[512];
    room[0] = (char)depth;
    if (depth == 0)
        sink += burn(1, 20);
    const int below = depth > 0 ? recurse(depth - 1) : 0;
    return below + room[0];
}

static void *work_in_thread(void *unused)
{
    for (int i = 0; i < 200; i++)
        sink += (uint64_t)recurse(i % 100);
    return unused;
}

int main(void)
{
    pthread_t thread;
    work_in_thread(NULL);
    CHECK(!pthread_create(&thread, NULL, work_in_thread, NULL) && !pthread_join(thread, NULL));
    void *memory = malloc(100000);
    CHECK(memory);
    free(memory);
    printf("done\n");
    return 0;
}
