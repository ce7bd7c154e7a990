// SPDX-License-Identifier: MIT
#ifndef CAIRN_ANALYZE_REPORT_NAME_SET_H
#define CAIRN_ANALYZE_REPORT_NAME_SET_H

// The names of all functions that one report shows, each in as few columns as there are. Two
// functions never get the same text, however few the columns are: a short name that another
// function would have, too, keeps the part that distinguishes them.
//
//   checksum<…string>, checksum<…long>     template arguments
//   print(int), print(char)                parameters
//   init [libone.so], init [libtwo.so]     modules

#include "analyze/tree/functions.h"
#include "base/text/text.h"

#define NAME_LEVELS 7 // the stages of short_name(), then forms that were made to tell apart

struct name_set;

struct name_set *name_set_new(const struct functions *functions, const struct text_style *style);
void name_set_free(struct name_set *names);

// First all functions are added, then names are asked for.
void name_set_add(struct name_set *names, uint32_t function);

// The whole name, though other functions may have the same.
const char *name_set_full(const struct name_set *names, uint32_t function);

// The text of a function at that level, or the next shorter one that no other function has. It
// lives as long as the set.
const char *name_set_text(struct name_set *names, uint32_t function, unsigned level);

// The longest text that fits into `width` columns; cut in the middle if none does. It
// lives as long as the set.
const char *name_set_fit(struct name_set *names, uint32_t function, unsigned width);

// One name alone, in at most that many columns (0: any). To be freed.
char *name_in_columns(const char *name, unsigned width, const struct text_style *style);

#endif
