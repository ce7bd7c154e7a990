// SPDX-License-Identifier: MIT
#ifndef CAIRN_CMD_LINE_TERMINAL_H
#define CAIRN_CMD_LINE_TERMINAL_H

// The stdout of commands that print for people: a terminal of some width, often with a pager in
// front of it, or a file or pipe. The options --color, --width and --no-pager decide over what the
// environment says.

#include "base/text/text.h"

enum terminal_color { COLOR_AUTO, COLOR_ALWAYS, COLOR_NEVER };

void terminal_set_color(enum terminal_color color);
int terminal_set_width(const char *columns); // 0, or -1 if that is no number of columns
void terminal_set_no_pager(void);

// How to print to stdout. The answer stays the same when a pager is started.
struct text_style terminal_style(void);

// From here on, output goes through a pager, if stdout is a terminal: $CAIRN_PAGER, else $PAGER,
// else "less -FRX". It starts with the first output. Without a pager that can be started, all is
// printed as it is.
void terminal_use_pager(void);

// Waits until the user has left the pager; stdout must be flushed. 0, or -1 after a complaint if
// the pager could not be run.
int terminal_end_pager(void);

#endif
