// SPDX-License-Identifier: MIT
#include "symbol/dwarf/line_cache.h"
#include "base/memory.h"
#include "base/new_file.h"
#include "symbol/dwarf/cache_folder.h"
#include "symbol/dwarf/line_table.h"
#include "symbol/files/debug_file.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// Reading 8 MB of debug information takes about 20 ms.
enum { WORTH_BYTES = 8 << 20, LARGEST_FILE = 64 << 20, MOST_ANSWERS = 200000 };

struct linecache {
    struct text_pool *pool;
    struct linetable_key key;
    char *path;
    void *bytes;
    struct linetable table;
    struct lines_query *added;
    size_t count, capacity;
};

static uint64_t time_of(const struct stat *status)
{
    return (uint64_t)status->st_mtim.tv_sec * 1000000000 + (uint64_t)status->st_mtim.tv_nsec;
}

static bool make_key(struct linetable_key *key, const struct object *object)
{
    struct stat file, tool;
    memset(key, 0, sizeof *key);
    if (object->fd < 0 || object->build_id_bytes < 2 || fstat(object->fd, &file) != 0 ||
        file.st_size < WORTH_BYTES || stat("/proc/self/exe", &tool) != 0)
        return false;
    key->tool_bytes = (uint64_t)tool.st_size;
    key->tool_time_ns = time_of(&tool);
    key->file_bytes = (uint64_t)file.st_size;
    key->file_time_ns = time_of(&file);
    key->build_id_bytes = object->build_id_bytes;
    memcpy(key->build_id, object->build_id, object->build_id_bytes);
    return true;
}

static void *read_whole(int fd, size_t size)
{
    char *bytes = memory_checked(malloc(size ? size : 1));
    for (size_t at = 0; at < size;) {
        ssize_t got = read(fd, bytes + at, size - at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            free(bytes);
            return NULL;
        }
        at += (size_t)got;
    }
    return bytes;
}

static void read_table(struct linecache *cache)
{
    struct stat status;
    int fd = open(cache->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return;
    if (fstat(fd, &status) == 0 && cachefolder_trusts(&status) && S_ISREG(status.st_mode) &&
        status.st_size <= LARGEST_FILE)
        cache->bytes = read_whole(fd, (size_t)status.st_size);
    if (cache->bytes &&
        linetable_read(&cache->table, cache->bytes, (size_t)status.st_size, &cache->key))
        futimens(fd, NULL); // used now: others are removed before it
    close(fd);
}

struct linecache *linecache_open(const struct object *object, struct text_pool *pool)
{
    struct linetable_key key;
    char name[2 * BUILD_ID_LIMIT + 1];
    if (!make_key(&key, object))
        return NULL;
    debugfile_hex(object->build_id, object->build_id_bytes, name);
    char *path = cachefolder_path(name);
    if (!path)
        return NULL;
    struct linecache *cache = memory_array(1, sizeof *cache);
    cache->pool = pool;
    cache->key = key;
    cache->path = path;
    read_table(cache);
    return cache;
}

bool linecache_find(const struct linecache *cache, struct lines_query *query)
{
    return cache && linetable_find(&cache->table, query, cache->pool);
}

void linecache_add(struct linecache *cache, const struct lines_query *query)
{
    if (!cache)
        return;
    cache->added =
        memory_grown(cache->added, &cache->capacity, cache->count + 1, sizeof *cache->added);
    struct lines_query *added = &cache->added[cache->count++];
    *added = *query;
    // Later changes of the frames by the module are not cached.
    if (query->count) {
        added->frames = pool_take(cache->pool, query->count * sizeof *added->frames);
        memcpy(added->frames, query->frames, query->count * sizeof *added->frames);
    }
}

static void add_old(struct linecache *cache)
{
    for (size_t i = 0; i < cache->table.entry_count && cache->count < MOST_ANSWERS; i++) {
        struct lines_query query = {.offset = linetable_offset(&cache->table, i)};
        if (linetable_find(&cache->table, &query, cache->pool))
            linecache_add(cache, &query);
    }
}

static int by_offset(const void *left, const void *right)
{
    const struct lines_query *a = left, *b = right;
    return (a->offset > b->offset) - (a->offset < b->offset);
}

static int write_whole(int fd, const char *bytes, size_t size)
{
    while (size) {
        ssize_t done = write(fd, bytes, size);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return done < 0 ? -errno : -EIO;
        bytes += done;
        size -= (size_t)done;
    }
    return 0;
}

void linecache_save(struct linecache *cache)
{
    if (!cache || !cache->count)
        return;
    add_old(cache);
    qsort(cache->added, cache->count, sizeof *cache->added, by_offset);
    size_t size = 0;
    void *bytes = linetable_write(&cache->key, cache->added, cache->count, &size);
    cache->count = 0;
    struct new_file file;
    // Failures are not reported: a full disk is trouble enough without the cache.
    if (bytes && size <= LARGEST_FILE && cachefolder_make() == 0 &&
        new_file_open(&file, cache->path, 0600) == 0) {
        new_file_end(&file, write_whole(file.fd, bytes, size), NEW_FILE_IN_CACHE);
        close(file.fd);
        cachefolder_evict();
    }
    free(bytes);
}

void linecache_close(struct linecache *cache)
{
    if (!cache)
        return;
    free(cache->path);
    free(cache->bytes);
    free(cache->added);
    free(cache);
}
