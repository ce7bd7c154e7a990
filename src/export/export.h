// SPDX-License-Identifier: MIT
#ifndef CAIRN_EXPORT_EXPORT_H
#define CAIRN_EXPORT_EXPORT_H

// Profiles for other people's tools: one file per foreign format, all in one table.

#include "analyze/analysis.h"
#include "analyze/calltree.h"
#include <stdio.h>

struct export_input {
    const struct analysis *analysis;
    const struct calltree *tree; // ordered
    unsigned metric;
};

struct export_format {
    const char *name;
    const char *summary;                                       // the tools that read it
    int (*write)(FILE *out, const struct export_input *input); // 0 or -errno
};

extern const struct export_format export_folded;

// Ends with NULL.
extern const struct export_format *const export_formats[];

#endif
