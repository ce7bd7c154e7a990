// SPDX-License-Identifier: MIT
#include "profile/chunks/output.h"
#include "base/new_file.h"
#include "profile/chunks/chunk.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

// Commands have arguments that other users must not see.
#define PROFILE_MODE 0600

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

static int replace(const char *path, const struct bytes *content,
                   enum new_file_durability durability)
{
    struct new_file file;
    int error = new_file_open(&file, path, PROFILE_MODE);
    if (error)
        return error;
    error = write_all(file.fd, content);
    if (!error && flock(file.fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
        error = -EBUSY;
    error = new_file_end(&file, error, durability);
    if (error)
        close(file.fd);
    return error ? error : file.fd;
}

int output_replace(const char *path, const struct bytes *content)
{
    int fd = replace(path, content, NEW_FILE_ON_DISK);
    return fd < 0 ? fd : close(fd) < 0 ? -errno : 0;
}

int output_replace_and_open(const char *path, const struct bytes *content)
{
    return replace(path, content, NEW_FILE_IN_CACHE);
}

// A profile, or an empty file, that no process writes to, under a name that is no link.
static bool is_idle_profile(const char *path, off_t *size)
{
    struct stat status;
    uint8_t head[FILE_HEAD_BYTES];
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (fd < 0)
        return false;
    const bool is_one =
        !fstat(fd, &status) && S_ISREG(status.st_mode) &&
        (status.st_size == 0 || (read(fd, head, sizeof head) == (ssize_t)sizeof head &&
                                 chunk_check_file_head(head, sizeof head) != HEAD_FOREIGN)) &&
        !output_is_locked(fd);
    *size = status.st_size;
    close(fd);
    return is_one;
}

void output_keep_previous(const char *path)
{
    off_t size;
    char old[PATH_MAX], beside[PATH_MAX + 16];
    struct stat status;
    if (!is_idle_profile(path, &size) || size == 0 ||
        snprintf(old, sizeof old, "%s.old", path) >= (int)sizeof old ||
        (!lstat(old, &status) && !is_idle_profile(old, &size)))
        return;
    // A second name that takes the place of the old one: at no moment is a profile missing.
    snprintf(beside, sizeof beside, "%s.%d", old, (int)getpid());
    const bool linked = !link(path, beside);
    if (!linked && errno != EPERM && errno != EOPNOTSUPP)
        return;
    // Some file systems have no hard links: there the profile is moved.
    const int error = rename(linked ? beside : path, old);
    (void)error; // then there is no older profile to look at
    if (linked)
        unlink(beside); // still there if that failed, or if both names were of the same file
}
