// SPDX-License-Identifier: MIT
#ifndef CAIRN_TESTS_RECORDER_FIXTURE_H
#define CAIRN_TESTS_RECORDER_FIXTURE_H

// A recorder on live memory that a test fills, and what it has written.

#include "../random.h"
#include "folder.h"
#include "make_live.h"
#include "profile/profile.h"
#include "profile/queries/totals.h"
#include "profile/recorder/recorder.h"
#include "tree/tree.h"
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { SLICE = 1 << 20, NO_SUCH_PID = 1 << 23 /* beyond what Linux gives */ };

static char *const command[] = {"app", "--fast", NULL};

// What a test that failed has left behind must not fail the next one.
static inline int clear_folder(void **state)
{
    (void)state;
    unlink(path);
    return 0;
}

static inline struct recorder *try_open(struct fake_live *live, char **error)
{
    struct recorder_description description = {
        .path = path,
        .command = command,
        .events = {{.name = "cpu", .unit = "ns", .period = 1000000, .rate_requested = 1000}},
        .event_count = 1,
        .tracker = "walk",
        .tree_kind = "full",
    };
    return recorder_open(&description, live->fd, live->session, error);
}

static inline struct recorder *open_recorder(struct fake_live *live)
{
    char *error = NULL;
    struct recorder *recorder = try_open(live, &error);
    if (!recorder)
        fail_msg("%s", error);
    return recorder;
}

static inline struct profile *read_back(void)
{
    char *error = NULL;
    struct profile *profile = profile_read(path, &error);
    if (!profile)
        fail_msg("%s", error);
    return profile;
}

static inline bool says(const struct profile *profile, const char *words)
{
    for (unsigned i = 0; i < profile->note_count; i++)
        if (strstr(profile->notes[i], words))
            return true;
    return false;
}

static inline uint64_t total_cost(const struct profile *profile)
{
    uint64_t cost = 0;
    for (unsigned i = 0; i < profile->tree_count; i++)
        for (uint32_t n = 1; n < profile->trees[i].count; n++)
            if (profile->trees[i].nodes[n].function == 0)
                cost += profile->trees[i].values[n];
    return cost;
}

static inline struct fake_process new_process(struct fake_live *live, pid_t pid,
                                              const char *program)
{
    struct fake_process process = fake_process_new(live, pid, program, strlen(program) + 1);
    fake_module(&process, 3, "/usr/bin/app");
    return process;
}

static inline uint64_t held_bytes(const struct fake_live *live)
{
    struct stat status;
    assert_int_equal(fstat(live->fd, &status), 0);
    return (uint64_t)status.st_blocks * 512;
}

#endif
