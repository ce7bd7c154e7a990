// SPDX-License-Identifier: MIT
#ifndef CAIRN_SYMBOL_SYMBOL_H
#define CAIRN_SYMBOL_SYMBOL_H

// Places to functions, files and lines. Built for batches: ask for all places first (symbols_want),
// then resolve once (each module is opened once, addresses sorted), then look up.

#include "profile/profile.h"
#include "symbol/names/symbol_frame.h"

// The symbols of a place: the function that holds it and, before it, functions inlined there.
struct symbol {
    unsigned count;                    // >= 1
    const struct symbol_frame *frames; // innermost inlined function first, the real function last
    place_t function; // where the real function begins by its symbol, 0 if not known
};

// SYMBOLS_OWN: functions and lines by a table of the language's own, without DWARF.
enum symbol_quality { SYMBOLS_NONE, SYMBOLS_TABLE, SYMBOLS_OWN, SYMBOLS_DWARF };

struct symbols;

struct symbols_options {
    bool inlines;    // expand inlined frames and lines (needs DWARF)
    bool debuginfod; // ask servers, if the environment names some
    // Modules done, of all; while a debug file is fetched from a server, its kilobytes.
    void (*progress)(void *context, const char *module, unsigned done,
                     unsigned total); // may be NULL
    void *progress_context;
};

struct symbols *symbols_new(const struct profile *profile, const struct symbols_options *options);
void symbols_free(struct symbols *symbols);

// process: index in profile->processes, for code of no file (perf-PID.map). Any order, duplicates
// welcome.
void symbols_want(struct symbols *symbols, unsigned process, place_t place);
void symbols_resolve(struct symbols *symbols);
const struct symbol *symbols_at(struct symbols *symbols, unsigned process, place_t place);

enum symbol_quality symbols_quality(const struct symbols *symbols, unsigned module);

// One line per problem, said once: a binary that has changed since (build id), a missing debug file
// and the package or file that would help. NULL after the last.
const char *symbols_note(const struct symbols *symbols, unsigned index);

#endif
