// SPDX-License-Identifier: MIT
#ifndef CAIRN_ANALYZE_COMPARE_COMPARE_ALIGN_H
#define CAIRN_ANALYZE_COMPARE_COMPARE_ALIGN_H

// Two profiles with common contexts, for the measures of compare.h.
//
// A function is the same if its name and its module are. A call site is the same place in the
// module if both have the same build of it (build id), wherever it was loaded; else the same line
// of the same function. Modules are the same by build id, or by the last part of their path. All
// threads and processes of a profile are one tree, as in a report.
//
// Trackers see different frames. A walk also sees functions that were not compiled to be followed:
// the way from _start to main, libraries, signal trampolines. So when one of the profiles followed
// calls, both are projected on the functions whose calls it counted:
//
//   walked      _start ── main ── qsort ── compare (site in qsort)
//   projected   ───────── main ─────────── compare (site in qsort)
//
// Frames of other functions are left out: their children hang under the next frame that is kept,
// with the call sites that they have, and so does cost of their own. If only the approximation
// followed calls, it may have missed some: then functions stay of which it has others of the same
// module, unless they lie above the first one that it has. Cost above all kept frames belongs to
// the root.

#include "analyze/analysis.h"
#include "analyze/compare/compare_modules.h"

struct compare_site {
    uint32_t module; // common
    uint64_t offset; // in it, or the function that calls, where modules are lined up by names
    uint32_t line;
    char *where; // "file.c:12"; NULL: not known
};

struct alignment {
    struct compare_tree *tree;
    unsigned metric[2]; // by side
    struct compare_site *sites;
    size_t site_count, site_capacity;
    struct hash_index by_site;
    struct common_modules modules;
    uint64_t left_out[2]; // nodes of frames that were spliced out
};

// metric: NULL for the first that both have; else its name, or "EXACT,APPROX" for two that have
// different names. 0, or -1 and one line in *error, to be freed.
int compare_align(struct alignment *alignment, struct analysis *exact, struct analysis *approx,
                  const char *metric, char **error);
void alignment_free(struct alignment *alignment);

#endif
