// SPDX-License-Identifier: MIT

// Checks of a program: its language, and the names of it and its libraries.

#include "base/system/program.h"
#include "base/memory.h"
#include "base/text/text.h"
#include "cmd/doctor/check.h"
#include "cmd/doctor/names.h"
#include "cmd/record/launch/launch.h"
#include "cmd/record/launch/libraries.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct library_list {
    char **paths;
    size_t count, capacity;
};

static bool add_library(void *context, const char *path)
{
    struct library_list *libraries = context;
    libraries->paths = memory_grown(libraries->paths, &libraries->capacity, libraries->count + 1,
                                    sizeof *libraries->paths);
    libraries->paths[libraries->count++] = memory_checked(strdup(path));
    return true;
}

#define NO_NAMES "an interpreter: its own C functions are shown, not those of the script"

// Programs that run others' text, and what makes them name the functions in it. Versions may
// follow: python3.11, lua5.4.
static const struct language {
    const char *name, *finding, *remedy;
} languages[] = {
    {"node", "JavaScript functions have names if node writes a perf map",
     "cairn record -- node --perf-basic-prof SCRIPT"},
    {"nodejs", "JavaScript functions have names if node writes a perf map",
     "cairn record -- nodejs --perf-basic-prof SCRIPT"},
    {"java", "methods of OpenJDK 17 have names and lines; others need a perf map",
     "cairn record -- java -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit "
     "-XX:+PreserveFramePointer PROGRAM"},
    {"python", "Python 3.11 and 3.12 have functions and lines; later ones need -X perf",
     "cairn record -- python3 -X perf SCRIPT"},
    {"perl", NO_NAMES, NULL},
    {"ruby", NO_NAMES, NULL},
    {"php", NO_NAMES, NULL},
    {"lua", NO_NAMES, NULL},
    {"luajit", NO_NAMES, NULL},
    {"guile", NO_NAMES, NULL},
};

static void check_language(struct checks *checks, const char *path)
{
    const char *name = last_part(path);
    for (size_t i = 0; i < sizeof languages / sizeof *languages; i++) {
        const struct language *language = &languages[i];
        const size_t length = strlen(language->name);
        if (strncmp(name, language->name, length) ||
            name[length + strspn(name + length, "0123456789.-")])
            continue;
        struct check *check =
            checks_add(checks, "language", CHECK_LIMITED, "%s", language->finding);
        if (language->remedy)
            check_remedy(check, "%s", language->remedy);
    }
}

static void check_file(struct checks *checks, const char *path)
{
    const enum file_names names = file_names(path);
    if (names == NAMES_AND_LINES) {
        checks_add(checks, "names", CHECK_OK, "%s has names, lines and inlined functions",
                   last_part(path));
        return;
    }
    struct check *check =
        checks_add(checks, "names", CHECK_LIMITED, "%s %s", last_part(path),
                   names == NAMES_ALL        ? "has names for its functions, but no lines"
                   : names == NAMES_EXPORTED ? "is stripped: only exported functions have names"
                                             : "cannot be read: its functions have no names");
    char *packages = packages_with_names(&path, 1);
    if (*packages)
        check_remedy(check, "sudo apt install%s", packages);
    else if (names != NAMES_NONE)
        check_remedy(check, "compile it with -g, and do not strip it");
    free(packages);
}

static void check_libraries(struct checks *checks, const struct library_list *libraries)
{
    const char **bare = memory_array(libraries->count, sizeof *bare);
    size_t count = 0, bytes;
    char *list = NULL;
    FILE *out = open_memstream(&list, &bytes);
    for (size_t i = 0; i < libraries->count; i++)
        if (file_names(libraries->paths[i]) != NAMES_AND_LINES) {
            fprintf(out, "%s%s", count ? ", " : "", last_part(libraries->paths[i]));
            bare[count++] = libraries->paths[i];
        }
    fclose(out);
    if (!count) {
        checks_add(checks, "libraries", CHECK_OK, "all %zu have names and lines", libraries->count);
    } else {
        struct check *check =
            checks_add(checks, "libraries", CHECK_LIMITED,
                       "%zu of %zu have no debug information: %s", count, libraries->count, list);
        char *packages = packages_with_names(bare, count);
        if (*packages)
            check_remedy(check, "sudo apt install%s", packages);
        free(packages);
    }
    free(list);
    free(bare);
}

static struct program read_program(const char *path)
{
    struct program program = {.kind = PROGRAM_UNKNOWN};
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file >= 0) {
        program_read(file, &program);
        close(file);
    }
    return program;
}

// The loader is asked for libraries by being run, and a file can name any program as its loader.
// Ours is trusted: it has loaded this tool.
static bool has_our_loader(const struct program *program)
{
    const struct program self = read_program("/proc/self/exe");
    return program->kind == PROGRAM_ELF && program->name[0] && !strcmp(program->name, self.name);
}

void check_program(struct checks *checks, const struct launch *launch)
{
    struct library_list libraries = {.paths = NULL};
    const char *path = launch->program;
    const struct program program = read_program(path);
    checks_add(checks, "program", CHECK_OK,
               strcmp(path, launch->path) ? "%s is a script of %s, and can be recorded"
                                          : "%s can be recorded",
               launch->path, path)
        ->essential = true;
    check_language(checks, path);
    check_file(checks, path);
    if (has_our_loader(&program))
        each_library(program.name, path, add_library, &libraries);
    if (libraries.count)
        check_libraries(checks, &libraries);
    for (size_t i = 0; i < libraries.count; i++)
        free(libraries.paths[i]);
    free(libraries.paths);
}
