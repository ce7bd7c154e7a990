// SPDX-License-Identifier: MIT
#ifndef CAIRN_EXPORT_PAGE_PAGE_DATA_H
#define CAIRN_EXPORT_PAGE_PAGE_DATA_H

// A profile as columns of numbers: what is in a page before it is compressed. It consists of
// sections, each with its name (4 letters) and its length (8 bytes) before it. Columns are varints,
// one after the other.

#include "export/page/page_input.h"
#include "profile/chunks/bytes.h"

// To be freed with bytes_free().
struct bytes page_data(const struct page_input *input);

#endif
