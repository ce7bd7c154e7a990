// SPDX-License-Identifier: MIT
#ifndef CAIRN_CMD_LINE_NUMBERS_H
#define CAIRN_CMD_LINE_NUMBERS_H

// Numbers as users write them on the command line.

#include <stdbool.h>

// A number of zero or more, and what follows it. False if the text does not begin with one.
bool parse_number(const char *text, double *number, const char **rest);

// A number and nothing else.
bool parse_whole_number(const char *text, double *number);

// A time in ns, or with a unit; 0 if it is none.
double parse_time(const char *text);

// Bytes, with k, M or G if the user likes. False if it is no size.
bool parse_size(const char *text, double *bytes);

#endif
