// SPDX-License-Identifier: MIT
// A thread opens and closes files while others come and go: nobody else may close what it has open.
//
//   descriptors THREADS      exits with 1 if a descriptor was lost

#include "common.h"
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

static _Atomic int stop;
static unsigned long opened, lost;

static void *open_files(void *unused)
{
    (void)unused;
    for (; !stop; opened++) {
        const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        CHECK(fd >= 0);
        for (unsigned i = 0; i < 8; i++)
            lost += fcntl(fd, F_GETFD) < 0;
        lost += close(fd) != 0;
    }
    return NULL;
}

static void *live_shortly(void *argument)
{
    return (void *)(uintptr_t)burn((uintptr_t)argument, 20);
}

int main(int argc, char **argv)
{
    const unsigned long count = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000;
    pthread_t opener, other;
    CHECK(!pthread_create(&opener, NULL, open_files, NULL));
    for (unsigned long i = 0; i < count; i++) {
        CHECK(!pthread_create(&other, NULL, live_shortly, (void *)(uintptr_t)i));
        CHECK(!pthread_join(other, NULL));
    }
    stop = 1;
    CHECK(!pthread_join(opener, NULL));
    printf("%s\n", lost ? "lost" : "all there");
    return lost || opened == 0;
}
