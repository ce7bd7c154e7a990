// SPDX-License-Identifier: MIT

// How the tool speaks of what went wrong: one line on stderr that says what, on what, and what to
// do.

#include "base/text.h"
#include "cmd/cmd.h"
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// One write: what a program that is still running says must not get between.
static void complain_list(const char *format, va_list arguments, const char *command)
{
    char *text = NULL;
    if (vasprintf(&text, format, arguments) < 0)
        return;
    if (command)
        fprintf(stderr, "cairn: %s (see 'cairn help %s')\n", text_safe(text), command);
    else
        fprintf(stderr, "cairn: %s\n", text_safe(text));
    free(text);
}

void complain(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    complain_list(format, arguments, NULL);
    va_end(arguments);
}

int misuse(const struct command *command, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    complain_list(format, arguments, command->name);
    va_end(arguments);
    return STATUS_MISUSE;
}

int misuse_of_option(const struct command *command, int result, char **argv)
{
    const char *word = argv[optind - 1];
    bool is_long = !strncmp(word, "--", 2) && (result == ':' || !optopt || strchr(word, '='));
    // A short option may stand in a cluster that getopt is not through with: name the letter alone.
    if (!is_long && result == ':')
        return misuse(command, "%s: option -%c needs a value", command->name, optopt);
    if (!is_long)
        return misuse(command, "%s: there is no option -%c", command->name, optopt);
    if (result == ':')
        return misuse(command, "%s: option %s needs a value", command->name, word);
    if (optopt)
        return misuse(command, "%s: option %s takes no value", command->name, word);
    return misuse(command, "%s: there is no option %s", command->name, word);
}

int misuse_of_file(char *error)
{
    complain("%s", error);
    free(error);
    return STATUS_MISUSE;
}

int finish_output(const char *name)
{
    errno = EIO; // an earlier write failed, and nobody knows why, if the last one does not
    if (fflush(stdout) == 0 && !ferror(stdout))
        return 0;
    complain("%s%scannot write to stdout: %s", name ? name : "", name ? ": " : "", strerror(errno));
    return STATUS_FAILED;
}

// Edits (insertions, deletions, replacements) between two short words.
static unsigned distance(const char *a, const char *b)
{
    enum { LONGEST = 31 };
    unsigned row[LONGEST + 1];
    size_t columns = strlen(b);
    if (strlen(a) > LONGEST || columns > LONGEST)
        return LONGEST;
    for (unsigned j = 0; j <= columns; j++)
        row[j] = j;
    for (unsigned i = 1; a[i - 1]; i++) {
        unsigned diagonal = row[0];
        row[0] = i;
        for (unsigned j = 1; j <= columns; j++) {
            unsigned best = diagonal + (a[i - 1] != b[j - 1]);
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[columns];
}

const char *nearest_word(const char *word, const char *const *words)
{
    const char *nearest = NULL;
    unsigned smallest = 3; // further away is no typing error
    for (; *words; words++) {
        unsigned edits = distance(word, *words);
        // "rep" is three edits from "report", and yet clear.
        if (strlen(word) >= 3 && !strncmp(word, *words, strlen(word)))
            edits = 1;
        if (edits < smallest && edits < strlen(word)) {
            smallest = edits;
            nearest = *words;
        }
    }
    return nearest;
}
