// SPDX-License-Identifier: MIT
#ifndef CAIRN_TESTS_MAKE_GOTABLE_H
#define CAIRN_TESTS_MAKE_GOTABLE_H

// A small table as Go's linker writes it, in any of its layouts, made by hand:
//
//   0x1000  main.first    a.go   lines 10, 11 from the ninth byte on; a frame of 24 from the fifth
//   0x1040  main.second   b.go   line 300; the top of a stack, where there are flags
//   0x1050  the end

#include "base/gotable.h"

enum { MADE_TEXT = 0x1000, MADE_SECOND = 0x40, MADE_END = 0x50, MADE_BYTES = 1024 };

// Returns how many of MADE_BYTES bytes are used. Before 1.18 addresses are absolute.
size_t make_gotable(enum gotable_layout layout, unsigned char *bytes);

#endif
