// SPDX-License-Identifier: MIT

#include "analyze/annotate/source_file.h"
#include "base/memory.h"
#include "base/text/text.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_SOURCE = 64 << 20 };

static void split_lines(struct source_file *file, size_t bytes)
{
    size_t capacity = 0;
    for (char *at = file->text, *end = at + bytes; at < end;) {
        char *line_end = memchr(at, '\n', (size_t)(end - at));
        file->lines = memory_grown(file->lines, &capacity, file->count + 1, sizeof *file->lines);
        file->lines[file->count++] = at;
        if (!line_end)
            break;
        *line_end = '\0';
        if (line_end > at && line_end[-1] == '\r')
            line_end[-1] = '\0';
        at = line_end + 1;
    }
}

// Not blocking: a path in a profile may name a pipe.
static bool read_file(struct source_file *file, const char *path)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat status;
    if (fd < 0)
        return false;
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size > MOST_SOURCE) {
        close(fd);
        return false;
    }
    char *real = realpath(path, NULL); // without the ".." of a build folder
    *file =
        (struct source_file){.path = real ? real : memory_text(path), .changed = status.st_mtime};
    file->text = memory_array((size_t)status.st_size + 1, 1);
    size_t bytes = 0;
    for (ssize_t got; bytes < (size_t)status.st_size; bytes += (size_t)got)
        if ((got = read(fd, file->text + bytes, (size_t)status.st_size - bytes)) <= 0)
            break;
    close(fd);
    split_lines(file, bytes);
    return true;
}

static bool try_path(struct source_file *file, const struct source_search *search,
                     const char *folder, size_t length, const char *rest)
{
    char *path = NULL;
    if ((length ? asprintf(&path, "%.*s/%s", (int)length, folder, rest)
                : asprintf(&path, "%s", rest)) < 0)
        memory_checked(NULL);
    bool found = read_file(file, path);
    free(path);
    if (found && file->count < search->lines) {
        source_file_close(file);
        found = false;
    }
    return found;
}

// The whole path in a folder, then ever shorter ends of it.
static bool try_ends(struct source_file *file, const struct source_search *search)
{
    for (const char *rest = search->path; rest; rest = strchr(rest, '/')) {
        rest += strspn(rest, "/");
        if (try_path(file, search, search->folder, strlen(search->folder), rest))
            return true;
    }
    return false;
}

bool source_file_open(struct source_file *file, const struct source_search *search)
{
    *file = (struct source_file){0};
    if (search->folder && try_ends(file, search))
        return true;
    if (search->path[0] == '/')
        return try_path(file, search, "", 0, search->path);
    for (size_t length = search->program ? strlen(search->program) : 0; length > 0;) {
        while (length > 0 && search->program[length - 1] != '/')
            length--;
        length -= length > 0;
        if (length > 0 && try_path(file, search, search->program, length, search->path))
            return true;
    }
    return try_path(file, search, "", 0, search->path);
}

void source_file_close(struct source_file *file)
{
    free(file->path);
    free(file->text);
    free(file->lines);
    *file = (struct source_file){0};
}
