// SPDX-License-Identifier: MIT

// `cairn`: picks the subcommand, and answers --help and --version.

#include "cmd/cmd.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

const struct command *const all_commands[] = {
    &command_record,  &command_report, &command_info,   &command_export,
    &command_compare, &command_merge,  &command_decode, &command_cc,
    &command_list,    &command_doctor, &command_help,   NULL,
};

static int unknown_command(const char *name)
{
    const char *names[sizeof all_commands / sizeof *all_commands] = {NULL};
    for (size_t i = 0; all_commands[i]; i++)
        names[i] = all_commands[i]->name;
    const char *near = nearest_word(name, names);
    if (near)
        complain("'%s' is not a cairn command: did you mean 'cairn %s'?", name, near);
    else
        complain("'%s' is not a cairn command: 'cairn help' lists them", name);
    return STATUS_MISUSE;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        char *help[] = {"help", NULL};
        command_help.run(1, help);
        return STATUS_MISUSE;
    }
    // A tree of millions of nodes is gigabytes of JSON, and not to be written page by page.
    static char output[1 << 16];
    if (!isatty(STDOUT_FILENO))
        setvbuf(stdout, output, _IOFBF, sizeof output);
    const char *name = argv[1];
    if (!strcmp(name, "--help") || !strcmp(name, "-h"))
        name = "help";
    if (!strcmp(name, "--version") || !strcmp(name, "-V") || !strcmp(name, "version")) {
        puts("cairn " CAIRN_VERSION);
        return finish_output(NULL);
    }
    for (size_t i = 0; all_commands[i]; i++) {
        if (strcmp(name, all_commands[i]->name))
            continue;
        if (argc > 2 && (!strcmp(argv[2], "--help") || !strcmp(argv[2], "-h")))
            return print_command_help(all_commands[i]);
        return all_commands[i]->run(argc - 1, argv + 1);
    }
    return unknown_command(name);
}
