// SPDX-License-Identifier: MIT

// `cairn help [COMMAND]`

#include "cmd/cmd.h"
#include <stdio.h>
#include <string.h>

int print_command_help(const struct command *command)
{
    fputs(command->help, stdout);
    return finish_output("help");
}

static int print_overview(void)
{
    printf(
        "usage: cairn COMMAND [OPTION...] [ARG...]\n"
        "\n"
        "cairn tells which paths of calls cost time in a program, without changing the program.\n"
        "\n"
        "    cairn record -- ./program    runs it, and writes cairn.out\n"
        "    cairn report                 shows where the time went\n"
        "\n"
        "commands:\n");
    for (size_t i = 0; all_commands[i]; i++)
        printf("    %-10s %s\n", all_commands[i]->name, all_commands[i]->summary);
    printf("\n"
           "'cairn help COMMAND' tells more of one; 'cairn --version' tells the version.\n");
    return finish_output("help");
}

static int run_help(int argc, char **argv)
{
    if (argc < 2)
        return print_overview();
    if (argc > 2)
        return misuse(&command_help, "help: one command at a time");
    const char *names[32] = {NULL};
    for (size_t i = 0; all_commands[i]; i++) {
        if (!strcmp(argv[1], all_commands[i]->name))
            return print_command_help(all_commands[i]);
        names[i] = all_commands[i]->name;
    }
    const char *near = nearest_word(argv[1], names);
    if (near)
        complain("help: there is no command '%s': did you mean '%s'?", argv[1], near);
    else
        complain("help: there is no command '%s': 'cairn help' lists them", argv[1]);
    return STATUS_MISUSE;
}

const struct command command_help = {
    .name = "help",
    .summary = "tell more of a command",
    .help = "usage: cairn help [COMMAND]\n"
            "\n"
            "Lists the commands, or tells all of one.\n",
    .run = run_help,
};
