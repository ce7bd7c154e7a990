// SPDX-License-Identifier: MIT
// Damaged programs give notes, and every place in them has a name.

#include "symbol/symbol.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static int memory_file = -1;

static void look_at(const char *path, size_t size)
{
    struct profile_module modules[MODULE_FIRST_FILE + 1] = {0};
    modules[MODULE_FIRST_FILE].path = (char *)path;
    struct profile profile = {.module_count = MODULE_FIRST_FILE + 1, .modules = modules};
    struct symbols_options options = {.inlines = true};
    struct symbols *symbols = symbols_new(&profile, &options);
    if (!symbols)
        abort();
    size_t step = size / 256 + 1;
    for (size_t offset = 0; offset < size; offset += step)
        symbols_want(symbols, 0, place_make(MODULE_FIRST_FILE, offset));
    symbols_want(symbols, 0, place_make(MODULE_FIRST_FILE, PLACE_OFFSET_UNKNOWN));
    symbols_resolve(symbols);
    for (size_t offset = 0; offset < size; offset += step) {
        place_t place = place_make(MODULE_FIRST_FILE, offset);
        const struct symbol *symbol = symbols_at(symbols, 0, place);
        for (unsigned i = 0; i < symbol->count; i++)
            if (!symbol->frames[i].function)
                abort();
        if (symbol->count == 0)
            abort();
    }
    symbols_free(symbols);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (memory_file < 0)
        memory_file = memfd_create("damaged", MFD_CLOEXEC);
    if (memory_file < 0 || ftruncate(memory_file, 0) != 0 ||
        pwrite(memory_file, data, size, 0) != (ssize_t)size)
        abort();
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", memory_file);
    look_at(path, size);
    return 0;
}
