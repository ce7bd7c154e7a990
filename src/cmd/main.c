// SPDX-License-Identifier: MIT

// `cairn`: picks the subcommand, and answers --help and --version.

#include "cmd/line/options.h"
#include "cmd/line/other_profilers.h"
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

const struct command *const all_commands[] = {
    &command_record, &command_report, &command_annotate,
    &command_view,   &command_top,    &command_info,
    &command_export, &command_import, &command_compare,
    &command_diff,   &command_gate,   &command_merge,
    &command_decode, &command_cc,     &command_list,
    &command_doctor, &command_help,   NULL,
};

static int unknown_command(const char *name)
{
    const char *instead = instead_of_command(name), *near = nearest_command(name);
    if (instead)
        complain("'%s' is not a cairn command: %s", name, instead);
    else if (near)
        complain("'%s' is not a cairn command: did you mean 'cairn %s'?", name, near);
    else
        complain("'%s' is not a cairn command: run 'cairn help' for a list", name);
    return STATUS_MISUSE;
}

// Before the name of a command.
static const struct option_row rows[] = {
    OPTION_TITLE("Options"),
    {'V', "version", NULL, "Print the version, and what cairn was built with."},
    OPTION_TABLE_END};

static const struct command command_cairn = {
    .name = "",
    .options = rows,
    .prints = true,
    .ends_at_word = true,
};

static int run_help(void)
{
    char *help[] = {"help", NULL};
    return command_help.run(1, help);
}

int main(int argc, char **argv)
{
    // A tree of millions of nodes is gigabytes of JSON, and not to be written page by page.
    static char output[1 << 16];
    if (!isatty(STDOUT_FILENO))
        setvbuf(stdout, output, _IOFBF, sizeof output);
    struct option_scan scan = option_scan(&command_cairn, argc, argv);
    for (int option; (option = option_next(&scan)) != OPTION_END;)
        return option == OPTION_EXIT ? scan.status : print_version();
    argc -= optind;
    argv += optind;
    if (argc == 0) {
        run_help();
        return STATUS_MISUSE;
    }
    if (!strcmp(argv[0], "version"))
        return print_version();
    const struct command *command = *argv[0] ? command_by_name(argv[0]) : NULL;
    return command ? command->run(argc, argv) : unknown_command(argv[0]);
}
