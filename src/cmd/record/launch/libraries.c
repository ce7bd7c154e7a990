// SPDX-License-Identifier: MIT

#include "cmd/record/launch/libraries.h"
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static FILE *list_libraries(const char *loader, const char *path, pid_t *pid)
{
    int ends[2];
    posix_spawn_file_actions_t actions;
    if (pipe2(ends, O_CLOEXEC))
        return NULL;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    char *words[] = {(char *)loader, "--list", (char *)path, NULL};
    int error = posix_spawn(pid, loader, &actions, NULL, words, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    FILE *list = error ? NULL : fdopen(ends[0], "r");
    if (!list)
        close(ends[0]);
    return list;
}

// The path in a line as "libm.so.6 => /lib/libm.so.6 (0x00007f…)" or "/lib/ld.so (0x…)"; NULL.
static char *library_in(char *line)
{
    char *end = strrchr(line, '(');
    char *path = strstr(line, "=> ");
    path = path ? path + 3 : line + strspn(line, " \t");
    if (!end || end <= path || *path != '/')
        return NULL;
    while (end > path && end[-1] == ' ')
        end--;
    *end = 0;
    return path;
}

void each_library(const char *loader, const char *path, library_visitor *visit, void *context)
{
    pid_t pid;
    FILE *list = list_libraries(loader, path, &pid);
    if (!list)
        return;
    char *line = NULL;
    size_t capacity = 0;
    bool wanted = true;
    while (getline(&line, &capacity, list) > 0) {
        char *library = wanted ? library_in(line) : NULL;
        wanted = !library || visit(context, library);
    }
    free(line);
    fclose(list);
    waitpid(pid, NULL, 0);
}
