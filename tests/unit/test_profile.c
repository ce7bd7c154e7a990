// SPDX-License-Identifier: MIT
#include "folder.h"
#include "make_profile.h"
#include "profile/chunks/chunk.h"
#include "profile/live_age.h"
#include "profile/merge/fold.h"
#include "profile/queries/totals.h"
#include "profile_fixture.h"
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>

#include <cmocka.h>

static struct profile *read_back(void)
{
    char *error = NULL;
    struct profile *profile = profile_read(path, &error);
    if (!profile)
        fail_msg("%s", error);
    return profile;
}

static void test_round_trip(void **state)
{
    (void)state;
    struct profile *profile = sample_profile();
    assert_int_equal(profile_write(profile, path), 0);
    struct profile *again = read_back();
    assert_same(profile, again);
    assert_int_equal(again->format, 1);
    assert_true(again->complete);
    assert_true(again->file_bytes > 100 && again->file_bytes < 4000);
    profile_free(again);
    profile_free(profile);
}

// Of a recording of ten seconds: what a statement has live, the sum of its births, its age.
static void test_ages_are_made_of_births(void **state)
{
    (void)state;
    static const uint64_t statements[][3] = {
        {100, 0, 1000},      // from the beginning
        {100, 100 * 9, 100}, // a second old
        {0, 0, 0},
        {100, 100 * 11, 0},   // younger than the recording's last moment
        {0, 0 - 100 * 5u, 0}, // freed meanwhile
    };
    struct profile *profile = make_profile("live", "bytes", 1);
    const unsigned births = profile->metric_count++;
    profile->metrics = realloc(profile->metrics, 2 * sizeof *profile->metrics);
    assert_non_null(profile->metrics);
    profile->metrics[births] = (struct profile_metric){.period = 1};
    make_text(&profile->metrics[births].name, "live-age");
    make_text(&profile->metrics[births].unit, PROFILE_BIRTHS);
    for (unsigned metric = 0; metric < profile->metric_count; metric++)
        make_text(&profile->metrics[metric].source, PROFILE_ALLOC_SOURCE);
    profile->duration_ns = UINT64_C(10400000000);
    const unsigned tree = make_tree(profile, make_process(profile, 1, 0, "app"), 0);
    enum { COUNT = sizeof statements / sizeof *statements };
    uint32_t nodes[COUNT];
    for (unsigned i = 0; i < COUNT; i++) {
        nodes[i] =
            make_statement(profile, tree, 0, place_make(MODULE_ANONYMOUS, i), statements[i][0]);
        profile->trees[tree].values[nodes[i] * 2 + births] = statements[i][1];
    }
    profile_find_ages(profile);
    for (unsigned i = 0; i < COUNT; i++)
        assert_int_equal(profile->trees[tree].values[nodes[i] * 2 + births], statements[i][2]);
    profile_find_ages(profile); // they are ages by now
    assert_int_equal(profile->trees[tree].values[nodes[0] * 2 + births], statements[0][2]);
    assert_string_equal(profile->metrics[births].unit, PROFILE_AGES);
    profile_free(profile);
}

static void test_large_tree(void **state)
{
    (void)state;
    struct profile *profile = make_profile("cpu", "ns", 1000000);
    unsigned app = make_module(profile, "/usr/bin/app");
    unsigned tree = make_tree(profile, make_process(profile, 1, 0, "app"), 0);
    uint32_t frame = 0;
    for (unsigned i = 0; i < 300000; i++) { // recursion: several sections and chunks
        frame = make_frame(profile, tree, frame, place_make(app, 0x1234), place_make(app, 0x1200));
        if (i % 3 == 0)
            make_statement(profile, tree, frame, place_make(app, 0x1240 + i % 100), i);
    }
    assert_int_equal(profile_write(profile, path), 0);
    struct profile *again = read_back();
    assert_same(profile, again);
    profile_free(again);
    profile_free(profile);
}

static void write_file(const void *data, size_t size)
{
    unlink(path);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    assert_int_equal(write(fd, data, size), size);
    close(fd);
}

