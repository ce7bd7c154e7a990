// SPDX-License-Identifier: MIT

// Which files can be run, and which of those can have the agent preloaded. Every refusal says why.

#include "cmd/cmd.h"
#include "cmd/launch.h"
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#if defined(__x86_64__)
#define OUR_MACHINE EM_X86_64
#define OUR_MACHINE_NAME "x86-64"
#elif defined(__aarch64__)
#define OUR_MACHINE EM_AARCH64
#define OUR_MACHINE_NAME "AArch64"
#else
#error "an architecture without an unwinder"
#endif

#define INTERPRETERS_MAX 5 // as many "#!" as the kernel follows

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

static int find_command(const char *name, char *path, size_t size)
{
    if (!*name) {
        complain("cannot run an empty command");
        return STATUS_NOT_FOUND;
    }
    if (!strchr(name, '/')) {
        int error = find_in_path(name, path, size);
        if (error == EACCES) {
            complain("cannot run %s: found in PATH, but not executable", name);
            return STATUS_NOT_EXECUTABLE;
        }
        if (error && !access(name, X_OK)) {
            complain("command not found: %s (there is one here: say ./%s)", name, name);
            return STATUS_NOT_FOUND;
        }
        if (error)
            complain("command not found: %s", name);
        return error ? STATUS_NOT_FOUND : 0;
    }
    if (strlen(name) >= size) {
        complain("cannot run %.40s...: its name is too long", name);
        return STATUS_NOT_EXECUTABLE;
    }
    strcpy(path, name);
    return 0;
}

static int check_executable(const char *path)
{
    struct stat status;
    if (stat(path, &status)) {
        bool missing = errno == ENOENT || errno == ENOTDIR;
        complain("cannot run %s: %s", path, strerror(errno));
        return missing ? STATUS_NOT_FOUND : STATUS_NOT_EXECUTABLE;
    }
    if (S_ISDIR(status.st_mode)) {
        complain("cannot run %s: it is a directory", path);
        return STATUS_NOT_EXECUTABLE;
    }
    if (!S_ISREG(status.st_mode) || access(path, X_OK)) {
        complain("cannot run %s: it is not executable (chmod +x makes it so)", path);
        return STATUS_NOT_EXECUTABLE;
    }
    return 0;
}

// The kernel and the loader ignore LD_PRELOAD in programs that gain rights when they start.
static int check_privileges(const char *path)
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
    complain("cannot profile %s: it is %s, and the loader preloads nothing into such a program; "
             "run cairn as the user whose rights it gains, or profile a copy of the file",
             path, gain);
    return STATUS_MISUSE;
}

static bool is_loader(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    return !strncmp(name, "ld-", 3) || !strncmp(name, "ld.so", 5);
}

// 0, -ENOENT if it has none of this type, -EBADMSG if it is damaged.
static int read_segment(int file, const Elf64_Ehdr *head, uint32_t type, Elf64_Phdr *segment)
{
    for (unsigned i = 0; i < head->e_phnum; i++) {
        off_t offset = (off_t)(head->e_phoff + (uint64_t)i * head->e_phentsize);
        if (pread(file, segment, sizeof *segment, offset) != sizeof *segment)
            return -EBADMSG;
        if (segment->p_type == type)
            return 0;
    }
    return -ENOENT;
}

// The loader that a program asks for. 0, -ENOENT if it asks for none, -EBADMSG if it is damaged.
static int read_loader_name(int file, const Elf64_Ehdr *head, char *name, size_t size)
{
    Elf64_Phdr segment;
    int error = read_segment(file, head, PT_INTERP, &segment);
    if (error)
        return error;
    size_t bytes = segment.p_filesz < size - 1 ? segment.p_filesz : size - 1;
    if (pread(file, name, bytes, (off_t)segment.p_offset) != (ssize_t)bytes)
        return -EBADMSG;
    name[bytes] = 0;
    return 0;
}

// A program that no library is linked to has no C library either, but for the one that the agent
// brings: it makes threads, and their local storage, in its own way.
static bool needs_no_library(int file, const Elf64_Ehdr *head)
{
    Elf64_Phdr segment;
    Elf64_Dyn entry = {.d_tag = DT_NULL};
    if (read_segment(file, head, PT_DYNAMIC, &segment))
        return false;
    for (uint64_t at = 0; at + sizeof entry <= segment.p_filesz; at += sizeof entry) {
        if (pread(file, &entry, sizeof entry, (off_t)(segment.p_offset + at)) != sizeof entry ||
            entry.d_tag == DT_NEEDED)
            return false;
        if (entry.d_tag == DT_NULL)
            break;
    }
    return entry.d_tag == DT_NULL;
}

