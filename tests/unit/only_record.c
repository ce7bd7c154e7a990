// SPDX-License-Identifier: MIT

// What the options of a command ask of the list of all commands: it has `cairn record` alone, which the
// test defines.

#include "cmd/line/command.h"
#include <string.h>

int print_command_help(const struct command *command, enum help_part part)
{
    (void)command;
    (void)part;
    return 0;
}

const struct command *command_by_name(const char *name)
{
    return strcmp(name, "record") ? NULL : &command_record;
}

const char *nearest_command(const char *name)
{
    (void)name;
    return NULL;
}
