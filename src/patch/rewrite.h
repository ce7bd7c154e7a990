// SPDX-License-Identifier: MIT
#ifndef CAIRN_PATCH_REWRITE_H
#define CAIRN_PATCH_REWRITE_H

// From what a site is to lead to, to the code that says so.

#include "patch/sites.h"
#include "patch/write/edits.h"

struct site_change {
    struct site *site;
    struct stub *stub; // NULL: back to the original code
};

// The edits of a change. Islands that nothing leads to yet are written at once. 0 or -errno.
int rewrite_site(const struct site_change *change, enum threading threading);

#endif
