// SPDX-License-Identifier: MIT
// A profile by its name: a file, or the memory of a recording that is going on.

#include "profile/chunks/chunk.h"
#include "profile/chunks/output.h"
#include "profile/reader.h"
#include "profile/recorder/snapshot.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// Reads up to so many bytes from the start of a file. -1 and errno.
static ssize_t read_start(int fd, uint8_t *data, size_t wanted)
{
    size_t size = 0;
    while (size < wanted) {
        ssize_t count = pread(fd, data + size, wanted - size, (off_t)size);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return -1;
        if (count == 0)
            break;
        size += (size_t)count;
    }
    return (ssize_t)size;
}

// All that there is now; a file that grows meanwhile is read up to the size it had. NULL and errno.
uint8_t *profile_load_file(int fd, size_t *size)
{
    struct stat status;
    if (fstat(fd, &status) < 0)
        return NULL;
    uint8_t *data = malloc((size_t)status.st_size + 1);
    ssize_t count = data ? read_start(fd, data, (size_t)status.st_size) : -1;
    if (count < 0) {
        free(data);
        return NULL;
    }
    *size = (size_t)count;
    return data;
}

// Whether an open file may be a profile. Its first bytes decide, so that no other file is read
// whole, nor waited for. 0 or -errno; -ENOEXEC: it is none.
static int check_start(int fd)
{
    struct stat status;
    if (fstat(fd, &status) < 0)
        return -errno;
    if (S_ISDIR(status.st_mode))
        return -EISDIR;
    if (!S_ISREG(status.st_mode))
        return -ENOEXEC;
    uint8_t start[FILE_HEAD_BYTES];
    ssize_t size = read_start(fd, start, sizeof start);
    if (size < 0)
        return -errno;
    return snapshot_is_one(start, (size_t)size) ||
                   chunk_check_file_head(start, (size_t)size) != HEAD_FOREIGN
               ? 0
               : -ENOEXEC;
}

struct profile *profile_read(const char *path, char **error)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT)
        return strcmp(path, DEFAULT_PROFILE) == 0
                   ? profile_fail(error,
                                  "there is no profile %s here: make one with 'cairn record "
                                  "COMMAND', or name another file",
                                  path)
                   : profile_fail(error,
                                  "there is no profile %s: make it with 'cairn record -o %s "
                                  "COMMAND'",
                                  path, path);
    if (fd < 0)
        return profile_fail(error, "cannot open %s: %s", path, strerror(errno));
    // Asked before reading: a recording that ends in between is complete, and only called growing.
    enum profile_writer writer = output_is_locked(fd) ? WRITER_OTHER : WRITER_NONE;
    size_t size;
    int reason = -check_start(fd);
    uint8_t *data = reason ? NULL : profile_load_file(fd, &size);
    reason = reason || data ? reason : errno;
    struct stat status = {0};
    fstat(fd, &status);
    close(fd);
    if (reason == ENOEXEC)
        return profile_fail(error,
                            status.st_size == 0 && S_ISREG(status.st_mode) ? PROFILE_FOREIGN
                                ": it is empty"
                                                                           : PROFILE_FOREIGN,
                            path);
    if (!data)
        return profile_fail(error, "cannot read %s: %s", path, strerror(reason));
    struct profile *profile = snapshot_is_one(data, size)
                                  ? snapshot_parse(data, size, path, error)
                                  : profile_parse(data, size, writer, path, error);
    if (profile)
        profile->owner = status.st_uid;
    free(data);
    return profile;
}
