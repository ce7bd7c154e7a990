// SPDX-License-Identifier: MIT
#ifndef CAIRN_CMD_LINE_OPTIONS_H
#define CAIRN_CMD_LINE_OPTIONS_H

// The options of a command, in one table. It parses the command line, prints the help, and suggests
// an option for one that does not exist. Options that many commands have in common (--help,
// --color, --width, --no-pager) are in one table here, and are taken care of here.

#include "cmd/line/command.h"
#include "cmd/line/option_rows.h"

// A command line that is being read, after the defaults of the configuration file.
struct option_scan {
    const struct command *command;
    int argc;
    char **argv;
    char *argument; // of the option returned last, NULL: none
    int status;     // the exit status, after OPTION_EXIT
    enum { SCAN_NEW, SCAN_DEFAULTS, SCAN_WORDS } state;
    bool is_default;        // the option returned last is from the configuration file
    size_t next_default;    // a position in it
    int given[OPTION_MOST]; // values of options on the command line
    unsigned given_count;
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

// All options of a command line, one after the other: `set` puts each into the command's arguments,
// and returns 0, or the exit status after a message to the user. PROCEED, or the exit status.
int options_parse(const struct command *command, int argc, char **argv,
                  int (*set)(int option, const char *text, void *arguments), void *arguments);

// The position of an option's value among the words that it can be (ends with NULL), or -1 after a
// message to the user. `option` is the name that the user knows: "--view", "-f".
int option_choice(const struct command *command, const char *option, const char *value,
                  const char *const *words);

#endif
