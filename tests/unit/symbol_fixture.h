// SPDX-License-Identifier: MIT
#ifndef CAIRN_TESTS_SYMBOL_FIXTURE_H
#define CAIRN_TESTS_SYMBOL_FIXTURE_H

// Programs made while the tests run, with the compilers and binutils of this machine, in a folder
// that is removed afterwards; and a profile with one module, made by hand.

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
// cmocka wants the four above first.
#include "symbol/symbol.h"
#include <cmocka.h>

enum { FIXTURE_MODULE = MODULE_FIRST_FILE };

int fixture_setup(void **state); // group setup and teardown
int fixture_teardown(void **state);

const char *fixture_path(const char *name); // in the folder; one of a few static buffers
const char *fixture_source(const char *name);
bool fixture_has(const char *program);

// Runs a shell command in the folder; fails the test unless it succeeds. $SOURCES is the folder of
// sources.
void fixture_run(const char *format, ...) __attribute__((format(printf, 1, 2)));
// The first line that a command prints, cut at its end; empty if none.
const char *fixture_output(const char *format, ...) __attribute__((format(printf, 1, 2)));

// The address of a symbol relative to the lowest loaded address, by nm and readelf.
uint64_t fixture_offset(const char *file, const char *symbol);
uint64_t fixture_base(const char *file);
// The line of a source file that has the comment "at NAME".
unsigned fixture_line(const char *source, const char *name);

struct fixture {
    struct profile profile;
    struct profile_module modules[FIXTURE_MODULE + 1];
    struct profile_process process;
    struct symbols *symbols;
};

enum fixture_lines { WITHOUT_LINES, WITH_LINES };

void fixture_open(struct fixture *fixture, const char *path, enum fixture_lines lines);
void fixture_close(struct fixture *fixture);
const struct symbol *fixture_at(struct fixture *fixture, uint64_t offset);
// The name of the function itself (not what is inlined there).
const char *fixture_name(struct fixture *fixture, uint64_t offset);
bool fixture_has_note(struct fixture *fixture, const char *part);
unsigned fixture_notes(struct fixture *fixture);

#endif
