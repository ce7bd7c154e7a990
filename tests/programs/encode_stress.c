// SPDX-License-Identifier: MIT
// Threads at work in code whose call sites are numbered, patched and unpatched by somebody all the
// time: calls among many functions, and now and then recursion, callbacks, exceptions and longjmp
// (patch_target.cpp), while other threads come and go, signals arrive, and libraries are loaded and
// unloaded.
//
//   encode_stress SECONDS THREADS [PLUGIN...]      exits with 1 if a result was wrong

#include "common.h"
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

uint64_t patch_work(uint64_t seed);

#define SEEDS 64
#define THREADS_MOST 64

typedef uint64_t (*plugin_callback)(uint64_t value);
typedef uint64_t (*plugin_function)(uint64_t value, plugin_callback callback);

static uint64_t expected[SEEDS];
static _Atomic int stop;
static _Atomic uint64_t rounds, threads, signals, loads, wrong;

// Functions that call each other, by name and by table, at most `depth` deep.
typedef uint64_t (*step)(uint64_t value, unsigned depth);
static step steps[];

static inline __attribute__((always_inline)) uint64_t go(uint64_t value, unsigned depth,
                                                         unsigned number, step one, step other)
{
    value = burn(value + number, 1) % 1000003;
    if (depth == 0)
        return value;
    uint64_t sum = value % 3 ? one(value, depth - 1) : other(value, depth - 1);
    if (value % 5 == 0)
        sum += steps[value % 8](value + 1, depth - 1);
    if (value % 7 == 0)
        sum ^= one(value + 2, depth - 1);
    return sum * 31 + number;
}

static uint64_t step_0(uint64_t value, unsigned depth);
static uint64_t step_1(uint64_t value, unsigned depth);
static uint64_t step_2(uint64_t value, unsigned depth);
static uint64_t step_3(uint64_t value, unsigned depth);
static uint64_t step_4(uint64_t value, unsigned depth);
static uint64_t step_5(uint64_t value, unsigned depth);
static uint64_t step_6(uint64_t value, unsigned depth);
static uint64_t step_7(uint64_t value, unsigned depth);

static NOIPA uint64_t step_0(uint64_t value, unsigned depth)
{
    return go(value, depth, 0, step_1, step_2);
}

static NOIPA uint64_t step_1(uint64_t value, unsigned depth)
{
    return go(value, depth, 1, step_2, step_3);
}

static NOIPA uint64_t step_2(uint64_t value, unsigned depth)
{
    return go(value, depth, 2, step_3, step_0);
}

static NOIPA uint64_t step_3(uint64_t value, unsigned depth)
{
    return go(value, depth, 3, step_4, step_5);
}

static NOIPA uint64_t step_4(uint64_t value, unsigned depth)
{
    return go(value, depth, 4, step_5, step_6);
}

static NOIPA uint64_t step_5(uint64_t value, unsigned depth)
{
    return go(value, depth, 5, step_6, step_7);
}

static NOIPA uint64_t step_6(uint64_t value, unsigned depth)
{
    return go(value, depth, 6, step_7, step_1);
}

static NOIPA uint64_t step_7(uint64_t value, unsigned depth)
{
    return go(value, depth, 7, step_4, step_2);
}

static step steps[] = {step_0, step_1, step_2, step_3, step_4, step_5, step_6, step_7};

// A handler must not allocate where that was interrupted.
static _Thread_local volatile int allocating;

static NOIPA uint64_t result_of(uint64_t seed)
{
    uint64_t sum = 0;
    if (seed % 16 == 0) {
        allocating++;
        sum = patch_work(seed);
        allocating--;
    }
    for (unsigned i = 0; i < 4; i++)
        sum += steps[(seed + i) % 8](seed + i, 12);
    return sum;
}

static NOIPA void work_once(uint64_t seed)
{
    wrong += result_of(seed % SEEDS) != expected[seed % SEEDS];
    rounds++;
}

static void *work(void *argument)
{
    for (uint64_t i = (uintptr_t)argument; !stop; i++)
        work_once(i);
    return NULL;
}

static void *work_little(void *argument)
{
    work_once((uintptr_t)argument);
    return NULL;
}

// Threads that come and go.
static void *make_threads(void *unused)
{
    (void)unused;
    for (uintptr_t i = 0; !stop; i++) {
        pthread_t few[3];
        for (unsigned k = 0; k < 3; k++)
            CHECK(!pthread_create(&few[k], NULL, work_little, (void *)(i + k)));
        for (unsigned k = 0; k < 3; k++)
            CHECK(!pthread_join(few[k], NULL));
        threads += 3;
    }
    return NULL;
}

static void on_signal(int signal)
{
    (void)signal;
    const uint64_t number = signals++;
    // Many of them throw and jump.
    work_once(allocating ? 16 * number + 1 : number % 2 ? 16 * number : number);
}

static NOIPA uint64_t called_back(uint64_t value)
{
    return value + 1;
}

// Libraries that come and go, and a child now and then.
static void load_once(char *const *plugin, unsigned number)
{
    void *library = dlopen(plugin[0], RTLD_NOW);
    if (!library)
        fprintf(stderr, "%s\n", dlerror());
    CHECK(library);
    plugin_function run = (plugin_function)dlsym(library, "plugin_run");
    const uint64_t first = run(number, called_back);
    wrong += run(number, called_back) != first;
    CHECK(!dlclose(library));
    loads++;
    if (number % 16)
        return;
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        work_once(number);
        _exit(wrong ? 1 : 0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    wrong += status != 0;
}

int main(int argc, char **argv)
{
    const unsigned count = argc > 2 ? (unsigned)atoi(argv[2]) : 8;
    const time_t end = time(NULL) + (argc > 1 ? atoi(argv[1]) : 3);
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    pthread_t workers[THREADS_MOST], maker;
    CHECK(count <= THREADS_MOST);
    for (unsigned i = 0; i < SEEDS; i++)
        expected[i] = result_of(i);
    sigaction(SIGUSR1, &action, NULL);
    for (uintptr_t i = 0; i < count; i++)
        CHECK(!pthread_create(&workers[i], NULL, work, (void *)(i * 7)));
    CHECK(!pthread_create(&maker, NULL, make_threads, NULL));
    for (unsigned i = 0; time(NULL) < end; i++) {
        const struct timespec little = {0, 2000000};
        if (argc > 3)
            load_once(argv + 3 + i % (unsigned)(argc - 3), i);
        pthread_kill(workers[i % count], SIGUSR1);
        nanosleep(&little, NULL);
    }
    stop = 1;
    for (unsigned i = 0; i < count; i++)
        pthread_join(workers[i], NULL);
    pthread_join(maker, NULL);
    fprintf(stderr, "%lu rounds, %lu short threads, %lu signals, %lu libraries, %lu wrong\n",
            rounds, threads, signals, loads, wrong);
    return wrong != 0;
}
