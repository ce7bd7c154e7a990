// SPDX-License-Identifier: MIT
#ifndef CAIRN_ANALYZE_REPORT_SHARED_CALLERS_H
#define CAIRN_ANALYZE_REPORT_SHARED_CALLERS_H

// Chains of callers down to the roots end alike. Callers that an earlier row shows are not shown
// again:
//
//   ├─ insert ‹ exec ‹ step ‹ shell ‹ main
//   └─ sort ‹ exec ‹ …                            goes on as the first row with `exec` does

#include "analyze/report/row_plan.h"

// Shortens the plan's chains that end in a root; how many.
size_t cut_shared_callers(struct row_plan *plan, const struct calltree *tree);

#endif
