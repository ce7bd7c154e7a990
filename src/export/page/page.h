// SPDX-License-Identifier: MIT
#ifndef CAIRN_EXPORT_PAGE_PAGE_H
#define CAIRN_EXPORT_PAGE_PAGE_H

// The viewer: one HTML page that holds a profile and needs nothing else. web/ is its program;
// docs/viewer.md says how the profile lies in it.

#include "export/page/page_data.h"
#include <stdio.h>

// How trees of a page are built: everything apart that its reader may choose from.
void page_options(struct build_options *options);

int page_write(FILE *out, const struct page_input *input); // 0 or -errno

#endif
