// SPDX-License-Identifier: MIT
#ifndef CAIRN_EXPORT_BARS_H
#define CAIRN_EXPORT_BARS_H

// The picture of ACCT's Figures 1 to 5: a pair of bars for each of the hottest edges of the exact
// tree, the hottest on the left. Light is its weight in the exact tree, dark in the approximation,
// each as per cent of the hottest edge of its tree. Where the bars are alike, so are the trees.

#include "analyze/compare/compare_show.h"

int bars_write(FILE *out, const struct comparison *comparison); // 0 or -errno

#endif
