// SPDX-License-Identifier: MIT
// All work is done in libraries that are loaded for it and unloaded afterwards, by threads that
// come and go with them. Different libraries get the same address.
//
//   reloaded SECONDS HOSTS THREADS PLUGIN...      exits with 1 if a result was wrong

#include "common.h"
#include <dlfcn.h>
#include <pthread.h>

#define VALUES 32
#define RUNS 24
#define MOST 64

typedef uint64_t (*plugin_callback)(uint64_t value);
typedef uint64_t (*plugin_function)(uint64_t value, plugin_callback callback);

static char **plugins;
static unsigned plugin_count, thread_count;
static uint64_t expected[VALUES];
static _Atomic int stop;
static _Atomic uint64_t loads, threads, wrong;

static NOIPA uint64_t called_back(uint64_t value)
{
    uint64_t result = burn(value, 4);
    NO_TAIL_CALL();
    return result;
}

static NOIPA void *work(void *argument)
{
    const plugin_function run = (plugin_function)(uintptr_t)argument;
    for (uint64_t i = 0; i < RUNS; i++)
        wrong += run(i % VALUES, called_back) != expected[i % VALUES];
    return NULL;
}

// One library after the other, with threads of its own for each.
static void *host(void *argument)
{
    for (unsigned i = (unsigned)(uintptr_t)argument; !stop; i++) {
        pthread_t workers[MOST];
        void *library = dlopen(plugins[i % plugin_count], RTLD_NOW | RTLD_LOCAL);
        CHECK(library);
        plugin_function run = (plugin_function)(uintptr_t)dlsym(library, "plugin_run");
        CHECK(run);
        for (unsigned k = 0; k < thread_count; k++)
            CHECK(!pthread_create(&workers[k], NULL, work, (void *)(uintptr_t)run));
        for (unsigned k = 0; k < thread_count; k++)
            CHECK(!pthread_join(workers[k], NULL));
        CHECK(!dlclose(library));
        loads++;
        threads += thread_count;
    }
    return NULL;
}

int main(int argc, char **argv)
{
    CHECK(argc > 4);
    const struct timespec duration = {atoi(argv[1]), 0};
    const unsigned host_count = (unsigned)atoi(argv[2]);
    pthread_t hosts[MOST];
    thread_count = (unsigned)atoi(argv[3]);
    plugins = argv + 4;
    plugin_count = (unsigned)argc - 4;
    CHECK(host_count <= MOST && thread_count <= MOST);
    for (uint64_t i = 0; i < VALUES; i++)
        expected[i] = burn(i, 20) + called_back(i);
    for (uintptr_t i = 0; i < host_count; i++)
        CHECK(!pthread_create(&hosts[i], NULL, host, (void *)i));
    nanosleep(&duration, NULL);
    stop = 1;
    for (unsigned i = 0; i < host_count; i++)
        CHECK(!pthread_join(hosts[i], NULL));
    fprintf(stderr, "%lu libraries, %lu threads, %lu wrong\n", loads, threads, wrong);
    return wrong != 0;
}
