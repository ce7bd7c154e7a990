// SPDX-License-Identifier: MIT

// `cairn help [COMMAND]`

#include "base/nearest.h"
#include "cmd/options.h"
#include "cmd/terminal.h"
#include <getopt.h>
#include <stdio.h>
#include <string.h>

static int print_overview(void)
{
    terminal_use_pager();
    printf("usage: cairn COMMAND [OPTION...] [ARG...]\n"
           "\n"
           "cairn tells which paths of calls cost time in a program, without changing it.\n"
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

int print_command_help(const struct command *command)
{
    if (!*command->name)
        return print_overview();
    terminal_use_pager();
    fputs(command->help, stdout);
    return finish_output("help");
}

static int run_help(int argc, char **argv)
{
    struct option_scan scan = option_scan(&command_help, argc, argv);
    if (option_next(&scan) == OPTION_EXIT)
        return scan.status;
    if (optind == argc)
        return print_overview();
    if (argc - optind > 1)
        return misuse(&command_help, "help: one command at a time");
    const char *wanted = argv[optind];
    const char *names[32] = {NULL};
    for (size_t i = 0; all_commands[i]; i++) {
        if (!strcmp(wanted, all_commands[i]->name))
            return print_command_help(all_commands[i]);
        names[i] = all_commands[i]->name;
    }
    const char *near = nearest_word(wanted, names);
    if (near)
        complain("help: there is no command '%s': did you mean '%s'?", wanted, near);
    else
        complain("help: there is no command '%s': 'cairn help' lists them", wanted);
    return STATUS_MISUSE;
}

const struct command command_help = {
    .name = "help",
    .summary = "tell more of a command",
    .help = "usage: cairn help [COMMAND]\n"
            "\n"
            "Lists the commands, or tells all of one.\n",
    .prints = true,
    .run = run_help,
};
