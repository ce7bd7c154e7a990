// SPDX-License-Identifier: MIT
#include "profile/output.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static int write_all(int fd, const struct bytes *content)
{
    size_t done = 0;
    while (done < content->size) {
        ssize_t count = write(fd, content->data + done, content->size - done);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return -errno;
        done += (size_t)count;
    }
    return 0;
}

int output_append(int fd, const struct bytes *content)
{
    off_t end = lseek(fd, 0, SEEK_END);
    if (end < 0)
        return -errno;
    int result = write_all(fd, content);
    if (result < 0 && ftruncate(fd, end) < 0)
        return -errno; // the reader takes what is left of it for cut off
    return result;
}

bool output_is_locked(int fd)
{
    if (flock(fd, LOCK_SH | LOCK_NB) == 0) {
        flock(fd, LOCK_UN);
        return false;
    }
    return errno == EWOULDBLOCK;
}

// A new file beside path; its name is written to `name`.
static int make_beside(const char *path, char name[PATH_MAX])
{
    for (unsigned attempt = 0; attempt < 100; attempt++) {
        int length = snprintf(name, PATH_MAX, "%s.new-%ld-%u", path, (long)getpid(), attempt);
        if (length >= PATH_MAX)
            return -ENAMETOOLONG;
        int fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_APPEND, 0666);
        if (fd >= 0)
            return fd;
        if (errno != EEXIST)
            return -errno;
    }
    return -EEXIST;
}

// What stands there already must be an ordinary file that we might have written to.
static int check_old(const char *path, int fd)
{
    struct stat old;
    if (lstat(path, &old) < 0)
        return errno == ENOENT ? 0 : -errno;
    if (!S_ISREG(old.st_mode))
        return S_ISDIR(old.st_mode) ? -EISDIR : -EINVAL;
    if (access(path, W_OK) < 0)
        return -errno;
    return fchmod(fd, old.st_mode & 07777) < 0 ? -errno : 0;
}

enum durability { IN_CACHE, ON_DISK };

static int replace(const char *path, const struct bytes *content, enum durability durability)
{
    char *resolved = realpath(path, NULL);
    const char *target = resolved ? resolved : path;
    char name[PATH_MAX];
    int result = make_beside(target, name), fd = result;
    if (fd >= 0) {
        result = check_old(target, fd);
        if (result == 0)
            result = write_all(fd, content);
        if (result == 0 && durability == ON_DISK && fdatasync(fd) < 0 && errno != EINVAL)
            result = -errno;
        if (result == 0 && flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
            result = -EBUSY;
        if (result == 0 && rename(name, target) < 0)
            result = -errno;
        if (result < 0) {
            unlink(name);
            close(fd);
        }
    }
    free(resolved);
    return result < 0 ? result : fd;
}

int output_replace(const char *path, const struct bytes *content)
{
    int fd = replace(path, content, ON_DISK);
    return fd < 0 ? fd : close(fd) < 0 ? -errno : 0;
}

int output_replace_and_open(const char *path, const struct bytes *content)
{
    return replace(path, content, IN_CACHE);
}
