// SPDX-License-Identifier: MIT
#ifndef CAIRN_CMD_LINE_CONFIG_H
#define CAIRN_CMD_LINE_CONFIG_H

// The configuration file: defaults of options, for each command.
//
//   color = never          for all commands that print
//   [record]
//   frequency = 499        for `cairn record`
//
// It is $CAIRN_CONFIG, else $XDG_CONFIG_HOME/cairn/config, else ~/.config/cairn/config. A file that
// others may write to is not read: `cairn record` may run as root.

#include <stddef.h>

struct setting {
    char *command; // "": all commands that print
    char *name;    // of an option, without dashes
    char *value;
    unsigned line;
};

struct config {
    char *path; // NULL: there is none
    struct setting *settings;
    size_t count, capacity;
};

// Reads it once. 0, or STATUS_MISUSE after a message to the user. The result lasts.
int config_read(const struct config **config);

#endif
