// SPDX-License-Identifier: MIT
#include "cmd/line/option_rows.h"
#include "base/text/nearest.h"
#include "base/text/wrap.h"
#include "cmd/line/terminal.h"
#include <stdio.h>
#include <string.h>

enum { HELP_COLUMN = 26 }; // where the help of an option begins

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

static const struct option_row help_rows[] = {
    {OPTION_NO_CONFIG, "no-config", NULL, "Take no defaults from the configuration file."},
    {OPTION_HELP, "help", NULL, "Show this help."},
    OPTION_TABLE_END,
};

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
void option_list(const struct command *command, const struct option_row *list[OPTION_MOST])
{
    const struct option_row *tables[MOST_TABLES];
    unsigned count = 0;
    list_tables(command, tables);
    for (unsigned i = 0; tables[i]; i++)
        for (const struct option_row *row = tables[i]; !is_end(row); row++)
            if (row->name && count < OPTION_MOST - 1)
                list[count++] = row;
    list[count] = NULL;
}

const char *option_nearest(const struct command *command, const char *name)
{
    const struct option_row *options[OPTION_MOST];
    const char *names[OPTION_MOST];
    unsigned count = 0;
    option_list(command, options);
    for (unsigned i = 0; options[i]; i++)
        if (options[i]->help)
            names[count++] = options[i]->name;
    names[count] = NULL;
    return nearest_word(name, names);
}

const struct option_row *option_of(const struct command *command, const char *name)
{
    const struct option_row *options[OPTION_MOST];
    option_list(command, options);
    for (unsigned i = 0; options[i]; i++)
        if (options[i]->help && options[i]->value != OPTION_HELP &&
            options[i]->value != OPTION_NO_CONFIG && !strcmp(options[i]->name, name))
            return options[i];
    return NULL;
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
