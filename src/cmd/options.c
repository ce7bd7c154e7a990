// SPDX-License-Identifier: MIT

#include "cmd/options.h"
#include "base/text/nearest.h"
#include "base/text/wrap.h"
#include "cmd/other_profilers.h"
#include "cmd/terminal.h"
#include "profile/profile.h"
#include <getopt.h>
#include <stdio.h>
#include <string.h>

enum {
    OPTION_COLOR = 1 << 16,
    OPTION_WIDTH,
    OPTION_NO_PAGER,
    OPTION_HELP,
    MOST_OPTIONS = 96,
    HELP_COLUMN = 26, // where the help of an option begins
};

// The command that a message is about, for "%s%s".
#define OF(command) (command)->name, *(command)->name ? ": " : ""

static const struct option_row printing_rows[] = {
    OPTION_TITLE("Terminal"),
    {OPTION_COLOR, "color", "auto|always|never",
     "Use colors: on a terminal (default), always, or never. NO_COLOR and CLICOLOR_FORCE in the "
     "environment do the same."},
    {OPTION_WIDTH, "width", "N",
     "Fit lines into N columns, 0 for no limit. Default: COLUMNS, or the terminal's width, or no "
     "limit in a pipe."},
    {OPTION_NO_PAGER, "no-pager", NULL,
     "Do not start a pager. On a terminal, output goes through $CAIRN_PAGER, $PAGER or less."},
    OPTION_TABLE_END,
};

static const struct option_row help_rows[] = {{OPTION_HELP, "help", NULL, "Show this help."},
                                              OPTION_TABLE_END};

static bool is_end(const struct option_row *row)
{
    return !row->name && !row->help;
}

// The tables of a command's options; ends with NULL.
enum { MOST_TABLES = 4 };

static void list_tables(const struct command *command, const struct option_row **tables)
{
    unsigned count = 0;
    if (command->options)
        tables[count++] = command->options;
    if (command->prints)
        tables[count++] = printing_rows;
    tables[count++] = help_rows;
    tables[count] = NULL;
}

// All options of a command; ends with NULL.
static void list_options(const struct command *command, const struct option_row **list)
{
    const struct option_row *tables[MOST_TABLES];
    unsigned count = 0;
    list_tables(command, tables);
    for (unsigned i = 0; tables[i]; i++)
        for (const struct option_row *row = tables[i]; !is_end(row); row++)
            if (row->name && count < MOST_OPTIONS - 1)
                list[count++] = row;
    list[count] = NULL;
}

static int kind_of_argument(const struct option_row *row)
{
    if (!row->argument)
        return no_argument;
    return row->argument[0] == '[' ? optional_argument : required_argument;
}

static int scan_next(const struct option_scan *scan)
{
    const struct option_row *options[MOST_OPTIONS];
    struct option longs[MOST_OPTIONS];
    char shorts[3 * MOST_OPTIONS] = "", *to = shorts;
    if (scan->command->ends_at_word)
        *to++ = '+'; // as getopt() knows that
    *to++ = ':';     // we complain ourselves
    *to++ = 'h';
    list_options(scan->command, options);
    unsigned count = 0;
    for (; options[count]; count++) {
        const struct option_row *row = options[count];
        longs[count] = (struct option){row->name, kind_of_argument(row), NULL, row->value};
        if (row->value >= 256)
            continue;
        *to++ = (char)row->value;
        if (row->argument)
            *to++ = ':';
    }
    longs[count] = (struct option){0};
    return getopt_long(scan->argc, scan->argv, shorts, longs, NULL);
}

static const char *nearest_option(const struct command *command, const char *name)
{
    const struct option_row *options[MOST_OPTIONS];
    const char *names[MOST_OPTIONS];
    unsigned count = 0;
    list_options(command, options);
    for (unsigned i = 0; options[i]; i++)
        if (options[i]->help)
            names[count++] = options[i]->name;
    names[count] = NULL;
    return nearest_word(name, names);
}

// `word` as it was typed, with its dashes; `name` without them and without a value.
static int unknown_option(const struct command *command, const char *word)
{
    char name[64] = "";
    const char *bare = word + strspn(word, "-");
    snprintf(name, sizeof name, "%.*s", (int)strcspn(bare, "="), bare);
    const int shown = (int)strcspn(word, "=");
    const char *instead = instead_of_option(command->name, name);
    const char *near = strlen(name) > 1 ? nearest_option(command, name) : NULL;
    if (instead)
        complain("%s%sthere is no option %.*s: %s", OF(command), shown, word, instead);
    else if (near)
        complain("%s%sthere is no option %.*s: did you mean --%s?", OF(command), shown, word, near);
    if (instead || near)
        return STATUS_MISUSE;
    return misuse(command, "%s%sthere is no option %.*s", OF(command), shown, word);
}

