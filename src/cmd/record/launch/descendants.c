// SPDX-License-Identifier: MIT

#include "cmd/record/launch/descendants.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Large environments are no reason to read megabytes; our variable is somewhere, so read on in
// parts that overlap by its length.
static bool has_in_environment(pid_t pid, const char *text)
{
    char path[64], buffer[8192];
    size_t kept = 0, length = strlen(text);
    bool found = false;
    snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    while (!found) {
        ssize_t bytes = read(fd, buffer + kept, sizeof buffer - kept);
        if (bytes <= 0)
            break;
        size_t total = kept + (size_t)bytes;
        found = memmem(buffer, total, text, length) != NULL;
        kept = total < length ? total : length;
        memmove(buffer, buffer + total - kept, kept);
    }
    close(fd);
    return found;
}

bool descendants_run(pid_t command, const char *session_path)
{
    DIR *folder = opendir("/proc");
    struct dirent *entry;
    bool found = false;
    if (!folder)
        return false;
    while (!found && (entry = readdir(folder))) {
        pid_t pid = (pid_t)atoi(entry->d_name);
        // Numbers are given out upward. Where they have begun anew from below we miss one, which
        // costs no more than what it would cost not to look at all.
        if (pid > command)
            found = has_in_environment(pid, session_path);
    }
    closedir(folder);
    return found;
}

// 0: not known.
static pid_t parent_of(pid_t pid)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t bytes = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[bytes > 0 ? bytes : 0] = 0;
    const char *end = strrchr(text, ')'); // of its name, which may hold anything
    int parent = 0;
    return end && sscanf(end + 1, " %*c %d", &parent) == 1 ? parent : 0;
}

bool descends_from(pid_t pid, pid_t ancestor)
{
    enum { MOST_GENERATIONS = 1000 }; // numbers may be used again while we look
    for (int i = 0; pid > 0 && pid != ancestor && i < MOST_GENERATIONS; i++)
        pid = parent_of(pid);
    return pid > 0 && pid == ancestor;
}
