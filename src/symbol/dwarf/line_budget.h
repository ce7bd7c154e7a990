// SPDX-License-Identifier: MIT
#ifndef CAIRN_SYMBOL_DWARF_LINE_BUDGET_H
#define CAIRN_SYMBOL_DWARF_LINE_BUDGET_H

// Line programs that may be run. libdw keeps 100 bytes for each row of the table that a program
// makes, and a byte of a program can make a row; honest ones take three or four. So the programs
// that are run have, all together, at most some megabytes more than the file.

#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stdint.h>

struct line_budget {
    uint64_t left; // bytes of programs
    Dwarf *dwarf;  // that was asked about last, and all its programs:
    const uint8_t *section;
    uint64_t bytes;
};

// `file_bytes` is the size of the file, as it was read.
struct line_budget line_budget_make(uint64_t file_bytes);

// Before rows or file names are asked for of that unit. False: they would take too much.
bool line_budget_allows(struct line_budget *budget, Dwarf_Die *unit);

#endif
