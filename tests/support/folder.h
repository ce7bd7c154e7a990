// SPDX-License-Identifier: MIT
#ifndef CAIRN_TESTS_FOLDER_H
#define CAIRN_TESTS_FOLDER_H

// A folder of a test's own, and a profile in it: setup and teardown of a group of tests.

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char folder[] = "/tmp/cairn-test-XXXXXX";
static char path[64];

static int make_folder(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "%s/profile", mkdtemp(folder));
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder); // fails if a temporary file was left behind
}

#endif
