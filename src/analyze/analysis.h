// SPDX-License-Identifier: MIT
#ifndef CAIRN_ANALYZE_ANALYSIS_H
#define CAIRN_ANALYZE_ANALYSIS_H

// A profile with its names: all commands that read a profile open this first.

#include "analyze/tree/build.h"
#include "profile/queries/time_range.h"

// A moment of a recording, as a user names it.
struct moment {
    bool given, is_share; // of the recording's length
    double value;         // else nanoseconds since its beginning
};

struct analysis {
    struct profile *profile;
    struct symbols *symbols; // NULL: of a diff (analyze/diff/diff_view.h), whose names are known
    struct functions *functions;
    bool silent;  // as its options say
    bool is_part; // what is left of the profile is that of a range
    struct time_range range;
};

struct analysis_options {
    bool inlines;
    bool debuginfod;
    bool silent;            // does not say on a terminal how far the reading of symbols is
    struct moment from, to; // the part of the recording that is read; it takes a timeline
};

// 0, or -1 and one line in *error, to be freed.
int analysis_open(struct analysis *analysis, const char *path,
                  const struct analysis_options *options, char **error);
void analysis_close(struct analysis *analysis);

// The range that the options name. -1 and *error: the profile has no timeline, or it is none.
int analysis_range(const struct profile *profile, const char *path,
                   const struct analysis_options *options, struct time_range *range, char **error);

// Finds the names of all that the options choose.
void analysis_resolve(struct analysis *analysis, const struct build_options *options);

// The index of a metric by its name (NULL: the first), or -1 and *error.
int analysis_metric(const struct analysis *analysis, const char *name, char **error);

// "cpu (ns), alloc (bytes)": to be freed.
char *analysis_list_metrics(const struct analysis *analysis);

// Notes for the user, one line each: those of the recording, then those of the search for symbols.
// NULL after the last.
const char *analysis_note(const struct analysis *analysis, unsigned index);

// A command (ends with NULL) as one line for a shell, to be freed.
char *analysis_command(char *const *command);

#endif
