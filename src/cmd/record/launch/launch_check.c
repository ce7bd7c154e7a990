// SPDX-License-Identifier: MIT

// Which files can be run, and which of those can have the agent preloaded. Every refusal says why.

#include "base/system/program.h"
#include "base/text/text.h"
#include "cmd/line/command.h"
#include "cmd/record/launch/launch.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

// Leaves the line that says why it cannot be done. Returns the status.
static int __attribute__((format(printf, 3, 4)))
refuse(struct launch *launch, int status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(launch->refusal, sizeof launch->refusal, format, arguments);
    va_end(arguments);
    return status;
}

// Shells look for names without a slash in PATH, and say "not executable" only if nothing better
// comes later. 0, ENOENT or EACCES.
static int find_in_path(const char *name, char *path, size_t size)
{
    const char *folders = getenv("PATH");
    int error = ENOENT;
    if (!folders)
        folders = "/bin:/usr/bin";
    for (;;) {
        size_t length = strcspn(folders, ":");
        struct stat status;
        int written = length ? snprintf(path, size, "%.*s/%s", (int)length, folders, name)
                             : snprintf(path, size, "./%s", name);
        if (written > 0 && (size_t)written < size && !stat(path, &status) &&
            S_ISREG(status.st_mode)) {
            if (!access(path, X_OK))
                return 0;
            error = EACCES;
        }
        if (!folders[length])
            return error;
        folders += length + 1;
    }
}

static int find_command(struct launch *launch, const char *name)
{
    if (!*name)
        return refuse(launch, STATUS_NOT_FOUND, "cannot run an empty command");
    if (!strchr(name, '/')) {
        int error = find_in_path(name, launch->path, sizeof launch->path);
        if (error == EACCES)
            return refuse(launch, STATUS_NOT_EXECUTABLE,
                          "cannot run %s: found in PATH, but not executable", name);
        if (error && !access(name, X_OK))
            return refuse(launch, STATUS_NOT_FOUND,
                          "command not found: %s (there is one here: say ./%s)", name, name);
        return error ? refuse(launch, STATUS_NOT_FOUND, "command not found: %s", name) : 0;
    }
    if (strlen(name) >= sizeof launch->path)
        return refuse(launch, STATUS_NOT_EXECUTABLE, "cannot run %.40s...: its name is too long",
                      name);
    strcpy(launch->path, name);
    return 0;
}

static int check_executable(struct launch *launch, const char *path)
{
    struct stat status;
    if (stat(path, &status)) {
        bool missing = errno == ENOENT || errno == ENOTDIR;
        return refuse(launch, missing ? STATUS_NOT_FOUND : STATUS_NOT_EXECUTABLE,
                      "cannot run %s: %s", path, strerror(errno));
    }
    if (S_ISDIR(status.st_mode))
        return refuse(launch, STATUS_NOT_EXECUTABLE, "cannot run %s: it is a directory", path);
    if (!S_ISREG(status.st_mode) || access(path, X_OK))
        return refuse(launch, STATUS_NOT_EXECUTABLE,
                      "cannot run %s: it is not executable (chmod +x makes it so)", path);
    return 0;
}

// The kernel and the loader ignore LD_PRELOAD in programs that gain rights when they start.
static int check_privileges(struct launch *launch, const char *path)
{
    struct stat status;
    struct statvfs volume;
    const char *gain = NULL;
    if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 || stat(path, &status))
        return 0;
    if (!statvfs(path, &volume) && volume.f_flag & ST_NOSUID)
        return 0;
    mode_t group_bits = S_ISGID | S_IXGRP; // without the second, S_ISGID means something else
    if (status.st_mode & S_ISUID && status.st_uid != getuid())
        gain = "setuid";
    else if ((status.st_mode & group_bits) == group_bits && status.st_gid != getgid())
        gain = "setgid";
    else if (geteuid() != 0 && getxattr(path, "security.capability", NULL, 0) > 0)
        gain = "given capabilities";
    if (!gain)
        return 0;
    launch->gains_rights = true;
    launch->from_outside = geteuid() == 0; // others may not look at it
    return refuse(
        launch, STATUS_MISUSE,
        "cannot profile %s: it is %s, and the loader preloads nothing into such a program; "
        "run cairn as the user whose rights it gains, or profile a copy of the file",
        path, gain);
}

