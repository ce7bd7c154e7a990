// SPDX-License-Identifier: MIT
#ifndef CAIRN_CMD_LINE_OPTION_ROWS_H
#define CAIRN_CMD_LINE_OPTION_ROWS_H

// The options of a command as rows of tables: its own, and those that it has in common with others.

#include "cmd/line/command.h"

// A row without a name is the title of those that follow; the table ends with one that has neither.
struct option_row {
    int value; // returned by option_next(); a letter is the short form of the option, too
    const char *name;
    const char *argument; // its value, as "FILE"; "[=N]": may have one; NULL: none
    const char *help;     // one sentence or two; NULL: the help does not show it
};

#define OPTION_TITLE(title)                                                                        \
    {                                                                                              \
        0, NULL, NULL, title                                                                       \
    }
#define OPTION_ADVANCED(title)                                                                     \
    {                                                                                              \
        1, NULL, NULL, title                                                                       \
    } // and all that follow; -h leaves them out
#define OPTION_TABLE_END                                                                           \
    {                                                                                              \
        0, NULL, NULL, NULL                                                                        \
    }

enum { OPTION_MOST = 96 }; // of a command

// Values of the options in common.
enum {
    OPTION_COLOR = 1 << 16,
    OPTION_WIDTH,
    OPTION_NO_PAGER,
    OPTION_HELP,
    OPTION_NO_CONFIG,
};

// All options of a command; the list ends with NULL.
void option_list(const struct command *command, const struct option_row *list[OPTION_MOST]);

// An option of a command that may have a default, by its name, NULL: there is none. And the option
// that was most likely meant.
const struct option_row *option_of(const struct command *command, const char *name);
const char *option_nearest(const struct command *command, const char *name);

// Prints the options of a command, as its help shows them.
void options_print(const struct command *command, enum help_part part);

#endif