// A letter that is no option. Other tools have long options with one dash: then it is the first
// letter of a word, or getopt() is in the midst of it.
static int unknown_letter(const struct command *command, char **argv)
{
    char letter[] = {'-', (char)optopt, 0};
    for (int i = optind; i >= optind - 1; i--)
        if (argv[i] && argv[i][0] == '-' && argv[i][1] != '-' && strlen(argv[i]) > 2 &&
            strchr(argv[i], optopt) &&
            (instead_of_option(command->name, argv[i] + 1) || nearest_option(command, argv[i] + 1)))
            return unknown_option(command, argv[i]);
    return unknown_option(command, letter);
}

// Complains about the option for which getopt_long() returned '?' or ':'.
static int misuse_of_option(const struct command *command, int result, char **argv)
{
    const char *word = argv[optind - 1];
    bool is_long = !strncmp(word, "--", 2) && (result == ':' || !optopt || strchr(word, '='));
    // A short option may stand in a cluster that getopt is not through with: name the letter alone.
    if (!is_long && result == ':')
        return misuse(command, "%s%soption -%c needs a value", OF(command), optopt);
    if (!is_long)
        return unknown_letter(command, argv);
    if (result == ':')
        return misuse(command, "%s%soption %s needs a value", OF(command), word);
    if (optopt)
        return misuse(command, "%s%soption %.*s takes no value", OF(command),
                      (int)strcspn(word, "="), word);
    return unknown_option(command, word);
}

// An option that commands have in common. PROCEED if it was none or if all is well.
static int take_common(const struct command *command, int option, const char *argument)
{
    static const char *const colors[] = {"auto", "always", "never", NULL};
    int choice;
    switch (option) {
    case 'h':
        return print_command_help(command, HELP_EVERYDAY);
    case OPTION_HELP:
        return print_command_help(command, HELP_ALL);
    case OPTION_COLOR:
        choice = option_choice(command, "--color", argument, colors);
        if (choice < 0)
            return STATUS_MISUSE;
        terminal_set_color((enum terminal_color)choice);
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
        if (option < OPTION_COLOR)
            return option;
    }
    return OPTION_END;
}

int option_choice(const struct command *command, const char *option, const char *value,
                  const char *const *words)
{
    char list[160] = "";
    for (int i = 0; words[i]; i++) {
        if (!strcmp(value, words[i]))
            return i;
        strncat(list, i == 0 ? "" : words[i + 1] ? ", " : " or ", sizeof list - strlen(list) - 1);
        strncat(list, words[i], sizeof list - strlen(list) - 1);
    }
    const char *near = nearest_word(value, words);
    misuse(command, "%s%s%s takes %s, not '%s'%s%s%s", OF(command), option, list, value,
           near ? ": did you mean '" : "", near ? near : "", near ? "'?" : "");
    return -1;
}

int take_profile(const struct command *command, int argc, char **argv, const char **path)
{
    const int more = optind + (*path == NULL);
    if (more < argc)
        return misuse(command, "%s%sone profile at a time, not '%s' as well", OF(command),
                      argv[more]);
    if (!*path)
        *path = optind < argc ? argv[optind] : DEFAULT_PROFILE;
    return PROCEED;
}

static void print_option(const struct option_row *row, const struct text_style *style)
{
    char left[128];
    const bool letter = row->value < 256 || row->value == OPTION_HELP;
    snprintf(left, sizeof left, "  %c%c%c --%s%s%s", letter ? '-' : ' ',
             !letter                     ? ' '
             : row->value == OPTION_HELP ? 'h'
                                         : row->value,
             letter ? ',' : ' ', row->name, row->argument && row->argument[0] != '[' ? " " : "",
             row->argument ? row->argument : "");
    if (strlen(left) + 2 > HELP_COLUMN)
        printf("%s\n%*s", left, HELP_COLUMN, "");
    else
        printf("%-*s", HELP_COLUMN, left);
    wrap_print(stdout, style, TEXT_PLAIN, row->help, HELP_COLUMN);
}

static void print_title(const char *title, const struct text_style *style)
{
    putchar('\n');
    text_put(stdout, style, TEXT_BOLD, title);
    puts(":");
}

void options_print(const struct command *command, enum help_part part)
{
    const struct option_row *tables[MOST_TABLES];
    struct text_style style = terminal_style();
    if (style.width == 0 || style.width > 100)
        style.width = style.width ? 100 : WRAP_USUAL_WIDTH;
    list_tables(command, tables);
    if (tables[0]->name)
        print_title("Options", &style);
    bool advanced = false;
    for (unsigned i = 0; tables[i]; i++)
        for (const struct option_row *row = tables[i]; !is_end(row); row++) {
            if (!row->name && row->value)
                advanced = true;
            if (advanced && tables[i] == command->options && part == HELP_EVERYDAY)
                break;
            if (!row->name)
                print_title(row->help, &style);
            else if (row->help)
                print_option(row, &style);
        }
    if (part == HELP_EVERYDAY && (advanced || command->notes))
        printf("\nRun 'cairn help %s' for %s.\n", command->name,
               advanced ? "the advanced options, too" : "more");
}