static int check_elf(struct launch *launch, const char *path, const struct program *program)
{
    launch->from_outside = !program->is_foreign || program->is_narrow; // if it is refused here
    if (program->is_foreign)
        return refuse(launch, STATUS_MISUSE,
                      "cannot profile %s: it is a program for %s, and this cairn is "
                      "for " PROGRAM_MACHINE_NAME,
                      path, program->is_narrow ? "a 32-bit machine" : "another machine");
    if (program->is_damaged)
        return refuse(launch, STATUS_NOT_EXECUTABLE,
                      "cannot run %s: it is damaged (its program headers lie outside of the file)",
                      path);
    if (!program->name[0] && !program->is_library)
        return refuse(
            launch, STATUS_MISUSE,
            "cannot profile %s: it is statically linked, and only the loader of a dynamic "
            "program preloads the agent; link it without -static (Go: go build -ldflags "
            "-linkmode=external)",
            path);
    if (program->needs_no_library)
        return refuse(
            launch, STATUS_MISUSE,
            "cannot profile %s: it does without the C library, and the agent cannot; a Go "
            "program uses it with go build -ldflags -linkmode=external",
            path);
    if (program->needs_musl)
        return refuse(launch, STATUS_MISUSE,
                      "cannot profile %s: it runs on the musl C library, and this agent on glibc; "
                      "build cairn with musl-gcc for it",
                      path);
    if (program->needs_sanitizer)
        return refuse(launch, STATUS_MISUSE,
                      "cannot profile %s: AddressSanitizer gives up unless it is loaded before "
                      "everything else; build it without, or with -static-libasan",
                      path);
    if (program->name[0] && !program->has_long_name && access(program->name, X_OK))
        return refuse(launch, STATUS_NOT_FOUND, "cannot run %s: its loader %s is missing", path,
                      program->name);
    launch->from_outside = false;
    return 0;
}

// Checks one file. Puts the interpreter into `next` if it is a script with one.
static int check_file(struct launch *launch, const char *path, char *next, size_t size)
{
    struct program program;
    next[0] = 0;
    int status = check_privileges(launch, path);
    if (status)
        return status;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) // one may run what one may not read: then nothing is known of it
        return 0;
    program_read(file, &program);
    close(file);
    if (program.kind == PROGRAM_ELF)
        return check_elf(launch, path, &program);
    if (program.kind == PROGRAM_SCRIPT)
        snprintf(next, size, "%s", program.name);
    else
        launch->through_shell = true;
    return 0;
}

int launch_examine(struct launch *launch, char *const *command)
{
    char next[PATH_MAX];
    launch->command = command;
    launch->through_shell = launch->from_outside = launch->gains_rights = false;
    launch->refusal[0] = 0;
    int status = find_command(launch, command[0]);
    if (!status)
        status = check_executable(launch, launch->path);
    if (status)
        return status;
    snprintf(launch->program, sizeof launch->program, "%s", launch->path);
    for (int depth = 0; depth < PROGRAM_INTERPRETERS_MAX; depth++) {
        status = check_file(launch, launch->program, next, sizeof next);
        if (status || !next[0])
            return status;
        if (access(next, X_OK))
            return refuse(launch, errno == ENOENT ? STATUS_NOT_FOUND : STATUS_NOT_EXECUTABLE,
                          "cannot run %s: its interpreter %s cannot be run: %s", launch->program,
                          next, strerror(errno));
        strcpy(launch->program, next);
    }
    return refuse(launch, STATUS_NOT_EXECUTABLE,
                  "cannot run %s: too many interpreters call each other", launch->path);
}
