// SPDX-License-Identifier: MIT
#ifndef CAIRN_CMD_LINE_COMMAND_H
#define CAIRN_CMD_LINE_COMMAND_H

// Shared by the subcommands of `cairn`. src/cmd/NAME.c is `cairn NAME`, and defines `command_NAME`;
// cmd/main.c lists them all.

#include <stdbool.h>
#include <stddef.h>

// Exit statuses besides 0. `record` also returns what its command returned.
enum {
    STATUS_FAILED = 1, // asked rightly, but it could not be done
    STATUS_MISUSE = 2, // unknown option, impossible value, file that is no profile, ...
    STATUS_NOT_EXECUTABLE = 126,
    STATUS_NOT_FOUND = 127,
};

// A function that reads a command line returns this if there is more to do: any other value is the
// exit status.
enum { PROCEED = -1 };

struct option_row;

struct command {
    const char *name;                 // "": cairn itself
    const char *summary;              // for `cairn help`: one line, no full stop
    const char *usage;                // the text behind "usage: cairn NAME "
    const char *help;                 // a description, and examples: lines of at most 80 columns
    const char *notes;                // the text behind the list of its options, NULL: none
    const struct option_row *options; // its own (cmd/line/options.h), NULL: none
    bool prints;       // on stdout, for people: takes --color, --width and --no-pager
    bool ends_at_word; // the first word that is no option ends the options
    int (*run)(int argc, char **argv); // argv[0] is the command's name; returns the exit status
};

extern const struct command command_record, command_annotate, command_report, command_info,
    command_export, command_import, command_compare, command_diff, command_gate, command_merge,
    command_decode, command_cc, command_list, command_doctor, command_view, command_top,
    command_help;

// Every command there is, ends with NULL.
extern const struct command *const all_commands[];

// Prints the version, and what this tool was built with. Returns 0, or STATUS_FAILED.
int print_version(void);

// A command by its name, "": what all commands that print have in common. NULL: there is none.
const struct command *command_by_name(const char *name);

// The name of the command that was most likely meant, or NULL.
const char *nearest_command(const char *name);

// Prints a command's help on stdout: all of it, or without the advanced options. Returns 0, or
// STATUS_FAILED when stdout is broken.
enum help_part { HELP_ALL, HELP_EVERYDAY };
int print_command_help(const struct command *command, enum help_part part);

// The profile that follows the options, if one does; else `path` as an option has set it, or the
// default. PROCEED, or the exit status after a message to the user.
int take_profile(const struct command *command, int argc, char **argv, const char **path);

// "cairn: " and one line on stderr, whatever foreign text is in it.
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

// The same, and the line ends with where the command's help is. Returns STATUS_MISUSE, to be
// returned.
int misuse(const struct command *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// Lines of complain() and misuse() begin with this from now on: the place of a mistake in a file, or
// "".
void complain_at(const char *place);

// From here on, misuse() says that a file sets these options as well.
void misuse_mentions(const char *path, const char *names);

// The line that a function left behind when it could not do with a file, which is freed. Returns
// STATUS_MISUSE.
int misuse_of_file(char *error);

// Sees to it that all of stdout was written, and that a pager has shown it. Returns 0, or
// STATUS_FAILED after a complaint; `name` is that of the command, or NULL.
int finish_output(const char *name);

#endif
