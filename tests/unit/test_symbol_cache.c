// SPDX-License-Identifier: MIT
// What is kept of large debug files from one run to the next.
#include "symbol_fixture.h"
// The fixture has what cmocka wants first.
#include "symbol/dwarf/cache_folder.h"
#include "symbol/dwarf/line_cache.h"
#include "symbol/dwarf/line_table.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct text_pool pool;

static struct lines_query made_query(uint64_t offset)
{
    struct lines_query query = {
        .offset = offset, .count = 2, .function = offset & ~15ull, .function_known = true};
    query.frames = pool_take(&pool, 2 * sizeof *query.frames);
    query.frames[0] =
        (struct symbol_frame){pool_string(&pool, "inner"), pool_string(&pool, "a.c"), 7};
    query.frames[1] = (struct symbol_frame){NULL, pool_string(&pool, "b.c"), (unsigned)offset};
    return query;
}

static void assert_made(const struct lines_query *query)
{
    assert_int_equal(query->count, 2);
    assert_string_equal(query->frames[0].function, "inner");
    assert_string_equal(query->frames[0].file, "a.c");
    assert_int_equal(query->frames[0].line, 7);
    assert_null(query->frames[1].function);
    assert_string_equal(query->frames[1].file, "b.c");
    assert_int_equal(query->frames[1].line, query->offset);
    assert_true(query->function_known && query->function == (query->offset & ~15ull));
}

static void tables_are_read_as_written(void **state)
{
    (void)state;
    const struct linetable_key key = {.file_bytes = 1, .build_id_bytes = 20};
    struct lines_query queries[] = {made_query(16), {.offset = 20}, made_query(33)};
    size_t size;
    char *bytes = linetable_write(&key, queries, 3, &size);
    struct linetable table;
    assert_true(linetable_read(&table, bytes, size, &key));
    struct lines_query query = {.offset = 33};
    assert_true(linetable_find(&table, &query, &pool));
    assert_made(&query);
    query = (struct lines_query){.offset = 20};
    assert_true(linetable_find(&table, &query, &pool));
    assert_int_equal(query.count, 0); // it is known that there is nothing
    query = (struct lines_query){.offset = 21};
    assert_false(linetable_find(&table, &query, &pool));

    struct linetable_key other = key;
    other.file_time_ns++;
    assert_false(linetable_read(&table, bytes, size, &other));
    for (size_t i = 0; i < size; i++) {
        bytes[i] ^= 1;
        assert_false(linetable_read(&table, bytes, size, &key));
        bytes[i] ^= 1;
        assert_false(linetable_read(&table, bytes, i, &key));
    }
    assert_true(linetable_read(&table, bytes, size, &key));
    free(bytes);
}

// A file that is large enough to be cached, with a build id that says which.
static struct object made_object(uint8_t id, off_t size)
{
    struct object object = {.fd = open(fixture_path("large"), O_RDWR | O_CREAT | O_CLOEXEC, 0600),
                            .build_id = {id, 2, 3},
                            .build_id_bytes = 3};
    assert_true(object.fd >= 0);
    assert_int_equal(ftruncate(object.fd, size), 0);
    return object;
}

static void keep(const struct object *object, uint64_t offset)
{
    struct linecache *cache = linecache_open(object, &pool);
    assert_non_null(cache);
    struct lines_query query = made_query(offset);
    linecache_add(cache, &query);
    query.frames[0].function = "changed later";
    linecache_save(cache);
    linecache_close(cache);
}

static bool is_kept(const struct object *object, uint64_t offset)
{
    struct linecache *cache = linecache_open(object, &pool);
    assert_non_null(cache);
    struct lines_query query = {.offset = offset};
    bool found = linecache_find(cache, &query);
    if (found)
        assert_made(&query);
    linecache_close(cache);
    return found;
}

static const char *cached_file(void)
{
    return fixture_path("cache/cairn/010203");
}

static void answers_are_kept_and_added_to(void **state)
{
    (void)state;
    struct object object = made_object(1, 16 << 20);
    struct stat status;
    keep(&object, 40);
    keep(&object, 8);
    assert_true(is_kept(&object, 40) && is_kept(&object, 8) && !is_kept(&object, 41));
    assert_int_equal(stat(cached_file(), &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    assert_int_equal(stat(fixture_path("cache/cairn"), &status), 0);
    assert_int_equal(status.st_mode & 0777, 0700);
    // Another file of the same build: stripped, or written anew.
    assert_int_equal(ftruncate(object.fd, 17 << 20), 0);
    assert_false(is_kept(&object, 40));
    close(object.fd);
}

static void nothing_is_kept_where_it_is_not_wanted(void **state)
{
    (void)state;
    struct object object = made_object(1, 1000);
    assert_null(linecache_open(&object, &pool));
    assert_int_equal(ftruncate(object.fd, 16 << 20), 0);
    object.build_id_bytes = 0;
    assert_null(linecache_open(&object, &pool));
    object.build_id_bytes = 3;
    setenv("CAIRN_CACHE", "off", 1);
    assert_null(linecache_open(&object, &pool));
    unsetenv("CAIRN_CACHE");
    struct linecache *cache = linecache_open(&object, &pool);
    assert_non_null(cache);
    linecache_close(cache);
    close(object.fd);
}

static void files_of_others_are_not_believed(void **state)
{
    (void)state;
    struct object object = made_object(1, 16 << 20);
    keep(&object, 40);
    assert_true(is_kept(&object, 40));
    assert_int_equal(chmod(cached_file(), 0620), 0);
    assert_false(is_kept(&object, 40));
    assert_int_equal(chmod(cached_file(), 0600), 0);
    if (chown(cached_file(), 12345, 12345) == 0) { // as root
        assert_false(is_kept(&object, 40));
        assert_int_equal(chown(cached_file(), geteuid(), getegid()), 0);
    }
    assert_true(is_kept(&object, 40));
    fixture_run("mv cache/cairn/010203 elsewhere && ln -s ../../elsewhere cache/cairn/010203");
    assert_false(is_kept(&object, 40));
    fixture_run("rm cache/cairn/010203 && mkfifo cache/cairn/010203");
    assert_false(is_kept(&object, 40));
    fixture_run("rm cache/cairn/010203 && chmod 0770 cache/cairn");
    keep(&object, 40);
    assert_int_equal(access(cached_file(), F_OK), -1);
    fixture_run("chmod 0700 cache/cairn");
    close(object.fd);
}

static void the_least_used_files_go_first(void **state)
{
    (void)state;
    struct object object = made_object(1, 16 << 20);
    fixture_run("cd cache/cairn && truncate -s 150M old middle && touch -d '3 days ago' old"
                " && touch -d '2 days ago' middle");
    keep(&object, 40);
    assert_int_equal(access(fixture_path("cache/cairn/old"), F_OK), -1);
    assert_int_equal(access(fixture_path("cache/cairn/middle"), F_OK), 0);
    assert_true(is_kept(&object, 40));
    close(object.fd);
}

static int setup(void **state)
{
    int error = fixture_setup(state);
    setenv("XDG_CACHE_HOME", fixture_path("cache"), 1);
    unsetenv("CAIRN_CACHE");
    return error;
}

static int teardown(void **state)
{
    pool_free(&pool);
    return fixture_teardown(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_are_read_as_written),
        cmocka_unit_test(answers_are_kept_and_added_to),
        cmocka_unit_test(nothing_is_kept_where_it_is_not_wanted),
        cmocka_unit_test(files_of_others_are_not_believed),
        cmocka_unit_test(the_least_used_files_go_first),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
