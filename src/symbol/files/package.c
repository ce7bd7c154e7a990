// SPDX-License-Identifier: MIT
#include "symbol/files/package.h"
#include "base/memory.h"
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char list_folder[] = "/var/lib/dpkg/info";

// The spellings under which dpkg may know a file: /lib has become a link to /usr/lib, but packages
// still carry either.
enum { SPELLINGS = 3 };

static void spell(const char *path, char *spellings[SPELLINGS])
{
    char *real = realpath(path, NULL);
    const char *first = real ? real : path;
    spellings[0] = strdup(first);
    spellings[1] = NULL;
    if (strncmp(first, "/usr/", 5) == 0)
        spellings[1] = strdup(first + 4);
    else if (asprintf(&spellings[1], "/usr%s", first) < 0)
        spellings[1] = NULL;
    spellings[2] = real && strcmp(real, path) != 0 ? strdup(path) : NULL;
    free(real);
}

static char *read_whole(int folder, const char *name, size_t *bytes)
{
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    struct stat status;
    char *text = NULL;
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0 &&
        status.st_size < 64 << 20 && (text = malloc((size_t)status.st_size + 1))) {
        ssize_t got = read(fd, text, (size_t)status.st_size);
        *bytes = got > 0 ? (size_t)got : 0;
        text[*bytes] = '\0';
    }
    close(fd);
    return text;
}

static int has_line(const char *text, size_t bytes, const char *line)
{
    size_t length = strlen(line);
    const char *at = text, *end = text + bytes;
    while ((at = memmem(at, (size_t)(end - at), line, length))) {
        if ((at == text || at[-1] == '\n') && (at[length] == '\n' || at[length] == '\0'))
            return 1;
        at += length;
    }
    return 0;
}

static void search_list(int folder, const char *file, char *(*spellings)[SPELLINGS], char **names,
                        size_t count)
{
    size_t bytes = 0;
    char *text = read_whole(folder, file, &bytes);
    if (!text)
        return;
    for (size_t i = 0; i < count; i++)
        for (int j = 0; j < SPELLINGS && !names[i]; j++)
            if (spellings[i][j] && has_line(text, bytes, spellings[i][j]))
                names[i] = strndup(file, strcspn(file, ":")); // "libc6:amd64.list"
    free(text);
}

void package_owners(const char *const *paths, char **names, size_t count)
{
    char *(*spellings)[SPELLINGS] = memory_array(count, sizeof *spellings);
    DIR *folder = opendir(list_folder);
    if (folder)
        for (size_t i = 0; i < count; i++)
            spell(paths[i], spellings[i]);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        char *ending = strrchr(entry->d_name, '.');
        if (ending && strcmp(ending, ".list") == 0)
            search_list(dirfd(folder), entry->d_name, spellings, names, count);
    }
    for (size_t i = 0; i < count; i++) {
        char *ending = names[i] ? strrchr(names[i], '.') : NULL;
        if (ending && strcmp(ending, ".list") == 0)
            *ending = '\0';
        for (int j = 0; j < SPELLINGS; j++)
            free(spellings[i][j]);
    }
    if (folder)
        closedir(folder);
    free(spellings);
}
