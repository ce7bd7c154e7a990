// SPDX-License-Identifier: MIT

// A little of everything that can be recorded: calls, CPU time, sleep, blocks, new pages, a file,
// and a lock that two threads want.

#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 20, BLOCKS = 50, BLOCK_BYTES = 2000, PAGES_BYTES = 1 << 18, BURN = 40000 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void rest(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
}

__attribute__((noinline)) static uint64_t mix(uint64_t sum, unsigned i)
{
    sum = sum * 6364136223846793005u + i;
    __asm__ volatile("" : "+r"(sum));
    return sum;
}

__attribute__((noinline)) static uint64_t burn(void)
{
    uint64_t sum = 1;
    for (unsigned i = 0; i < BURN; i++)
        sum = mix(sum, i);
    return sum & 1;
}

__attribute__((noinline)) static uint64_t allocate(void)
{
    void *blocks[BLOCKS];
    for (unsigned i = 0; i < BLOCKS; i++)
        blocks[i] = malloc(BLOCK_BYTES);
    for (unsigned i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    char *pages = malloc(PAGES_BYTES);
    if (!pages)
        return 0;
    memset(pages, 1, PAGES_BYTES);
    const uint64_t one = (uint64_t)pages[PAGES_BYTES / 2];
    free(pages);
    return one;
}

__attribute__((noinline)) static uint64_t transfer(int file)
{
    return write(file, "of no use", 9) == 9;
}

__attribute__((noinline)) static void hold(void)
{
    pthread_mutex_lock(&lock);
    rest();
    pthread_mutex_unlock(&lock);
}

static void *contend(void *unused)
{
    for (unsigned i = 0; i < ROUNDS; i++)
        hold();
    return unused;
}

int main(void)
{
    pthread_t thread;
    const int file = open("/dev/null", O_WRONLY);
    if (file < 0 || pthread_create(&thread, NULL, contend, NULL) != 0)
        return 1;
    uint64_t done = 0;
    for (unsigned i = 0; i < ROUNDS; i++) {
        done += burn() + allocate() + transfer(file);
        hold();
    }
    pthread_join(thread, NULL);
    return done == 0;
}
