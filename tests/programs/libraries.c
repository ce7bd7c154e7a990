// SPDX-License-Identifier: MIT
// Loads, uses and unloads libraries in a loop; different ones get the same address.
// Arguments: the libraries.

#include "common.h"
#include <dlfcn.h>
#include <pthread.h>

typedef uint64_t (*plugin_callback)(uint64_t value);
typedef uint64_t (*plugin_function)(uint64_t value, plugin_callback callback);

static char **paths;
static int path_count;

NOIPA uint64_t called_back(uint64_t value)
{
    uint64_t result = burn(value, 20);
    NO_TAIL_CALL();
    return result;
}

NOIPA uint64_t use_library(const char *path, uint64_t value, uintptr_t *address)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(99);
    }
    plugin_function run = (plugin_function)(uintptr_t)dlsym(library, "plugin_run");
    CHECK(run != NULL);
    uint64_t sum = 0;
    for (unsigned i = 0; i < 10; i++)
        sum += run(value + i, called_back);
    *address = (uintptr_t)run & ~UINT64_C(0xfff);
    CHECK(dlclose(library) == 0);
    return sum;
}

static NOIPA void *use_all(void *argument)
{
    uint64_t sum = 0;
    uintptr_t last = 0;
    int reused = 0;
    for (int i = 0; i < 300; i++) {
        uintptr_t address;
        sum += use_library(paths[i % path_count], (uint64_t)i, &address);
        reused += address == last;
        last = address;
    }
    *(uint64_t *)argument = sum;
    return (void *)(intptr_t)reused;
}

int main(int argc, char **argv)
{
    CHECK(argc > 2);
    paths = argv + 1;
    path_count = argc - 1;
    uint64_t alone, together[2];
    intptr_t reused = (intptr_t)use_all(&alone);
    printf("libraries %llx, address reused: %s\n", (unsigned long long)alone,
           reused > 100 ? "yes" : "no");
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, use_all, &together[i]) == 0);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        CHECK(together[i] == alone);
    }
    return 0;
}
