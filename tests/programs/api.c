// SPDX-License-Identifier: MIT
// A program that asks cairn about itself. Its own work goes to stdout and is the same with and
// without cairn; what cairn tells goes to stderr, a line for each item.

#include "common.h"
#include <cairn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#define UNITS 300 // of a worker at a time

// Workers: what they cost is their own.
#define WORKER(name)                                                                               \
    NOIPA uint64_t name(unsigned units)                                                            \
    {                                                                                              \
        uint64_t value = 88172645463325252u;                                                       \
        for (unsigned i = 0; i < units * 1000u; i++) {                                             \
            value ^= value << 13;                                                                  \
            value ^= value >> 7;                                                                   \
            value ^= value << 17;                                                                  \
        }                                                                                          \
        return value;                                                                              \
    }
WORKER(alpha)
WORKER(beta)
WORKER(gamma_work)
static WORKER(hidden) // in no table of the loader's

    static _Atomic uint64_t sink;

NOIPA void by_day(unsigned units)
{
    sink += alpha(units);
    NO_TAIL_CALL();
}

NOIPA void by_night(unsigned units)
{
    sink += alpha(units);
    sink += beta(units);
    NO_TAIL_CALL();
}

static int show(const struct cairn_item *item, void *context)
{
    const char *head = context;
    char line[4096];
    int at =
        snprintf(line, sizeof line, "%s %llu %llu %llu %u ", head, (unsigned long long)item->value,
                 (unsigned long long)item->total, (unsigned long long)item->error, item->depth);
    for (unsigned i = 0; i < item->frame_count && at < 3800; i++) {
        char name[128];
        cairn_name(&item->frames[i], name, sizeof name);
        at += snprintf(line + at, sizeof line - (size_t)at, "%s%s", i ? "<" : "", name);
    }
    fprintf(stderr, "%s\n", line);
    return 0;
}

static void show_all(const char *head, enum cairn_kind kind, unsigned most)
{
    int visited = cairn_hottest(kind, most, show, (void *)head);
    fprintf(stderr, "%s-visited %d\n", head, visited);
}

static void begin(const char *options)
{
    char error[200];
    int result = cairn_start(options, error, sizeof error);
    if (result && result != CAIRN_ABSENT) {
        fprintf(stderr, "start: %d %s\n", result, error);
        exit(3);
    }
}

// alpha : beta : hidden = 5 : 3 : 2, and alpha by day : by night = 2 : 3.
static void work(unsigned rounds)
{
    for (unsigned i = 0; i < rounds; i++) {
        by_day(2 * UNITS);
        by_night(3 * UNITS);
        sink += hidden(2 * UNITS);
    }
}

static void ask(const char *options)
{
    begin(options);
    CHECK(cairn_running() == cairn_present());
    work(40);
    show_all("context", CAIRN_CONTEXTS, 0);
    show_all("edge", CAIRN_EDGES, 0);
    show_all("function", CAIRN_FUNCTIONS, 0);
    show_all("first", CAIRN_FUNCTIONS, 1);
    struct cairn_totals totals;
    cairn_totals(&totals);
    fprintf(stderr, "totals %llu %llu %llu\n", (unsigned long long)totals.value,
            (unsigned long long)totals.samples, (unsigned long long)totals.trees);
}

// Threads that run already when the recording begins, and one that comes later.
static atomic_int stage;

static void *worker(void *argument)
{
    uint64_t (*function)(unsigned) = argument;
    while (atomic_load(&stage) == 0)
        usleep(1000);
    for (int i = 0; i < 60; i++)
        sink += function(UNITS);
    return NULL;
}

static void ask_of_threads(const char *options)
{
    pthread_t threads[3];
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL); // as programs do that have a thread for signals
    CHECK(!pthread_create(&threads[0], NULL, worker, alpha));
    CHECK(!pthread_create(&threads[1], NULL, worker, beta));
    usleep(20000);
    begin(options);
    CHECK(!pthread_create(&threads[2], NULL, worker, gamma_work));
    atomic_store(&stage, 1);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    show_all("function", CAIRN_FUNCTIONS, 0);
}