static void assert_refused(const char *words)
{
    char *error = NULL;
    assert_null(profile_read(path, &error));
    assert_non_null(strstr(error, words));
    assert_null(strchr(error, '\n'));
    free(error);
}

static void test_foreign_and_newer(void **state)
{
    (void)state;
    unlink(path);
    assert_refused("there is no profile");
    write_file("", 0);
    assert_refused("is not a cairn profile");
    write_file("#!/bin/sh\necho this is no profile at all\n", 40);
    assert_refused("is not a cairn profile");
    // A newer major version, with a head that is sound: made by patching and summing again.
    struct bytes head = {0};
    chunk_put_file_head(&head);
    for (unsigned sum = 0; sum < 2; sum++) {
        head.data[8] = FORMAT_MAJOR + 1;
        write_file(head.data, head.size);
        if (sum == 0) // damaged, not newer: the sum does not hold
            assert_refused("is damaged");
        uint32_t check = (uint32_t)XXH3_64bits(head.data, 12);
        memcpy(head.data + 12, &check, 4);
    }
    write_file(head.data, head.size);
    assert_refused("was written by a newer cairn");
    bytes_free(&head);
    char *error = NULL;
    assert_null(profile_read(folder, &error));
    assert_non_null(strstr(error, "Is a directory"));
    free(error);
}

static void test_locked_is_growing(void **state)
{
    (void)state;
    struct profile *profile = sample_profile();
    profile->complete = false;
    assert_int_equal(profile_write(profile, path), 0);
    struct profile *cut = read_back();
    assert_true(says(cut, "cut off"));
    profile_free(cut);
    int fd = open(path, O_RDWR);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    struct profile *growing = read_back();
    assert_true(says(growing, "still being recorded"));
    assert_false(says(growing, "cut off"));
    profile_free(growing);
    close(fd);
    profile_free(profile);
}

static void test_failed_write_keeps_the_old(void **state)
{
    (void)state;
    struct profile *profile = sample_profile();
    assert_int_equal(profile_write(profile, path), 0);
    // No file may grow beyond 100 bytes: as on a full disk.
    make_note(profile, "another");
    pid_t child = fork();
    if (child == 0) {
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){100, 100});
        signal(SIGXFSZ, SIG_IGN);
        _exit(profile_write(profile, path) == -EFBIG ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    struct profile *again = read_back();
    assert_int_equal(again->note_count, 1);
    assert_true(again->complete);
    profile_free(again);
    assert_int_equal(profile_write(profile, "/nonexistent/folder/x"), -ENOENT);
    profile_free(profile);
}

static void test_links_and_modes_stay(void **state)
{
    (void)state;
    struct profile *profile = sample_profile();
    unlink(path);
    struct stat status;
    // Nobody else reads the arguments of a command, and its owner only if the umask lets them.
    const mode_t usual = umask(0);
    assert_int_equal(profile_write(profile, path), 0);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0600);
    unlink(path);
    umask(0277);
    assert_int_equal(profile_write(profile, path), 0);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0400);
    umask(usual);
    chmod(path, 0640);
    char link[80];
    snprintf(link, sizeof link, "%s/link", folder);
    assert_int_equal(symlink(path, link), 0);
    assert_int_equal(profile_write(profile, link), 0);
    assert_int_equal(lstat(link, &status), 0);
    assert_true(S_ISLNK(status.st_mode));
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0640);
    unlink(path);
    assert_int_equal(profile_write(profile, link), -ENOLINK);
    unlink(link);
    assert_int_equal(profile_write(profile, folder), -EISDIR);
    assert_int_equal(profile_write(profile, "/dev/null"), -ENOTSUP);
    profile_free(profile);
}

