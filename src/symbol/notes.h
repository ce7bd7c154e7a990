// SPDX-License-Identifier: MIT
#ifndef CAIRN_SYMBOL_NOTES_H
#define CAIRN_SYMBOL_NOTES_H

// Notes for the user about missing names, and what would help. One line each.

#include "symbol/module.h"
#include "symbol/perf_map.h"

struct notes {
    struct text_pool *pool;
    const char **list;
    size_t count, capacity;
};

void notes_add(struct notes *notes, const char *text); // keeps it in the pool
// A file that is missing, damaged, or another build than the recorded one.
void notes_on_module(struct notes *notes, const struct module *module,
                     const struct profile *profile);
// Modules without line numbers, hottest first: names the packages that would help.
void notes_on_lines(struct notes *notes, const struct module *const *modules, size_t count);
// A file with the names of generated code that was not read.
void notes_on_map(struct notes *notes, const char *path, enum perfmap_answer why);
// Generated code of a process without such a file; its command, as recorded.
void notes_on_generated(struct notes *notes, char *const *command);
void notes_free(struct notes *notes);

#endif
