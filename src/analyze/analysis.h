// SPDX-License-Identifier: MIT
#ifndef CAIRN_ANALYZE_ANALYSIS_H
#define CAIRN_ANALYZE_ANALYSIS_H

// A profile with its names: all commands that read a profile open this first.

#include "analyze/build.h"

struct analysis {
    struct profile *profile;
    struct symbols *symbols;
    struct functions *functions;
};

struct analysis_options {
    bool inlines;
    bool debuginfod;
};

// 0, or -1 and one line in *error, to be freed.
int analysis_open(struct analysis *analysis, const char *path,
                  const struct analysis_options *options, char **error);
void analysis_close(struct analysis *analysis);

// Finds the names of all that the options choose.
void analysis_resolve(struct analysis *analysis, const struct build_options *options);

// The index of a metric by its name (NULL: the first), or -1 and *error.
int analysis_metric(const struct analysis *analysis, const char *name, char **error);

// Notes for the user, one line each: those of the recording, then those of the search for symbols.
// NULL after the last.
const char *analysis_note(const struct analysis *analysis, unsigned index);

// A command (ends with NULL) as one line for a shell, to be freed.
char *analysis_command(char *const *command);

#endif