static int check_elf(const char *path, int file, const Elf64_Ehdr *head)
{
    char loader[PATH_MAX] = "";
    if (head->e_ident[EI_CLASS] != ELFCLASS64 || head->e_machine != OUR_MACHINE) {
        complain(
            "cannot profile %s: it is a program for %s, and this cairn is for " OUR_MACHINE_NAME,
            path, head->e_ident[EI_CLASS] == ELFCLASS32 ? "a 32-bit machine" : "another machine");
        return STATUS_MISUSE;
    }
    int error = read_loader_name(file, head, loader, sizeof loader);
    if (error == -EBADMSG) {
        complain("cannot run %s: it is damaged (its program headers lie outside of the file)",
                 path);
        return STATUS_NOT_EXECUTABLE;
    }
    if (error == -ENOENT && !is_loader(path)) {
        complain("cannot profile %s: it is statically linked, and only the loader of a dynamic "
                 "program preloads the agent; link it without -static",
                 path);
        return STATUS_MISUSE;
    }
    if (!error && needs_no_library(file, head)) {
        complain("cannot profile %s: it does without the C library, and the agent cannot; a Go "
                 "program uses it with cgo (import \"C\")",
                 path);
        return STATUS_MISUSE;
    }
    if (strstr(loader, "musl")) {
        complain("cannot profile %s: it runs on the musl C library, and this agent on glibc; "
                 "build cairn with musl-gcc for it",
                 path);
        return STATUS_MISUSE;
    }
    if (*loader && access(loader, X_OK)) {
        complain("cannot run %s: its loader %s is missing", path, loader);
        return STATUS_NOT_FOUND;
    }
    return 0;
}

// The interpreter that a script names after "#!"; empty if it names none.
static void read_interpreter(const char *head, size_t bytes, char *name, size_t size)
{
    const char *end = memchr(head, '\n', bytes);
    const char *cursor = head + 2;
    size_t length = 0;
    if (!end)
        end = head + bytes;
    while (cursor < end && (*cursor == ' ' || *cursor == '\t'))
        cursor++;
    while (cursor + length < end && !strchr(" \t\r", cursor[length]))
        length++;
    snprintf(name, size, "%.*s", (int)length, cursor);
}

// Checks one file. Puts the interpreter into `next` if it is a script with one.
static int check_file(struct launch *launch, const char *path, char *next, size_t size)
{
    union {
        Elf64_Ehdr elf;
        char text[256];
    } head = {.text = ""};
    next[0] = 0;
    int status = check_privileges(path);
    if (status)
        return status;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) // one may run what one may not read: then nothing is known of it
        return 0;
    ssize_t bytes = pread(file, &head, sizeof head, 0);
    if (bytes >= (ssize_t)sizeof head.elf && !memcmp(head.text, ELFMAG, SELFMAG))
        status = check_elf(path, file, &head.elf);
    else if (bytes > 2 && !memcmp(head.text, "#!", 2))
        read_interpreter(head.text, (size_t)bytes, next, size);
    else
        launch->through_shell = true;
    close(file);
    return status;
}

int launch_check(struct launch *launch, char *const *command)
{
    char current[PATH_MAX], next[PATH_MAX];
    launch->command = command;
    launch->through_shell = false;
    int status = find_command(command[0], launch->path, sizeof launch->path);
    if (!status)
        status = check_executable(launch->path);
    if (status)
        return status;
    snprintf(current, sizeof current, "%s", launch->path);
    for (int depth = 0; depth < INTERPRETERS_MAX; depth++) {
        status = check_file(launch, current, next, sizeof next);
        if (status || !next[0])
            return status;
        if (access(next, X_OK)) {
            complain("cannot run %s: its interpreter %s cannot be run: %s", current, next,
                     strerror(errno));
            return errno == ENOENT ? STATUS_NOT_FOUND : STATUS_NOT_EXECUTABLE;
        }
        strcpy(current, next);
    }
    complain("cannot run %s: too many interpreters call each other", launch->path);
    return STATUS_NOT_EXECUTABLE;
}
