// SPDX-License-Identifier: MIT

// A process that is recorded has the recording's memory mapped; the recorder has the same memory
// and the profile open, and the profile locked.

#include "cmd/watch/find_recording.h"
#include "profile/chunks/output.h"
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

// The memory of a recording (cmd/record/session.c): its device and inode. 0, 0: none.
struct memory_id {
    dev_t device;
    ino_t inode;
};

static bool is_memory(const char *path)
{
    return strcmp(path, "/memfd:cairn (deleted)") == 0 ||
           strncmp(path, "/dev/shm/cairn-", strlen("/dev/shm/cairn-")) == 0;
}

// The memory that a process has mapped.
static struct memory_id mapped_memory(pid_t pid)
{
    char name[40], *line = NULL;
    size_t room = 0;
    struct memory_id memory = {0};
    snprintf(name, sizeof name, "/proc/%d/maps", (int)pid);
    FILE *maps = fopen(name, "re");
    while (maps && !memory.inode && getline(&line, &room, maps) > 0) {
        unsigned major, minor;
        unsigned long inode;
        int path = 0;
        line[strcspn(line, "\n")] = 0;
        if (sscanf(line, "%*x-%*x %*s %*x %x:%x %lu %n", &major, &minor, &inode, &path) == 3 &&
            path && is_memory(line + path))
            memory = (struct memory_id){makedev(major, minor), inode};
    }
    if (maps)
        fclose(maps);
    free(line);
    return memory;
}

static pid_t parent_of(pid_t pid)
{
    char name[40], text[512];
    int parent = 0;
    snprintf(name, sizeof name, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(name, "re");
    const size_t bytes = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file)
        fclose(file);
    text[bytes] = 0;
    const char *behind_name = strrchr(text, ')');
    return behind_name && sscanf(behind_name, ") %*c %d", &parent) == 1 ? parent : 0;
}

static bool is_recorded_into(const char *path)
{
    struct stat status;
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    const bool is =
        file >= 0 && !fstat(file, &status) && S_ISREG(status.st_mode) && output_is_locked(file);
    if (file >= 0)
        close(file);
    return is;
}

// The profile that a process writes, if it has this memory open, or any if none is asked for.
static char *written_by(pid_t pid, struct memory_id wanted)
{
    char name[64], path[PATH_MAX], *profile = NULL;
    bool has_memory = false;
    snprintf(name, sizeof name, "/proc/%d/fd", (int)pid);
    DIR *folder = opendir(name);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        struct stat status;
        const ssize_t bytes = readlinkat(dirfd(folder), entry->d_name, path, sizeof path - 1);
        if (bytes < 0)
            continue;
        path[bytes] = 0;
        if (is_memory(path))
            has_memory |= !fstatat(dirfd(folder), entry->d_name, &status, 0) &&
                          (!wanted.inode ||
                           (status.st_dev == wanted.device && status.st_ino == wanted.inode));
        else if (!profile && path[0] == '/' && is_recorded_into(path))
            profile = strdup(path);
    }
    if (folder)
        closedir(folder);
    if (!has_memory) {
        free(profile);
        profile = NULL;
    }
    return profile;
}

char *find_recording(pid_t pid)
{
    const struct memory_id memory = mapped_memory(pid), any = {0};
    char *profile = written_by(pid, any);
    DIR *folder = opendir("/proc");
    for (struct dirent *entry; !profile && folder && (entry = readdir(folder));) {
        const pid_t other =
            isdigit((unsigned char)entry->d_name[0]) ? (pid_t)atol(entry->d_name) : 0;
        // The front of a recording waits for the recorder, its child.
        if (other && (memory.inode || parent_of(other) == pid))
            profile = written_by(other, memory);
    }
    if (folder)
        closedir(folder);
    return profile;
}
