// SPDX-License-Identifier: MIT

// How the tool speaks of what went wrong: one line on stderr that says what, on what, and what to
// do.

#include "base/text/text.h"
#include "base/text/wrap.h"
#include "cmd/line/command.h"
#include "cmd/line/terminal.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// One write: output of a running program must not get between. A file or pipe has the line whole.
static void put_line(const char *line)
{
    struct text_style style = text_style(stderr);
    char *text = NULL;
    size_t bytes;
    if (!isatty(STDERR_FILENO))
        style.width = 0;
    style.colour = false;
    FILE *buffer = open_memstream(&text, &bytes);
    if (!buffer)
        return;
    wrap_lines(buffer, &style, TEXT_PLAIN, line);
    if (fclose(buffer) == 0)
        fputs(text, stderr);
    free(text);
}

static const char *place = "";
static struct {
    const char *path, *names;
} mentioned;

void complain_at(const char *begin)
{
    place = begin;
}

void misuse_mentions(const char *path, const char *names)
{
    mentioned.path = path;
    mentioned.names = names;
}

// Where the help of a command is, and what else it may come from.
static char *advice(const char *command)
{
    char *text = NULL;
    const int made = mentioned.path
                         ? asprintf(&text, " (see 'cairn help%s%s'; %s sets %s)",
                                    *command ? " " : "", command, mentioned.path, mentioned.names)
                         : asprintf(&text, " (see 'cairn help%s%s')", *command ? " " : "", command);
    return made < 0 ? NULL : text;
}

static void complain_list(const char *format, va_list arguments, const char *command)
{
    char *text = NULL, *line = NULL, *more = command ? advice(command) : NULL;
    if (vasprintf(&text, format, arguments) >= 0 &&
        asprintf(&line, "%s%s%s", place, text, more ? more : "") >= 0) {
        char *whole = NULL;
        if (asprintf(&whole, "cairn: %s", text_safe(line)) >= 0)
            put_line(whole);
        free(whole);
    }
    free(more);
    free(line);
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
    errno = EIO; // an earlier write failed, for an unknown reason, if the last one did not
    const int error = fflush(stdout) || ferror(stdout) ? errno : 0;
    const int paged = terminal_end_pager();
    if (error)
        complain("%s%scannot write to stdout: %s", name ? name : "", name ? ": " : "",
                 strerror(error));
    return error || paged < 0 ? STATUS_FAILED : 0;
}