static void test_totals_are_the_sums_of_all_trees(void **state)
{
    (void)state;
    struct profile *profile = sample_profile();
    struct profile_totals totals;
    profile_sum(profile, &totals);
    assert_int_equal(totals.samples, 153);
    assert_int_equal(totals.lost, 3);
    assert_int_equal(totals.processes, 3);
    assert_int_equal(totals.threads, 3);
    assert_int_equal(totals.nodes, 3 * 102);
    assert_true(totals_complete_percent(&totals) == 100.0);
    profile->trees[0].stats.verdicts[VERDICT_BAD_STACK] = 153;
    profile_sum(profile, &totals);
    assert_true(totals_complete_percent(&totals) == 50.0);
    uint64_t middle = totals_handler_percentile(&totals, 0.5);
    assert_true(live_bucket(middle) == live_bucket(1000));
    assert_true(totals_handler_percentile(&totals, 1.0) >= live_bucket_floor(40));
    assert_true(totals_handler_percentile(&(struct profile_totals){0}, 0.5) == 0);
    profile_free(profile);
}

static uint64_t total_cost(const struct profile *profile)
{
    uint64_t cost = 0;
    for (unsigned i = 0; i < profile->tree_count; i++)
        for (uint32_t n = 1; n < profile->trees[i].count; n++)
            if (profile->trees[i].nodes[n].function == 0)
                cost += profile->trees[i].values[n];
    return cost;
}

static void test_folding_keeps_sums_and_few_trees(void **state)
{
    (void)state;
    struct profile *profile = make_profile("cpu", "ns", 1000000);
    unsigned app = make_module(profile, "/bin/app");
    for (unsigned i = 0; i < 500; i++) {
        unsigned process = make_process(profile, 1000 + i, 1, i % 2 ? "odd" : "even");
        unsigned tree = make_tree(profile, process, 0);
        uint32_t frame = make_frame(profile, tree, 0, place_make(app, 1), place_make(app, 16));
        profile->trees[tree].values[frame] = 2;
        make_statement(profile, tree, frame, place_make(app, 20 + i % 4), 1000 + i);
        if (i % 10 == 0) { // a second thread
            tree = make_tree(profile, process, place_make(app, 64));
            make_statement(profile, tree, 0, place_make(app, 65), 7);
        }
    }
    uint64_t cost = total_cost(profile);
    bool *apart = calloc(profile->process_count, sizeof *apart);
    apart[3] = true;
    uint32_t *map = calloc(profile->tree_count, sizeof *map);
    struct profile_totals before, after;
    profile_sum(profile, &before);
    unsigned trees = profile->tree_count;
    assert_int_equal(profile_fold(profile, 1000, apart, map), 0);
    assert_int_equal(profile->tree_count, trees); // few enough
    assert_int_equal(profile_fold(profile, 100, apart, map), 0);
    profile_sum(profile, &after);
    assert_true(profile->tree_count < 60);
    assert_int_equal(profile->process_count, 500);
    assert_int_equal(total_cost(profile), cost);
    assert_int_equal(after.samples, before.samples);
    assert_int_equal(after.cost_ns, before.cost_ns);
    // The costliest keep their own; the others say where they went, and kept their totals.
    assert_int_equal(profile->processes[499].merged_into, PROFILE_NOT_MERGED);
    assert_int_equal(profile->processes[3].merged_into, PROFILE_NOT_MERGED);
    uint32_t into = profile->processes[101].merged_into;
    assert_true(into < 500);
    assert_string_equal(profile->processes[into].command[0], "odd");
    assert_int_equal(profile->processes[101].cost_ns, 1101);
    for (unsigned i = 0; i < trees; i++)
        assert_true(map[i] < profile->tree_count);
    // Again, with what has been folded already: it stays the place to fold into.
    assert_int_equal(profile_fold(profile, 20, apart, map), 0);
    assert_int_equal(total_cost(profile), cost);
    assert_true(profile->tree_count <= 10 + 1 + 4);
    assert_int_equal(profile_write(profile, path), 0);
    struct profile *again = read_back();
    assert_same(profile, again);
    profile_free(again);
    profile_free(profile);
    free(apart);
    free(map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_ages_are_made_of_births),
        cmocka_unit_test(test_large_tree),
        cmocka_unit_test(test_foreign_and_newer),
        cmocka_unit_test(test_locked_is_growing),
        cmocka_unit_test(test_failed_write_keeps_the_old),
        cmocka_unit_test(test_links_and_modes_stay),
        cmocka_unit_test(test_totals_are_the_sums_of_all_trees),
        cmocka_unit_test(test_folding_keeps_sums_and_few_trees),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
