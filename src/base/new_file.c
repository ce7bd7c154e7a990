// SPDX-License-Identifier: MIT
#include "base/new_file.h"
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ATTEMPTS = 100 };

// /dev/stdout, or the file that output is sent to: a new file would not receive the output.
static bool is_standard_stream(const struct stat *status)
{
    struct stat own;
    for (int fd = 0; fd <= 2; fd++)
        if (!fstat(fd, &own) && own.st_dev == status->st_dev && own.st_ino == status->st_ino)
            return true;
    return false;
}

// The file that has the name now: the target of a link. *path: its own name, to be freed. 0,
// -ENOENT or another -errno.
static int find_old(const char *name, struct stat *old, char **path)
{
    struct stat again;
    // The kernel refuses to follow some links (fs.protected_symlinks), and realpath() does not.
    const int fd = open(name, O_PATH | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT && !lstat(name, old) ? -ENOLINK : -errno;
    int error = fstat(fd, old) ? -errno : 0;
    close(fd);
    if (!error && !S_ISREG(old->st_mode))
        error = S_ISDIR(old->st_mode) ? -EISDIR : -ENOTSUP;
    if (!error && is_standard_stream(old))
        error = -ETXTBSY;
    if (!error && access(name, W_OK))
        error = -errno;
    if (error)
        return error;
    *path = realpath(name, NULL);
    if (!*path)
        return -errno;
    // Another user may exchange links meanwhile.
    if (!lstat(*path, &again) && again.st_ino == old->st_ino && again.st_dev == old->st_dev)
        return 0;
    free(*path);
    return -ESTALE;
}

// A new file in the folder of `path`.
static int make_beside(const char *path, mode_t mode, char **name)
{
    const char *slash = strrchr(path, '/');
    const int folder = slash ? (int)(slash + 1 - path) : 0;
    for (unsigned attempt = 0; attempt < ATTEMPTS; attempt++) {
        uint64_t number;
        if (getrandom(&number, sizeof number, 0) != sizeof number)
            return -errno;
        // Not made from the last part of the path, which may be as long as a name can be.
        if (asprintf(name, "%.*s.cairn-%016llx", folder, path, (unsigned long long)number) < 0)
            return -ENOMEM;
        const int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_APPEND | O_CLOEXEC;
        const int fd = open(*name, flags, mode);
        if (fd >= 0)
            return fd;
        const int error = -errno;
        free(*name);
        if (error != -EEXIST)
            return error;
    }
    return -EEXIST;
}

// Permissions that the owner gave to the old file stay. The permissions of another user's file do
// not count: a planted file must not decide who may read ours.
static int copy_permissions(int fd, const struct stat *old)
{
    struct stat new;
    mode_t mode = old->st_mode & 0777;
    if (fstat(fd, &new))
        return -errno;
    if (old->st_uid != new.st_uid)
        return 0;
    if (old->st_gid != new.st_gid && fchown(fd, (uid_t)-1, old->st_gid))
        mode &= ~(mode_t)S_IRWXG;
    return fchmod(fd, mode) ? -errno : 0;
}

int new_file_open(struct new_file *file, const char *path, mode_t mode)
{
    struct stat old;
    *file = (struct new_file){.fd = -1};
    const int found = find_old(path, &old, &file->path);
    if (found && found != -ENOENT)
        return found;
    if (found)
        file->path = strdup(path);
    file->fd = file->path ? make_beside(file->path, mode, &file->beside) : -ENOMEM;
    if (file->fd < 0) {
        free(file->path);
        return file->fd;
    }
    const int error = found ? 0 : copy_permissions(file->fd, &old);
    if (!error)
        return 0;
    new_file_end(file, error, NEW_FILE_IN_CACHE);
    close(file->fd);
    return error;
}

int new_file_end(struct new_file *file, int error, enum new_file_durability durability)
{
    // Not every file system can do it.
    if (!error && durability == NEW_FILE_ON_DISK && fdatasync(file->fd) && errno != EINVAL)
        error = -errno;
    if (!error && rename(file->beside, file->path))
        error = -errno;
    if (error)
        unlink(file->beside);
    free(file->beside);
    free(file->path);
    file->beside = file->path = NULL;
    return error;
}

const char *new_file_error(int error)
{
    switch (error) {
    case -EISDIR:
        return "it is a directory";
    case -ENOTSUP:
        return "it is not an ordinary file";
    case -ENOLINK:
        return "it is a link to a file that does not exist; make that file, or remove the link";
    case -ETXTBSY:
        return "it is an input or output of this very command";
    default:
        return strerror(-error);
    }
}
