// SPDX-License-Identifier: MIT

// How the tool speaks of what went wrong: one line on stderr that says what, on what, and what to
// do.

#include "base/text.h"
#include "cmd/cmd.h"
#include "cmd/terminal.h"
#include <errno.h>
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
        fprintf(stderr, "cairn: %s (see 'cairn help%s%s')\n", text_safe(text), *command ? " " : "",
                command);
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

int misuse_of_file(char *error)
{
    complain("%s", error);
    free(error);
    return STATUS_MISUSE;
}

int finish_output(const char *name)
{
    errno = EIO; // an earlier write failed, and nobody knows why, if the last one does not
    const int error = fflush(stdout) || ferror(stdout) ? errno : 0;
    const int paged = terminal_end_pager();
    if (error)
        complain("%s%scannot write to stdout: %s", name ? name : "", name ? ": " : "",
                 strerror(error));
    return error || paged < 0 ? STATUS_FAILED : 0;
}
