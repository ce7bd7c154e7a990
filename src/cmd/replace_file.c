// SPDX-License-Identifier: MIT
#include "cmd/replace_file.h"
#include "base/new_file.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_stdout(const struct stat *status)
{
    struct stat own;
    return !fstat(STDOUT_FILENO, &own) && own.st_dev == status->st_dev &&
           own.st_ino == status->st_ino;
}

// A file behind a stream. A stream says only that a write failed, and errno may be another call's
// by then.
struct sink {
    int fd, error;
};

static ssize_t write_to_sink(void *cookie, const char *bytes, size_t count)
{
    struct sink *sink = cookie;
    for (size_t done = 0; done < count;) {
        const ssize_t written = write(sink->fd, bytes + done, count - done);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0) {
            sink->error = written < 0 ? -errno : -EIO;
            return 0;
        }
        done += (size_t)written;
    }
    return (ssize_t)count;
}

// Through a stream to the file, which stays open.
static int write_to(int fd, int (*write)(FILE *out, const void *content), const void *content)
{
    struct sink sink = {.fd = fd};
    FILE *out = fopencookie(&sink, "w", (cookie_io_functions_t){.write = write_to_sink});
    if (!out)
        return -errno;
    int error = write(out, content);
    if (fclose(out) && !error)
        error = -EIO;
    return sink.error ? sink.error : error;
}

static int write_in_place(const char *path, const struct stat *status,
                          int (*write)(FILE *out, const void *content), const void *content)
{
    const int fd = is_stdout(status) ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3)
                                     : open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return -errno;
    const int error = write_to(fd, write, content);
    if (close(fd) && !error)
        return -errno;
    return error;
}

int replace_file(const char *path, int (*write)(FILE *out, const void *content),
                 const void *content)
{
    struct stat status;
    if (!stat(path, &status) && (!S_ISREG(status.st_mode) || is_stdout(&status)))
        return write_in_place(path, &status, write, content);
    struct new_file file;
    int error = new_file_open(&file, path, 0666);
    if (error)
        return error;
    error = write_to(file.fd, write, content);
    error = new_file_end(&file, error, NEW_FILE_ON_DISK);
    close(file.fd);
    return error;
}

bool replace_file_is_same(const char *path, const char *other)
{
    struct stat one, two;
    return stat(path, &one) == 0 && stat(other, &two) == 0 && one.st_dev == two.st_dev &&
           one.st_ino == two.st_ino;
}