static void pause_and_go_on(const char *options)
{
    begin(options);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 20; i++)
            sink += alpha(UNITS);
        cairn_stop();
        CHECK(!cairn_running());
        for (int i = 0; i < 60; i++)
            sink += beta(UNITS);
        begin(NULL);
        CHECK(cairn_running() == cairn_present());
        for (int i = 0; i < 10; i++)
            sink += gamma_work(UNITS);
    }
    show_all("function", CAIRN_FUNCTIONS, 0);
    struct cairn_totals totals;
    cairn_totals(&totals);
    fprintf(stderr, "totals %llu %llu %llu\n", (unsigned long long)totals.value,
            (unsigned long long)totals.samples, (unsigned long long)totals.trees);
}

static void ask_in_a_child(const char *options)
{
    begin(options);
    for (int i = 0; i < 40; i++)
        sink += alpha(UNITS);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        fprintf(stderr, "child-running %d\n", cairn_running());
        for (int i = 0; i < 40; i++)
            sink += beta(UNITS);
        show_all("child", CAIRN_FUNCTIONS, 0);
        begin(NULL);
        for (int i = 0; i < 40; i++)
            sink += gamma_work(UNITS);
        show_all("again", CAIRN_FUNCTIONS, 0);
        _exit(0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    show_all("parent", CAIRN_FUNCTIONS, 0);
}

// Everybody at once: threads that come and go, ask, start, stop and purge.
static int count(const struct cairn_item *item, void *context)
{
    *(uint64_t *)context += item->value;
    CHECK(item->frame_count >= 1 && item->total >= item->value);
    return 0;
}

static void *asker(void *argument)
{
    const char *options = argument;
    for (int i = 0; i < 60; i++) {
        uint64_t value = 0;
        CHECK(cairn_hottest((enum cairn_kind)(i % 3), 20, count, &value) >= 0);
        if (i % 7 == 3)
            cairn_stop();
        if (i % 5 == 2)
            cairn_purge();
        begin(i % 2 ? options : NULL);
        sink += alpha(20);
    }
    return NULL;
}

static void *short_lived(void *argument)
{
    (void)argument;
    work(1);
    return NULL;
}

static void storm(const char *options)
{
    begin(options);
    pthread_t askers[3], worker_thread;
    for (int i = 0; i < 3; i++)
        CHECK(!pthread_create(&askers[i], NULL, asker, (void *)options));
    for (int i = 0; i < 100; i++) {
        CHECK(!pthread_create(&worker_thread, NULL, short_lived, NULL));
        pthread_join(worker_thread, NULL);
    }
    for (int i = 0; i < 3; i++)
        pthread_join(askers[i], NULL);
}

static void refuse(char **options)
{
    char error[300];
    for (; *options; options++) {
        int result = cairn_start(*options, error, sizeof error);
        fprintf(stderr, "%d %s\n", result, error);
    }
}

// A SIGTRAP of the program's own, before and while cairn runs.
static volatile sig_atomic_t trapped;

static void on_trap(int signal)
{
    (void)signal;
    trapped++;
}

static void own_signals(const char *options)
{
    raise(SIGCHLD); // ignored by default
    CHECK(signal(SIGTRAP, on_trap) == SIG_DFL);
    raise(SIGTRAP);
    CHECK(trapped == 1);
    sigset_t set, now;
    sigemptyset(&set);
    sigaddset(&set, SIGTRAP);
    sigprocmask(SIG_BLOCK, &set, NULL);
    raise(SIGTRAP);
    CHECK(trapped == 1);
    begin(options);
    for (int i = 0; i < 20; i++)
        sink += alpha(UNITS);
    CHECK(trapped == 1);
    sigprocmask(SIG_BLOCK, NULL, &now);
    CHECK(sigismember(&now, SIGTRAP) == 1);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    CHECK(trapped == 2);
    for (int i = 0; i < 20; i++)
        sink += alpha(UNITS);
    CHECK(signal(SIGTRAP, SIG_DFL) == on_trap);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "ask";
    const char *options = argc > 2 ? argv[2] : "rate=4000";
    if (!strcmp(mode, "ask"))
        ask(options);
    else if (!strcmp(mode, "threads"))
        ask_of_threads(options);
    else if (!strcmp(mode, "pause"))
        pause_and_go_on(options);
    else if (!strcmp(mode, "fork"))
        ask_in_a_child(options);
    else if (!strcmp(mode, "storm"))
        storm(options);
    else if (!strcmp(mode, "signals"))
        own_signals(options);
    else if (!strcmp(mode, "refuse"))
        refuse(argv + 2);
    else
        return 2;
    printf("done %s\n", mode);
    return 0;
}
