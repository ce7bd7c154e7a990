// SPDX-License-Identifier: MIT
#include "agent/session/can_preload.h"
#include "base/system/program.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PATH_DEFAULT "/bin:/usr/bin" // as libc's

// Not libc's: that may be where a thread is cancelled.
static int open_at(int directory, const char *path)
{
    return (int)syscall(SYS_openat, directory, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

static bool takes_agent(int file, unsigned interpreters);

// Without a path, or with an empty one, it is the file that is open. The path may be no address at
// all: the kernel will say so.
static bool opened_takes_agent(int directory, const char *path, unsigned interpreters)
{
    const int file = path ? open_at(directory, path) : -1;
    if (file < 0)
        return takes_agent(directory, interpreters);
    const bool takes = takes_agent(file, interpreters);
    syscall(SYS_close, file);
    return takes;
}

static bool takes_agent(int file, unsigned interpreters)
{
    struct program program;
    program_read(file, &program);
    if (program.kind == PROGRAM_SCRIPT && interpreters < PROGRAM_INTERPRETERS_MAX)
        return !program.name[0] || opened_takes_agent(AT_FDCWD, program.name, interpreters + 1);
    return !program.is_foreign && !program.needs_musl && !program.needs_sanitizer;
}

bool preload_at_takes_agent(int directory, const char *path)
{
    const int saved = errno;
    const bool takes = opened_takes_agent(directory, path, 0);
    errno = saved;
    return takes;
}

bool preload_takes_agent(const char *path)
{
    return preload_at_takes_agent(AT_FDCWD, path);
}

// The first file of that name in PATH that may be run. False: there is none.
static bool find_in_path(const char *file, char *path)
{
    const char *folders = getenv("PATH");
    if (!folders)
        folders = PATH_DEFAULT;
    for (;; folders++) {
        const size_t length = strcspn(folders, ":");
        if (length + strlen(file) + 2 <= PATH_MAX) {
            char *end = mempcpy(path, folders, length);
            *end = '/';
            strcpy(end + (length > 0), file);
            if (!syscall(SYS_faccessat, AT_FDCWD, path, X_OK))
                return true;
        }
        folders += length;
        if (!*folders)
            return false;
    }
}

bool preload_in_path_takes_agent(const char *file)
{
    char path[PATH_MAX];
    if (!file || strchr(file, '/'))
        return preload_takes_agent(file);
    const int saved = errno;
    const bool found = find_in_path(file, path);
    errno = saved;
    return !found || preload_takes_agent(path);
}

bool preload_can_open(const char *path, int access)
{
    const int saved = errno;
    const bool can = !syscall(SYS_faccessat, AT_FDCWD, path, access);
    errno = saved;
    return can;
}
