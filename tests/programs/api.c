// SPDX-License-Identifier: MIT
// A program that asks cairn about itself. Its own work goes to stdout and is the same with and
// without cairn; what cairn tells goes to stderr, a line for each item.

#include "common.h"
#include <cairn.h>
#include <errno.h>
#include <poll.h>
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
        snprintf(line, sizeof line, "%s %llu %llu %llu %llu %u ", head,
                 (unsigned long long)item->value, (unsigned long long)item->total,
                 (unsigned long long)item->error, (unsigned long long)item->weight, item->depth);
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

static void purge(const char *options)
{
    begin(options);
    for (int round = 0; round < 6; round++) {
        for (int i = 0; i < 20; i++)
            sink += alpha(UNITS);
        show_all("before", CAIRN_FUNCTIONS, 0);
        cairn_purge();
        show_all("at-once", CAIRN_FUNCTIONS, 0);
        for (int i = 0; i < 20; i++)
            sink += beta(UNITS);
        show_all("after", CAIRN_FUNCTIONS, 0);
        cairn_purge();
    }
    struct cairn_totals totals;
    cairn_totals(&totals);
    fprintf(stderr, "totals %llu %llu %llu\n", (unsigned long long)totals.value,
            (unsigned long long)totals.samples, (unsigned long long)totals.bytes);
}

// Startup: alpha. Then requests of two kinds within each other, and threads without a span.
static void *in_no_span(void *argument)
{
    (void)argument;
    for (int i = 0; i < 20; i++)
        sink += hidden(UNITS);
    return NULL;
}

static void phases(const char *options)
{
    cairn_phase_begin("early"); // before there is a recording
    begin(options);
    for (int i = 0; i < 20; i++)
        sink += beta(UNITS);
    cairn_phase_end();
    cairn_phase("startup");
    for (int i = 0; i < 20; i++)
        sink += alpha(UNITS);
    for (int i = 0; i < 10; i++) {
        cairn_phase_begin("request");
        sink += beta(4 * UNITS);
        cairn_phase_begin("query");
        sink += gamma_work(4 * UNITS);
        cairn_phase_end();
        sink += beta(4 * UNITS);
        cairn_phase_end();
    }
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, in_no_span, NULL));
    pthread_join(thread, NULL);
    cairn_phase(NULL);
    for (int i = 0; i < 20; i++)
        sink += alpha(UNITS);
    CHECK(cairn_phase_end() == (cairn_present() ? -EINVAL : CAIRN_ABSENT));
    show_all("function", CAIRN_FUNCTIONS, 0);
}

// 50 ms of alpha, and of alpha by night; beta never gets so far.
static void watch(const char *options)
{
    begin(options);
    const uint64_t threshold = 50000000;
    int functions = cairn_watch(CAIRN_FUNCTIONS, threshold, show, "watched-function");
    int contexts = cairn_watch(CAIRN_CONTEXTS, threshold, show, "watched-context");
    int never = cairn_watch(CAIRN_EDGES, threshold * 1000, show, "never");
    CHECK(!cairn_present() || (functions > 0 && contexts > functions && never > contexts));
    struct pollfd ready = {.fd = cairn_watch_fd(), .events = POLLIN};
    int polled = 0, rung = 0;
    const uint64_t start = thread_cpu_ns();
    while (thread_cpu_ns() - start < 300000000) {
        by_day(20 * UNITS / 100);
        by_night(30 * UNITS / 100);
        if (ready.fd >= 0 && poll(&ready, 1, 0) == 1) {
            rung++;
            polled += cairn_poll();
        }
    }
    CHECK(cairn_poll() == 0);
    fprintf(stderr, "polled %d rung %d\n", polled, rung);
    CHECK(!cairn_present() || (cairn_unwatch(functions) == 0 && cairn_unwatch(functions) < 0));
    pid_t child = fork(); // whose watches are its own
    if (child == 0) {
        struct pollfd own = {.fd = cairn_watch_fd(), .events = POLLIN};
        const uint64_t begun = thread_cpu_ns();
        while (thread_cpu_ns() - begun < 200000000)
            by_day(20 * UNITS / 100);
        fprintf(stderr, "child-rung %d\n", own.fd >= 0 && poll(&own, 1, 0) == 1);
        fprintf(stderr, "child-polled %d\n", cairn_poll());
        _exit(0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    fprintf(stderr, "parent-rung %d\n", ready.fd >= 0 && poll(&ready, 1, 0) == 1);
}

// Snapshots while others work, the last one of all there is.
static void snapshot(const char *options, const char *path)
{
    begin(options);
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, short_lived, NULL));
    for (int i = 0; i < 10; i++) {
        work(4);
        int result = cairn_snapshot(path);
        CHECK(result == (cairn_present() ? 0 : CAIRN_ABSENT));
    }
    pthread_join(thread, NULL);
    fprintf(stderr, "foreign %d\n", cairn_snapshot("/proc/self/exe"));
    fprintf(stderr, "nowhere %d\n", cairn_snapshot("/nowhere/at/all"));
    cairn_stop();
    CHECK(cairn_snapshot(path) == (cairn_present() ? 0 : CAIRN_ABSENT));
    show_all("function", CAIRN_FUNCTIONS, 0);
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
    else if (!strcmp(mode, "purge"))
        purge(options);
    else if (!strcmp(mode, "watch"))
        watch(options);
    else if (!strcmp(mode, "snapshot"))
        snapshot(options, argc > 3 ? argv[3] : "snapshot.cairn");
    else if (!strcmp(mode, "phases"))
        phases(options);
    else if (!strcmp(mode, "refuse"))
        refuse(argv + 2);
    else
        return 2;
    printf("done %s\n", mode);
    return 0;
}
