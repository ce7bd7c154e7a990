// SPDX-License-Identifier: MIT
#include "profile/output.h"
#include "base/new_file.h"
#include <errno.h>
#include <sys/file.h>
#include <unistd.h>

// Commands have arguments that are nobody else's business.
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
