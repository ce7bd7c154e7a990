// SPDX-License-Identifier: MIT
#ifndef CAIRN_ANALYZE_COMPARE_COMPARE_SHOW_H
#define CAIRN_ANALYZE_COMPARE_COMPARE_SHOW_H

// A comparison on paper: as text that says what each number means, and as JSON.

#include "analyze/compare/compare_align.h"
#include "base/text/text.h"

struct comparison {
    const struct analysis *analysis[2]; // by side
    const char *path[2];
    const struct alignment *alignment;
    const struct compare_options *options;
    char *const *thresholds; // as the user said them: keys in JSON
    const struct compare_result *result;
    size_t pruned; // contexts of the approximation that a report does not show either
};

void compare_print(FILE *out, const struct text_style *style, const struct comparison *comparison);
void compare_print_json(FILE *out, const struct comparison *comparison);

// A warning about a side whose samples are few (sample_warning.h), to be freed; NULL: they are not.
char *compare_few(const struct comparison *comparison, enum compare_side side);

// The caller of a context, and the whole path with "/" between ("main/b/c"); of a deep one, its
// end. To be freed.
const char *compare_name(const struct comparison *comparison, uint32_t context);
const char *compare_caller(const struct comparison *comparison, uint32_t context);
char *compare_path(const struct comparison *comparison, uint32_t context, const char *between);

#endif
