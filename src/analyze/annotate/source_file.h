// SPDX-License-Identifier: MIT
#ifndef CAIRN_ANALYZE_ANNOTATE_SOURCE_FILE_H
#define CAIRN_ANALYZE_ANNOTATE_SOURCE_FILE_H

// A source file on this machine, by the path that a compiler wrote down. That is often relative, to
// a folder that is not known here: it is looked for in the folders above the program, too.

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

struct source_search {
    const char *path;    // as the compiler wrote it
    const char *program; // that was compiled; may be NULL
    const char *folder;  // where the user says that sources are; NULL: not said
    unsigned lines;      // a file with fewer lines is another one
};

struct source_file {
    char *path;
    char *text;
    char **lines; // without their ends
    size_t count;
    time_t changed;
};

// False if there is no such file.
bool source_file_open(struct source_file *file, const struct source_search *search);
void source_file_close(struct source_file *file);

#endif
