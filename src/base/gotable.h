// SPDX-License-Identifier: MIT
#ifndef CAIRN_BASE_GOTABLE_H
#define CAIRN_BASE_GOTABLE_H

// The table that each Go program carries, stripped or not, for its own stack traces (.gopclntab).
// It has functions by address, and for each pc the file, the line, and the distance of the stack
// pointer from its value at function entry.
//
//   [ header | names | units | files | values | functions: (address, record)... records... ]
//
// A record refers to a name and to lists of values; a list says from which pc on a value holds, as
// differences in few bytes. Laid out as Go 1.2, 1.16, 1.18 or 1.20 did it first.
//
// Works on any bytes: nothing is read outside of them and every search ends. No allocation:
// signal-safe.

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum gotable_layout { GOTABLE_1_2, GOTABLE_1_16, GOTABLE_1_18, GOTABLE_1_20 };

struct gotable {
    const unsigned char *data;
    size_t bytes;
    enum gotable_layout layout;
    unsigned quantum; // of addresses in lists
    uint64_t count;   // functions
    // The base of addresses in the table, from its header. 0 before Go 1.18, and in files of
    // programs that can be loaded anywhere, where the loader fills it in.
    uint64_t text;
    size_t text_at;                                // where in the header that is; 0: nowhere
    size_t names, units, files, values, functions; // parts, from the start
};

// False if it is no such table.
bool gotable_open(struct gotable *table, const void *data, size_t bytes);

// Looks for a table among other things that lie at an address in the running program. How far from
// there it is, or SIZE_MAX.
size_t gotable_search(struct gotable *table, const void *data, size_t bytes, uint64_t address);

enum { GOTABLE_TOP = 1, GOTABLE_MOVES_STACK = 2 };

struct gotable_function {
    uint64_t start, end;    // relative to text
    uint32_t name;          // offset among names
    uint32_t stack_list;    // stack pointer at a pc, in bytes below that at the entry
    uint32_t file_list;     // number of the file in its unit
    uint32_t line_list;     //
    uint32_t inline_list;   // index among the function's inlined calls; 0: none
    uint32_t unit;          // first file of the unit
    uint32_t inlined_calls; // where they are, from the begin of such data
    bool has_inlined_calls; //
    unsigned flags;         // GOTABLE_*
};

// The function that holds an address (relative to text).
bool gotable_find(const struct gotable *table, uint64_t pc, struct gotable_function *function);

// The value at the address, by one of the function's lists.
bool gotable_value(const struct gotable *table, const struct gotable_function *function,
                   uint32_t list, uint64_t pc, int32_t *value);

// A name at an offset among names; NULL if it does not end.
const char *gotable_name(const struct gotable *table, uint32_t offset);
// Whether that is this name: without a call of the C library, whose functions may use any register.
bool gotable_is_named(const struct gotable *table, uint32_t offset, const char *name);
// A file by its number in the function's unit.
const char *gotable_file(const struct gotable *table, const struct gotable_function *function,
                         int32_t number);

#endif
