// SPDX-License-Identifier: MIT

#include "cmd/options.h"
#include "base/nearest.h"
#include "cmd/terminal.h"
#include <getopt.h>
#include <stdio.h>
#include <string.h>

enum { OPTION_COLOR = 1 << 16, OPTION_WIDTH, OPTION_NO_PAGER, MOST_OPTIONS = 96 };

// Whom a message is about, for "%s%s".
#define OF(command) (command)->name, *(command)->name ? ": " : ""

static const struct option_row printing_rows[] = {
    {OPTION_COLOR, "color", "auto|always|never"},
    {OPTION_WIDTH, "width", "N"},
    {OPTION_NO_PAGER, "no-pager", NULL},
    {0, NULL, NULL},
};

static const struct option_row help_rows[] = {{'h', "help", NULL}, {0, NULL, NULL}};

// All rows of a command; ends with NULL.
static void list_rows(const struct command *command, const struct option_row **list)
{
    const struct option_row *const tables[] = {command->options,
                                               command->prints ? printing_rows : NULL, help_rows};
    unsigned count = 0;
    for (unsigned i = 0; i < sizeof tables / sizeof *tables; i++)
        for (const struct option_row *row = tables[i]; row && row->name && count < MOST_OPTIONS - 1;
             row++)
            list[count++] = row;
    list[count] = NULL;
}

static int kind_of_argument(const struct option_row *row)
{
    return !row->argument            ? no_argument
           : row->argument[0] == '[' ? optional_argument
                                     : required_argument;
}

// What getopt_long() wants to know of them.
static int scan_next(const struct option_scan *scan)
{
    const struct option_row *rows[MOST_OPTIONS];
    struct option longs[MOST_OPTIONS];
    // "+": the first word that is no option ends them; ":": we complain ourselves.
    char shorts[3 * MOST_OPTIONS] = "+:", *to = shorts + 2;
    if (!scan->command->ends_at_word)
        strcpy(shorts, ":"), to--;
    list_rows(scan->command, rows);
    unsigned count = 0;
    for (; rows[count]; count++) {
        const struct option_row *row = rows[count];
        longs[count] = (struct option){row->name, kind_of_argument(row), NULL, row->value};
        if (row->value >= 256)
            continue;
        *to++ = (char)row->value;
        if (row->argument)
            *to++ = ':';
    }
    *to = '\0';
    longs[count] = (struct option){0};
    return getopt_long(scan->argc, scan->argv, shorts, longs, NULL);
}

static const char *nearest_option(const struct command *command, const char *word)
{
    const struct option_row *rows[MOST_OPTIONS];
    const char *names[MOST_OPTIONS];
    unsigned count = 0;
    list_rows(command, rows);
    for (; rows[count]; count++)
        names[count] = rows[count]->name;
    names[count] = NULL;
    char name[64] = "";
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
    return nearest_word(name, names);
}

static int unknown_long(const struct command *command, const char *word)
{
    const char *near = nearest_option(command, word + 2);
    if (near)
        return misuse(command, "%s%sthere is no option %s: did you mean --%s?", OF(command), word,
                      near);
    return misuse(command, "%s%sthere is no option %s", OF(command), word);
}

// What getopt_long() returned '?' or ':' for.
static int misuse_of_option(const struct command *command, int result, char **argv)
{
    const char *word = argv[optind - 1];
    bool is_long = !strncmp(word, "--", 2) && (result == ':' || !optopt || strchr(word, '='));
    // A short option may stand in a cluster that getopt is not through with: name the letter alone.
    if (!is_long && result == ':')
        return misuse(command, "%s%soption -%c needs a value", OF(command), optopt);
    if (!is_long)
        return misuse(command, "%s%sthere is no option -%c", OF(command), optopt);
    if (result == ':')
        return misuse(command, "%s%soption %s needs a value", OF(command), word);
    if (optopt)
        return misuse(command, "%s%soption %s takes no value", OF(command), word);
    return unknown_long(command, word);
}

// An option that commands have in common. PROCEED if it was none or if all is well.
static int take_common(const struct command *command, int option, const char *argument)
{
    switch (option) {
    case 'h':
        return print_command_help(command);
    case OPTION_COLOR:
        if (terminal_set_color(argument))
            return misuse(command, "%s%s--color takes auto, always or never, not '%s'", OF(command),
                          argument);
        return PROCEED;
    case OPTION_WIDTH:
        if (terminal_set_width(argument))
            return misuse(command,
                          "%s%s--width takes %d to %d columns, or 0 for no limit, not '%s'",
                          OF(command), TEXT_NARROWEST, TEXT_WIDEST, argument);
        return PROCEED;
    case OPTION_NO_PAGER:
        terminal_set_no_pager();
        return PROCEED;
    }
    return PROCEED;
}

int option_next(struct option_scan *scan)
{
    if (!scan->begun) {
        opterr = 0;
        optind = 0; // glibc: begin anew, whatever an earlier scan left
        scan->begun = true;
    }
    for (int option; (option = scan_next(scan)) != -1;) {
        scan->argument = optarg;
        if (option == '?' || option == ':')
            scan->status = misuse_of_option(scan->command, option, scan->argv);
        else
            scan->status = take_common(scan->command, option, optarg);
        if (scan->status != PROCEED)
            return OPTION_EXIT;
        if (option != 'h' && option < OPTION_COLOR)
            return option;
    }
    return OPTION_END;
}
