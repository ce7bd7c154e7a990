// SPDX-License-Identifier: MIT

// `cairn help [COMMAND]`

#include "base/text/nearest.h"
#include "cmd/line/options.h"
#include "cmd/line/other_profilers.h"
#include "cmd/line/terminal.h"
#include <getopt.h>
#include <stdio.h>
#include <string.h>

enum { MOST_COMMANDS = 32 };

static const struct {
    const char *title;
    const char *commands[8];
} groups[] = {
    {"Record a program", {"record", "cc"}},
    {"See where the cost went", {"report", "annotate", "view", "top", "info"}},
    {"Work with profiles", {"export", "import", "merge", "compare", "decode"}},
    {"Compare two versions", {"diff", "gate"}},
    {"Find out what works here", {"doctor", "list", "help"}},
};

const struct command *command_by_name(const char *name)
{
    static const struct command overview = {.name = "", .prints = true};
    if (!*name)
        return &overview;
    for (size_t i = 0; all_commands[i]; i++)
        if (!strcmp(name, all_commands[i]->name))
            return all_commands[i];
    return NULL;
}

const char *nearest_command(const char *name)
{
    const char *names[MOST_COMMANDS] = {NULL};
    for (size_t i = 0; i < MOST_COMMANDS - 1 && all_commands[i]; i++)
        names[i] = all_commands[i]->name;
    return nearest_word(name, names);
}

static void print_summary(const struct command *command)
{
    printf("  %-9s %s\n", command->name, command->summary);
}

static bool is_in_group(const struct command *command)
{
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        for (const char *const *name = groups[i].commands; *name; name++)
            if (!strcmp(*name, command->name))
                return true;
    return false;
}

static void print_overview(void)
{
    printf("usage: cairn COMMAND [OPTION...] [ARG...]\n"
           "\n"
           "cairn shows which call paths of a program cost time or memory, without\n"
           "rebuilding the program.\n"
           "\n"
           "    cairn record ./program               run it, and write cairn.out\n"
           "    cairn report                         where did the time go?\n"
           "    cairn view                           the same as a flame graph, in a browser\n"
           "    cairn report --view callers --focus NAME      who called this function?\n"
           "    cairn report --by line               which lines?\n"
           "    cairn record -e wall ./program       what does it wait for?\n"
           "    cairn record -e alloc ./program      who allocates the memory?\n");
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        printf("\n%s:\n", groups[i].title);
        for (const char *const *name = groups[i].commands; *name; name++)
            if (command_by_name(*name))
                print_summary(command_by_name(*name));
    }
    bool first = true;
    for (size_t i = 0; all_commands[i]; i++)
        if (!is_in_group(all_commands[i])) {
            printf("%s", first ? "\nMore:\n" : "");
            first = false;
            print_summary(all_commands[i]);
        }
    printf("\nRun 'cairn help COMMAND' for details.\n");
}

int print_command_help(const struct command *command, enum help_part part)
{
    terminal_use_pager();
    if (!*command->name) {
        print_overview();
    } else {
        printf("usage: cairn %s %s\n\n%s", command->name, command->usage, command->help);
        options_print(command, part);
        if (command->notes && part == HELP_ALL)
            fputs(command->notes, stdout);
    }
    return finish_output("help");
}

static int run_help(int argc, char **argv)
{
    struct option_scan scan = option_scan(&command_help, argc, argv);
    if (option_next(&scan) == OPTION_EXIT)
        return scan.status;
    if (argc - optind > 1)
        return misuse(&command_help, "help: name one command, not '%s' as well", argv[optind + 1]);
    const char *name = optind < argc ? argv[optind] : "";
    const struct command *command = command_by_name(name);
    if (command)
        return print_command_help(command, HELP_ALL);
    const char *instead = instead_of_command(name), *near = nearest_command(name);
    if (instead)
        complain("help: there is no command '%s': %s", name, instead);
    else if (near)
        complain("help: there is no command '%s': did you mean '%s'?", name, near);
    else
        complain("help: there is no command '%s': run 'cairn help' for a list", name);
    return STATUS_MISUSE;
}

const struct command command_help = {
    .name = "help",
    .summary = "explain a command and its options",
    .usage = "[COMMAND]",
    .help = "Lists the commands, or explains one.\n",
    .prints = true,
    .run = run_help,
};
