// SPDX-License-Identifier: MIT
// Allocates, writes and locks when it is told to, so that a recording which comes late can be held
// against what it must see: attached_events THREADS [forks]. Says "ready". For each "round" on stdin
// all threads do the same, and a child if it forks; then it says "done", at the end "0 wrong".

#include "common.h"
#include <fcntl.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#define BARRIER(pointer) __asm__ volatile("" : "+r"(pointer)::"memory")

enum { EARLY = 50, MOST_THREADS = 8 };

static void *early[EARLY]; // from before anybody looks
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int null;

#ifdef TAKES_ADDRESS
// At a fixed address, an entry of the program's own table stands for the function, for libraries, too.
void *(*allocator)(size_t) = malloc;
#endif

static NOIPA void *take(size_t size)
{
    void *block = malloc(size);
    BARRIER(block);
    return block;
}

static NOIPA void by_first(void)
{
    for (int i = 0; i < 100; i++) {
        void *block = take(1000);
        BARRIER(block);
        free(block);
    }
}

static NOIPA void by_second(void)
{
    for (int i = 0; i < 10; i++) {
        void *block = take(10);
        BARRIER(block);
        free(block);
    }
}

static NOIPA void leak(void)
{
    for (int i = 0; i < 5; i++) {
        void *block = malloc(300);
        BARRIER(block);
    }
}

// libc allocates for it.
static NOIPA void copy_text(void)
{
    for (int i = 0; i < 3; i++) {
        char *text = strdup("twelve bytes");
        BARRIER(text);
        free(text);
    }
}

// 10 + 20 + 40 + ... + 5120 bytes
static NOIPA void grow(void)
{
    char *block = NULL;
    for (size_t size = 10; size <= 5120; size *= 2) {
        block = realloc(block, size);
        BARRIER(block);
    }
    free(block);
}

static NOIPA void write_it(void)
{
    char bytes[100] = "";
    for (int i = 0; i < 20; i++)
        CHECK(write(null, bytes, sizeof bytes) == sizeof bytes);
}

static NOIPA void print_it(void)
{
    FILE *file = fdopen(dup(null), "w");
    for (int i = 0; i < 70; i++)
        fputs("ten bytes\n", file);
    CHECK(!fclose(file));
}

static NOIPA void lock_it(void)
{
    for (int i = 0; i < 10; i++) {
        pthread_mutex_lock(&mutex);
        pthread_mutex_unlock(&mutex);
    }
}

static void one_round(void)
{
    by_first();
    by_second();
    leak();
    copy_text();
    grow();
    write_it();
    print_it();
    lock_it();
}

// They wait for a byte, and answer with one.
static int asked[2], answered[2];

static void *work(void *unused)
{
    char byte;
    (void)unused;
    while (read(asked[0], &byte, 1) == 1) {
        one_round();
        CHECK(write(answered[1], &byte, 1) == 1);
    }
    return NULL;
}

static void all_threads(int threads)
{
    char byte = 0;
    for (int i = 0; i < threads; i++) {
        CHECK(write(asked[1], &byte, 1) == 1);
        CHECK(read(answered[0], &byte, 1) == 1);
    }
    one_round();
}

static void in_child(void)
{
    int status;
    const pid_t child = fork();
    if (!child) {
        one_round();
        _exit(0);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child && !status);
}

static void say(const char *text)
{
    CHECK(write(1, text, strlen(text)) == (ssize_t)strlen(text));
}

int main(int argc, char **argv)
{
    const int threads = argc > 1 ? atoi(argv[1]) : 0;
    pthread_t ids[MOST_THREADS];
    char line[16];
    null = open("/dev/null", O_WRONLY);
    CHECK(null >= 0 && threads <= MOST_THREADS && !pipe(asked) && !pipe(answered));
    for (int i = 0; i < EARLY; i++)
        early[i] = malloc(200);
    for (int i = 0; i < threads; i++)
        CHECK(!pthread_create(&ids[i], NULL, work, NULL));
    say("ready\n");
    while (read(0, line, 6) == 6) {
        all_threads(threads);
        if (argc > 2)
            in_child();
        for (int i = 0; i < EARLY; i++) {
            free(early[i]);
            early[i] = NULL;
        }
        say("done\n");
    }
    close(asked[1]);
    for (int i = 0; i < threads; i++)
        CHECK(!pthread_join(ids[i], NULL));
    say("0 wrong\n");
    return 0;
}
