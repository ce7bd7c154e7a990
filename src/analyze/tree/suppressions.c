// SPDX-License-Identifier: MIT
#include "analyze/tree/suppressions.h"
#include "base/memory.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

// The loader runs constructors of libraries; libc those of the program itself.
#define STARTUP "^ld-(linux[^/]*|musl[^/]*)[.]so|^(call_init|_dl_init|__libc_csu_init)$"

// As an expression: * is any text, all but ^ in front and $ at the end stands for itself.
static void put_expression(FILE *out, const char *pattern)
{
    for (const char *at = pattern; *at; at++) {
        const bool anchor = (*at == '^' && at == pattern) || (*at == '$' && !at[1]);
        if (*at == '*')
            fputs(".*", out);
        else if (strchr(".[]{}()+?|\\^$", *at) && !anchor)
            fprintf(out, "\\%c", *at);
        else
            fputc(*at, out);
    }
}

static char *trimmed(char *line)
{
    line += strspn(line, " \t");
    size_t length = strlen(line);
    while (length && strchr(" \t\r\n", line[length - 1]))
        line[--length] = '\0';
    return line;
}

// 0 or -1 and *error. `any`: a pattern stands before it.
static int take_line(FILE *out, char *line, bool *any, char **error)
{
    static const char prefix[] = "leak:";
    const char *text = trimmed(line);
    if (*text == '#' || !*text)
        return 0;
    const char *pattern = text + sizeof prefix - 1;
    if (strncmp(text, prefix, sizeof prefix - 1) != 0 || !*pattern) {
        if (asprintf(error, "'%s' is no suppression: give leak:NAME, where * is any text", text) <
            0)
            memory_checked(NULL);
        return -1;
    }
    if (*any)
        fputc('|', out);
    *any = true;
    put_expression(out, pattern);
    return 0;
}

static int take_lines(FILE *file, FILE *out, bool *any, char **error)
{
    char *line = NULL;
    size_t capacity = 0;
    int status = 0;
    while (!status && getline(&line, &capacity, file) >= 0)
        status = take_line(out, line, any, error);
    free(line);
    return status;
}

static char *read_expression(const char *path, char **error)
{
    char *text = NULL;
    size_t bytes = 0;
    bool any = false;
    FILE *file = fopen(path, "re");
    if (!file) {
        if (asprintf(error, "%s: %s", path, strerror(errno)) < 0)
            memory_checked(NULL);
        return NULL;
    }
    FILE *out = memory_checked(open_memstream(&text, &bytes));
    const int status = take_lines(file, out, &any, error);
    fclose(file);
    fclose(out);
    memory_checked(text);
    if (status == 0 && any)
        return text;
    free(text);
    if (status == 0 && asprintf(error, "%s has no line leak:NAME", path) < 0)
        memory_checked(NULL);
    return NULL;
}

struct pattern *suppressions_read(const char *path, char **error)
{
    if (strcmp(path, "startup") == 0)
        return pattern_new_of_places(STARTUP, "the start of programs and libraries", error);
    char *expression = read_expression(path, error);
    struct pattern *pattern = expression ? pattern_new_of_places(expression, path, error) : NULL;
    free(expression);
    return pattern;
}
