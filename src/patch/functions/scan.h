// SPDX-License-Identifier: MIT
#ifndef CAIRN_PATCH_FUNCTIONS_SCAN_H
#define CAIRN_PATCH_FUNCTIONS_SCAN_H

// The call sites of a function, by decoding it from its first byte to its last.

#include "patch/functions/functions.h"

// Finds them and puts them into function->sites. In a transaction. 0 or -ENOMEM.
int scan_function(struct patch_function *function, struct site_counts *counts);

#endif
