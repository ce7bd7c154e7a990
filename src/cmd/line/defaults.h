// SPDX-License-Identifier: MIT
#ifndef CAIRN_CMD_LINE_DEFAULTS_H
#define CAIRN_CMD_LINE_DEFAULTS_H

// The settings of the configuration file that a command line takes: those of its command whose
// options it does not have itself. options.c passes them as if they stood before the others.

#include "cmd/line/option_rows.h"

// Whether all of the file makes sense, whatever command it is for. 0, or STATUS_MISUSE after a
// message to the user.
int defaults_check(void);

// The next default of a command after `*at`, which is 0 at the begin. False: there is none.
struct option_default {
    const struct option_row *row;
    char *argument; // NULL: it takes none
};
bool defaults_next(const struct command *command, size_t *at, struct option_default *next);

// Errors from here on are about the default that defaults_next() returned last. Afterwards, misuse
// of the command names the file, as what is wrong may be a default that does not fit.
void defaults_end(const struct command *command);

#endif
