// SPDX-License-Identifier: MIT
#include "base/system/memory_limit.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/cairn-groups-XXXXXX";

// A file below the folder, and the folders that lead there.
static void put(const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    for (char *at = path + strlen(folder) + 1; (at = strchr(at, '/')); *at++ = '/') {
        *at = 0;
        mkdir(path, 0700);
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static uint64_t limit(void)
{
    char own[64];
    snprintf(own, sizeof own, "%s/own", folder);
    return memory_limit(&(struct memory_limit_files){.groups = folder, .own = own});
}

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder + strlen(folder) - 6, "XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

static void test_without_a_group_there_is_no_limit(void **state)
{
    (void)state;
    assert_true(limit() == UINT64_MAX); // no such file
    put("own", "0::/a/b\n");
    assert_true(limit() == UINT64_MAX); // no such group
    put("a/b/memory.max", "max\n");
    assert_true(limit() == UINT64_MAX);
    put("own", "no line\n4:memory\n::\n");
    assert_true(limit() == UINT64_MAX);
}

static void test_version_2(void **state)
{
    (void)state;
    put("own", "0::/a/b\n");
    put("a/b/memory.max", "300000000\n");
    put("a/memory.max", "max\n");
    assert_int_equal(limit(), 300000000);
    put("a/memory.max", "200000000\n"); // what lies above holds, too
    assert_int_equal(limit(), 200000000);
    put("memory.max", "100000000\n"); // a container's own is where the groups are mounted
    assert_int_equal(limit(), 100000000);
    put("own", "0::/../not/here\n");
    assert_int_equal(limit(), 100000000);
}

static void test_version_1(void **state)
{
    (void)state;
    put("own", "5:devices:/\n4:cpuset,memory:/jobs/one\n0::/\n");
    put("memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("memory/jobs/memory.limit_in_bytes", "209715200\n");
    put("memory/jobs/one/memory.limit_in_bytes", "9223372036854771712\n");
    assert_int_equal(limit(), 209715200);
    put("unified/memory.max", "1000000\n"); // version 2 beside it
    assert_int_equal(limit(), 1000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_without_a_group_there_is_no_limit, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(test_version_2, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_version_1, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
