// SPDX-License-Identifier: MIT
#ifndef CAIRN_ANALYZE_REPORT_REPORT_H
#define CAIRN_ANALYZE_REPORT_REPORT_H

// `cairn report`, from a profile to text or JSON.

#include "analyze/analysis.h"
#include "analyze/tree/build.h"
#include "analyze/tree/refine.h"
#include "analyze/views/flat.h"
#include "base/text/text.h"

enum report_view { VIEW_TREE, VIEW_CALLERS, VIEW_FLAT, VIEW_PROCESSES, VIEW_BLAME };

// In trees; a list has each function once anyway. By default where it would fill the rows of a
// text.
enum fold_recursion { FOLD_AUTO, FOLD_YES, FOLD_NO };

// By default, a pass up from a function ends after this many callers.
#define CALLERS_DEPTH 128

struct report_options {
    enum report_view view;
    enum flat_by by;
    const char *metric; // a list of names, or "all"; NULL: the first
    double least;       // per cent of the focus; < 0: the default of the view
    unsigned depth;     // 0: all
    double phi;         // share from which on contexts are shown; 0: as recorded
    bool sort_given;
    enum call_order sort;
    struct build_options build;
    struct pattern_list through, without;
    struct pattern *focus;
    enum fold_recursion fold_recursion;
    bool json, fold, wide;
    bool spread; // over the profiles that were merged
};

// 0, or -1 and one line in *error, to be freed.
int report_print(FILE *out, const struct text_style *style, struct analysis *analysis,
                 const struct report_options *options, char **error);

#endif
