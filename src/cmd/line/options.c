// SPDX-License-Identifier: MIT

#include "cmd/line/options.h"
#include "base/memory.h"
#include "base/text/nearest.h"
#include "cmd/line/defaults.h"
#include "cmd/line/other_profilers.h"
#include "cmd/line/terminal.h"
#include "profile/profile.h"
#include <getopt.h>
#include <stdio.h>
#include <string.h>

// The command that a message is about, for "%s%s".
#define OF(command) (command)->name, *(command)->name ? ": " : ""

static int kind_of_argument(const struct option_row *row)
{
    if (!row->argument)
        return no_argument;
    return row->argument[0] == '[' ? optional_argument : required_argument;
}

static int scan_next(const struct option_scan *scan)
{
    const struct option_row *options[OPTION_MOST];
    struct option longs[OPTION_MOST];
    char shorts[3 * OPTION_MOST] = "", *to = shorts;
    if (scan->command->ends_at_word)
        *to++ = '+'; // as getopt() knows that
    *to++ = ':';     // we complain ourselves
    *to++ = 'h';
    option_list(scan->command, options);
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

// `word` as it was typed, with its dashes; `name` without them and without a value.
static int unknown_option(const struct command *command, const char *word)
{
    char name[64] = "";
    const char *bare = word + strspn(word, "-");
    snprintf(name, sizeof name, "%.*s", (int)strcspn(bare, "="), bare);
    const int shown = (int)strcspn(word, "=");
    const char *instead = instead_of_option(command->name, name);
    const char *near = strlen(name) > 1 ? option_nearest(command, name) : NULL;
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
            (instead_of_option(command->name, argv[i] + 1) || option_nearest(command, argv[i] + 1)))
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

static void begin_words(void)
{
    opterr = 0;
    optind = 0; // glibc: begin anew, whatever an earlier scan left
}

// Options that were given before the name of the command are given for all scans that follow.
static int given_before[OPTION_MOST];
static unsigned given_before_count;

static bool is_given(const struct option_scan *scan, int value)
{
    for (unsigned i = 0; i < scan->given_count; i++)
        if (scan->given[i] == value)
            return true;
    for (unsigned i = 0; i < given_before_count; i++)
        if (given_before[i] == value)
            return true;
    return false;
}

// Goes over the command line once, without a word of what is wrong with it.
static void find_given(struct option_scan *scan)
{
    struct option_scan words = *scan; // getopt() moves them
    words.argv = memory_array((size_t)scan->argc + 1, sizeof *words.argv);
    memcpy(words.argv, scan->argv, (size_t)scan->argc * sizeof *words.argv);
    begin_words();
    for (int option; (option = scan_next(&words)) != -1;)
        if (!is_given(scan, option) && scan->given_count < OPTION_MOST)
            scan->given[scan->given_count++] = option;
    free(words.argv);
    if (*scan->command->name)
        return;
    memcpy(given_before, scan->given, sizeof given_before);
    given_before_count = scan->given_count;
}

// 0, or the exit status.
static int begin_scan(struct option_scan *scan)
{
    find_given(scan);
    scan->state = SCAN_WORDS;
    begin_words();
    // The help is there for those whose file is wrong, too.
    if (!*scan->command->name || is_given(scan, 'h') || is_given(scan, OPTION_HELP) ||
        is_given(scan, OPTION_NO_CONFIG))
        return 0;
    scan->state = SCAN_DEFAULTS;
    return defaults_check();
}

static bool next_default(struct option_scan *scan, int *option)
{
    struct option_default found;
    while (scan->state == SCAN_DEFAULTS) {
        if (!defaults_next(scan->command, &scan->next_default, &found)) {
            defaults_end(scan->command);
            scan->state = SCAN_WORDS;
        } else if (!is_given(scan, found.row->value)) {
            *option = found.row->value;
            optarg = found.argument;
            return true;
        }
    }
    return false;
}

// The next option, common or not; -1: there is none.
static int next_option(struct option_scan *scan)
{
    int option;
    scan->is_default = next_default(scan, &option);
    return scan->is_default ? option : scan_next(scan);
}

int option_next(struct option_scan *scan)
{
    if (scan->state == SCAN_NEW && (scan->status = begin_scan(scan)))
        return OPTION_EXIT;
    for (int option; (option = next_option(scan)) != -1;) {
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

int options_parse(const struct command *command, int argc, char **argv,
                  int (*set)(int option, const char *text, void *arguments), void *arguments)
{
    struct option_scan scan = option_scan(command, argc, argv);
    for (int option; (option = option_next(&scan)) != OPTION_END;) {
        const int status =
            option == OPTION_EXIT ? scan.status : set(option, scan.argument, arguments);
        if (option == OPTION_EXIT || status)
            return status;
    }
    return PROCEED;
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
