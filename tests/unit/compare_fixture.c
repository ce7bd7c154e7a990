// SPDX-License-Identifier: MIT
#include "compare_fixture.h"
#include "base/memory.h"
#include "make_profile.h"
#include "symbol/disassembly.h"
#include "symbol/symbol.h"
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

const struct compare_options usual_measures = {
    .threshold_count = 2, .thresholds = {0.1, 0.01}, .phi = 1e-4, .edges = 40};

struct symbols {
    const struct profile *profile;
    struct symbol symbols[4096];
    struct symbol_frame frames[4096];
    char names[4096][16];
    unsigned count;
};

uint64_t moved_code[2];

struct symbols *symbols_new(const struct profile *profile, const struct symbols_options *options)
{
    (void)options;
    struct symbols *symbols = memory_array(1, sizeof *symbols);
    symbols->profile = profile;
    return symbols;
}

void symbols_free(struct symbols *symbols)
{
    free(symbols);
}

void symbols_want(struct symbols *symbols, unsigned process, place_t place)
{
    (void)symbols, (void)process, (void)place;
}

void symbols_resolve(struct symbols *symbols)
{
    (void)symbols;
}

const struct symbol *symbols_at(struct symbols *symbols, unsigned process, place_t place)
{
    (void)process;
    assert_true(symbols->count < 4096);
    unsigned number = symbols->count++;
    bool other_build = symbols->profile->duration_ns == 1;
    uint64_t offset = place_offset(place) - moved_code[other_build];
    snprintf(symbols->names[number], sizeof symbols->names[number], "f%llx",
             (unsigned long long)offset / 256);
    symbols->frames[number] =
        (struct symbol_frame){symbols->names[number], "/src/file.c", (unsigned)(offset / 16 + 1)};
    symbols->symbols[number] =
        (struct symbol){.count = 1, .frames = &symbols->frames[number], .function = 0};
    return &symbols->symbols[number];
}

enum symbol_quality symbols_quality(const struct symbols *symbols, unsigned module)
{
    (void)symbols, (void)module;
    return SYMBOLS_DWARF;
}

const char *symbols_note(const struct symbols *symbols, unsigned index)
{
    (void)symbols, (void)index;
    return NULL;
}

// There is no code behind these profiles.
int disassemble(struct disassembly *code, const struct profile_module *module, uint64_t begin,
                uint64_t least, char **error)
{
    (void)code, (void)module, (void)begin, (void)least;
    *error = memory_text("no code");
    return -1;
}

void disassembly_free(struct disassembly *code)
{
    (void)code;
}
