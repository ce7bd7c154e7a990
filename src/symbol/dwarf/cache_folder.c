// SPDX-License-Identifier: MIT
#include "symbol/dwarf/cache_folder.h"
#include "base/memory.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LARGEST_FOLDER = 256 << 20, MOST_FILES = 1000 };

static char *joined(const char *folder, const char *name)
{
    char *path = NULL;
    memory_checked(asprintf(&path, "%s/%s", folder, name) < 0 ? NULL : path);
    return path;
}

// The folder of all caches; NULL if the user has none. To be freed.
static char *user_cache(void)
{
    const char *off = getenv("CAIRN_CACHE"), *own = getenv("XDG_CACHE_HOME"),
               *home = getenv("HOME");
    if (off && strcmp(off, "off") == 0)
        return NULL;
    if (own && own[0] == '/') // relative paths are to be ignored, says the standard
        return memory_text(own);
    return home && home[0] == '/' ? joined(home, ".cache") : NULL;
}

static char *folder_path(void)
{
    char *cache = user_cache(), *folder = cache ? joined(cache, "cairn") : NULL;
    free(cache);
    return folder;
}

char *cachefolder_path(const char *name)
{
    char *folder = folder_path(), *path = folder ? joined(folder, name) : NULL;
    free(folder);
    return path;
}

bool cachefolder_trusts(const struct stat *status)
{
    return status->st_uid == geteuid() && !(status->st_mode & (S_IWGRP | S_IWOTH));
}

int cachefolder_make(void)
{
    struct stat status;
    char *cache = user_cache(), *folder = folder_path();
    int error = -ENOENT;
    if (folder) {
        mkdir(cache, 0700); // if it cannot be made, neither can what is in it
        error = mkdir(folder, 0700) != 0 && errno != EEXIST ? -errno : 0;
        if (!error && lstat(folder, &status) != 0)
            error = -errno;
        if (!error && (!S_ISDIR(status.st_mode) || !cachefolder_trusts(&status)))
            error = -EPERM;
    }
    free(cache);
    free(folder);
    return error;
}

struct cached {
    char *name;
    off_t bytes;
    struct timespec used;
};

static int newest_first(const void *left, const void *right)
{
    const struct cached *a = left, *b = right;
    if (a->used.tv_sec != b->used.tv_sec)
        return a->used.tv_sec > b->used.tv_sec ? -1 : 1;
    return (a->used.tv_nsec < b->used.tv_nsec) - (a->used.tv_nsec > b->used.tv_nsec);
}

static struct cached *list_files(DIR *folder, size_t *count)
{
    struct cached *files = NULL;
    size_t capacity = 0;
    struct dirent *entry;
    struct stat status;
    while ((entry = readdir(folder))) {
        if (fstatat(dirfd(folder), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
            !S_ISREG(status.st_mode))
            continue;
        files = memory_grown(files, &capacity, *count + 1, sizeof *files);
        files[(*count)++] =
            (struct cached){memory_text(entry->d_name), status.st_size, status.st_mtim};
    }
    return files;
}

void cachefolder_evict(void)
{
    char *path = folder_path();
    DIR *folder = path ? opendir(path) : NULL;
    free(path);
    if (!folder)
        return;
    size_t count = 0;
    struct cached *files = list_files(folder, &count);
    if (count)
        qsort(files, count, sizeof *files, newest_first);
    off_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += files[i].bytes;
        if (sum > LARGEST_FOLDER || i >= MOST_FILES)
            unlinkat(dirfd(folder), files[i].name, 0);
        free(files[i].name);
    }
    free(files);
    closedir(folder);
}
