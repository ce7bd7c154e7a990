// SPDX-License-Identifier: MIT
#include "cmd/replace.h"
#include "base/new_file.h"
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_stdout(const struct stat *status)
{
    struct stat own;
    return !fstat(STDOUT_FILENO, &own) && own.st_dev == status->st_dev &&
           own.st_ino == status->st_ino;
}

// Through the stream to the file, which stays open.
static int write_to(int fd, FILE **out, int (*write)(FILE *out, const void *content),
                    const void *content)
{
    *out = fdopen(fd, "w");
    if (!*out)
        return -errno;
    errno = 0;
    const int error = write(*out, content);
    if (error)
        return errno ? -errno : error; // who writes to a stream knows that it failed, and not why
    return fflush(*out) ? -errno : 0;
}

static int write_in_place(const char *path, const struct stat *status,
                          int (*write)(FILE *out, const void *content), const void *content)
{
    FILE *out = NULL;
    const int fd = is_stdout(status) ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3)
                                     : open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return -errno;
    int error = write_to(fd, &out, write, content);
    if (out ? fclose(out) : close(fd))
        error = error ? error : -errno;
    return error;
}

int replace_file(const char *path, int (*write)(FILE *out, const void *content),
                 const void *content)
{
    struct stat status;
    if (!stat(path, &status) && (!S_ISREG(status.st_mode) || is_stdout(&status)))
        return write_in_place(path, &status, write, content);
    struct new_file file;
    FILE *out = NULL;
    int error = new_file_open(&file, path, 0666);
    if (error)
        return error;
    error = write_to(file.fd, &out, write, content);
    error = new_file_end(&file, error, NEW_FILE_ON_DISK);
    out ? fclose(out) : close(file.fd);
    return error;
}
