// SPDX-License-Identifier: MIT
// Opens libraries FOLDER/0.so, FOLDER/1.so, ... COUNT of them, calls each, and closes them. Says
// how much processor time that took.

#include "common.h"
#include <dlfcn.h>

NOIPA uint64_t called_back(uint64_t value)
{
    return value + 1;
}

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    const int count = atoi(argv[2]);
    void **library = calloc((size_t)count, sizeof *library);
    uint64_t sum = 0;
    const uint64_t begin = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    for (int i = 0; i < count; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%d.so", argv[1], i);
        library[i] = dlopen(path, RTLD_NOW);
        CHECK(library[i]);
        uint64_t (*run)(uint64_t, uint64_t(*)(uint64_t)) =
            (uint64_t(*)(uint64_t, uint64_t(*)(uint64_t)))dlsym(library[i], "plugin_run");
        sum += run((uint64_t)i, called_back);
    }
    for (int i = 0; i < count; i++)
        CHECK(dlclose(library[i]) == 0);
    const uint64_t end = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    free(library);
    printf("%llu %llu\n", (unsigned long long)sum, (unsigned long long)(end - begin));
    return 0;
}
