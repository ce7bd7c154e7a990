// SPDX-License-Identifier: MIT
#ifndef CAIRN_EXPORT_PAGE_PAGE_INPUT_H
#define CAIRN_EXPORT_PAGE_PAGE_INPUT_H

// The profile that a page is made of.

#include "analyze/analysis.h"
#include "analyze/diff/diff_rows.h"

struct page_code;

struct page_input {
    const struct analysis *analysis;
    const struct calltree *tree;      // ordered by its first metric
    uint64_t left_out;                // contexts that are in SMALL_CONTEXTS
    uint64_t whole;                   // cost in its first metric, with what trees did not keep
    const char *old, *new;            // of a diff, as in analyze/diff/diff_view.h; NULL: it is none
    const struct diff_rows *changes;  // by context; NULL: they are not told
    const char *sentence;             // that sums the changes up; NULL: there is none
    const struct build_image *images; // by tree of the profile; NULL: nothing needs them
    const struct page_code *code;     // NULL: no machine code and no sources
    const char *folder;               // of sources; NULL: not said
};

static inline bool page_has_timeline(const struct page_input *input)
{
    return input->images && input->analysis->profile->timeline.recorded;
}

static inline bool page_has_locks(const struct page_input *input)
{
    return input->images && input->analysis->profile->blame_count > 0;
}

#endif
