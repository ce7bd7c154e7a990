// SPDX-License-Identifier: MIT
#include "agent/target.h"
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define OUR_MACHINE EM_X86_64
#else
#error "an architecture without an unwinder"
#endif

#define INTERPRETERS_MAX 5 // as many "#!" as the kernel follows
#define LOADER_MAX 256
#define PATH_DEFAULT "/bin:/usr/bin" // as libc's

union head {
    Elf64_Ehdr elf;
    char text[256];
};

// Not libc's functions: these may be where a thread is cancelled.

static int open_at(int directory, const char *path)
{
    return (int)syscall(SYS_openat, directory, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

static ssize_t read_at(int file, void *buffer, size_t bytes, uint64_t offset)
{
    return syscall(SYS_pread64, file, buffer, bytes, offset);
}

static bool needs_musl(int file, const Elf64_Ehdr *head)
{
    for (unsigned i = 0; i < head->e_phnum; i++) {
        Elf64_Phdr segment;
        char loader[LOADER_MAX] = "";
        const uint64_t offset = head->e_phoff + (uint64_t)i * head->e_phentsize;
        if (read_at(file, &segment, sizeof segment, offset) != sizeof segment)
            return false;
        if (segment.p_type != PT_INTERP)
            continue;
        const size_t bytes =
            segment.p_filesz < sizeof loader - 1 ? segment.p_filesz : sizeof loader - 1;
        return read_at(file, loader, bytes, segment.p_offset) > 0 && strstr(loader, "musl");
    }
    return false;
}

// The interpreter that a script names after "#!", in place; NULL if it names none.
static const char *interpreter_of(char *text)
{
    char *name = text + 2 + strspn(text + 2, " \t");
    name[strcspn(name, " \t\r\n")] = 0;
    return *name ? name : NULL;
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
    union head head = {.text = ""};
    const ssize_t bytes = read_at(file, &head, sizeof head - 1, 0);
    if (bytes > 2 && !memcmp(head.text, "#!", 2) && interpreters < INTERPRETERS_MAX) {
        const char *next = interpreter_of(head.text);
        return !next || opened_takes_agent(AT_FDCWD, next, interpreters + 1);
    }
    if (bytes < (ssize_t)sizeof head.elf || memcmp(head.text, ELFMAG, SELFMAG))
        return true;
    return head.elf.e_ident[EI_CLASS] == ELFCLASS64 && head.elf.e_machine == OUR_MACHINE &&
           !needs_musl(file, &head.elf);
}

bool target_at_takes_agent(int directory, const char *path)
{
    const int saved = errno;
    const bool takes = opened_takes_agent(directory, path, 0);
    errno = saved;
    return takes;
}

bool target_takes_agent(const char *path)
{
    return target_at_takes_agent(AT_FDCWD, path);
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

bool target_in_path_takes_agent(const char *file)
{
    char path[PATH_MAX];
    if (!file || strchr(file, '/'))
        return target_takes_agent(file);
    const int saved = errno;
    const bool found = find_in_path(file, path);
    errno = saved;
    return !found || target_takes_agent(path);
}

bool target_can_open(const char *path, int access)
{
    const int saved = errno;
    const bool can = !syscall(SYS_faccessat, AT_FDCWD, path, access);
    errno = saved;
    return can;
}
