// SPDX-License-Identifier: MIT
#ifndef CAIRN_CMD_OPTIONS_H
#define CAIRN_CMD_OPTIONS_H

// The options of a command, in one table. It parses the command line, prints the help, and suggests
// an option for one that does not exist. Options that many commands have in common (--help,
// --color, --width, --no-pager) are in one table here, and are taken care of here.

#include "cmd/cmd.h"

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

// A command line that is being read.
struct option_scan {
    const struct command *command;
    int argc;
    char **argv;
    char *argument; // of the option returned last, NULL: none
    int status;     // the exit status, after OPTION_EXIT
    bool begun;
};

static inline struct option_scan option_scan(const struct command *command, int argc, char **argv)
{
    return (struct option_scan){.command = command, .argc = argc, .argv = argv};
}

// Values that option_next() returns besides those of the table.
enum {
    OPTION_END = -1,  // optind is the first word that is no option
    OPTION_EXIT = -2, // help was printed, or an error message
};

// The next option that is the command's own.
int option_next(struct option_scan *scan);

// The position of an option's value among the words that it can be (ends with NULL), or -1 after a
// message to the user. `option` is the name that the user knows: "--view", "-f".
int option_choice(const struct command *command, const char *option, const char *value,
                  const char *const *words);

// Prints the options of a command, as its help shows them.
void options_print(const struct command *command, enum help_part part);

#endif
