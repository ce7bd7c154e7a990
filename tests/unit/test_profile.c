// SPDX-License-Identifier: MIT
#include "folder.h"
#include "make_profile.h"
#include "profile/chunk.h"
#include "profile/encode.h"
#include "profile/fold.h"
#include "profile/reader.h"
#include "profile/totals.h"
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

static struct profile *sample_profile(void)
{
    struct profile *profile = make_profile("cpu", "ns", 1000000);
    unsigned app = make_module(profile, "/usr/bin/app"),
             libc = make_module(profile, "/lib/libc.so.6");
    memset(profile->modules[libc].build_id, 0xab, 20);
    profile->modules[libc].build_id_bytes = 20;
    for (unsigned i = 0; i < 3; i++) {
        unsigned process = make_process(profile, 100 + i, 99, i ? "child" : "app");
        profile->processes[process].forked = i == 1;
        profile->processes[process].tree_bytes = 4096 * i;
        profile->processes[process].agent_bytes = 77;
        unsigned tree = make_tree(profile, process, i ? place_make(libc, 0x500) : 0);
        uint32_t frame = 0;
        for (unsigned depth = 0; depth < 50; depth++) {
            frame = make_frame(profile, tree, frame, place_make(app, 0x1005 + depth * 64),
                               depth == 7 ? place_make(app, PLACE_OFFSET_UNKNOWN)
                                          : place_make(app, 0x1000 + depth * 64));
            profile->trees[tree].values[frame] = depth;
            make_statement(profile, tree, frame, place_make(libc, 0x20 + depth), 1000000 + depth);
        }
        make_statement(profile, tree, frame, 0, 17); // unplaced
        profile->trees[tree].stats.handler_histogram[40] = 5;
        profile->trees[tree].stats.lost = i;
    }
    make_note(profile, "a note");
    return profile;
}

static void assert_same_text(const char *a, const char *b)
{
    assert_string_equal(a ? a : "(null)", b ? b : "(null)");
}

static void assert_same_command(char **a, char **b)
{
    for (; *a && *b; a++, b++)
        assert_string_equal(*a, *b);
    assert_true(!*a && !*b);
}

static void assert_same_tree(const struct profile_tree *a, const struct profile_tree *b,
                             unsigned metrics)
{
    assert_int_equal(a->process, b->process);
    assert_int_equal(a->tid, b->tid);
    assert_true(a->start == b->start && a->threads == b->threads && a->count == b->count);
    for (uint32_t i = 0; i < a->count; i++)
        assert_true(a->nodes[i].parent == b->nodes[i].parent &&
                    a->nodes[i].site == b->nodes[i].site &&
                    a->nodes[i].function == b->nodes[i].function);
    assert_memory_equal(a->values, b->values, a->count * metrics * sizeof *a->values);
    assert_memory_equal(&a->stats, &b->stats, sizeof a->stats);
}

static void assert_same(const struct profile *a, const struct profile *b)
{
    assert_same_command(a->command, b->command);
    assert_same_text(a->tracker, b->tracker);
    assert_same_text(a->tree_kind, b->tree_kind);
    assert_true(a->start_realtime_ns == b->start_realtime_ns && a->duration_ns == b->duration_ns);
    assert_true(a->complete == b->complete && a->metric_count == b->metric_count);
    for (unsigned i = 0; i < a->metric_count; i++) {
        assert_same_text(a->metrics[i].name, b->metrics[i].name);
        assert_same_text(a->metrics[i].unit, b->metrics[i].unit);
        assert_same_text(a->metrics[i].source, b->metrics[i].source);
        assert_true(a->metrics[i].period == b->metrics[i].period);
        assert_true(a->metrics[i].rate_requested == b->metrics[i].rate_requested);
    }
    assert_int_equal(a->module_count, b->module_count);
    for (unsigned i = 0; i < a->module_count; i++) {
        assert_same_text(a->modules[i].path, b->modules[i].path);
        assert_int_equal(a->modules[i].build_id_bytes, b->modules[i].build_id_bytes);
        assert_memory_equal(a->modules[i].build_id, b->modules[i].build_id, 32);
    }
    assert_int_equal(a->process_count, b->process_count);
    for (unsigned i = 0; i < a->process_count; i++) {
        const struct profile_process *p = &a->processes[i], *q = &b->processes[i];
        assert_true(p->pid == q->pid && p->parent_pid == q->parent_pid && p->forked == q->forked);
        assert_true(p->ended == q->ended && p->start_ns == q->start_ns && p->end_ns == q->end_ns);
        assert_true(p->tree_bytes == q->tree_bytes && p->agent_bytes == q->agent_bytes);
        assert_true(p->samples == q->samples && p->cost_ns == q->cost_ns);
        assert_true(p->thread_starts == q->thread_starts && p->merged_into == q->merged_into);
        assert_same_command(p->command, q->command);
    }
    assert_int_equal(a->tree_count, b->tree_count);
    for (unsigned i = 0; i < a->tree_count; i++)
        assert_same_tree(&a->trees[i], &b->trees[i], a->metric_count);
    assert_int_equal(a->note_count, b->note_count);
    for (unsigned i = 0; i < a->note_count; i++)
        assert_same_text(a->notes[i], b->notes[i]);
}

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

static struct bytes encoded(const struct profile *profile)
{
    struct batch batch = {.level = 3};
    encode_profile(&batch, profile);
    struct bytes bytes = batch.out;
    batch.out = (struct bytes){0};
    batch_free(&batch);
    return bytes;
}

static bool says(const struct profile *profile, const char *words)
{
    for (unsigned i = 0; i < profile->note_count; i++)
        if (strstr(profile->notes[i], words))
            return true;
    return false;
}

// The costs of each statement that is still there must be right, and nothing may be added.
static void assert_part_of(const struct profile *part, const struct profile *whole)
{
    assert_true(part->tree_count <= whole->tree_count);
    for (unsigned i = 0; i < part->tree_count; i++) {
        const struct profile_tree *some = &part->trees[i], *all = &whole->trees[i];
        assert_true(some->count <= all->count);
        for (uint32_t n = 0; n < some->count; n++) {
            assert_true(n == 0 ? some->nodes[n].parent == PROFILE_NO_PARENT
                               : some->nodes[n].parent < n);
            if (n > 0 && some->nodes[n].site == 0 && some->nodes[n].function != 0) {
                assert_true(some->values[n] == 0); // stands for a lost node
                continue;
            }
            assert_true(some->values[n] == all->values[n] || some->values[n] == 0);
            if (n > 0)
                assert_true(some->nodes[n].site == all->nodes[n].site);
        }
    }
    for (unsigned i = 0; i < part->module_count && i < whole->module_count; i++)
        if (strcmp(part->modules[i].path, "[lost module]") != 0)
            assert_string_equal(part->modules[i].path, whole->modules[i].path);
}

static void test_cut_at_every_byte(void **state)
{
    (void)state;
    struct profile *whole = sample_profile();
    struct bytes bytes = encoded(whole);
    for (size_t size = 0; size < bytes.size; size++) {
        uint8_t *copy = malloc(size ? size : 1); // exactly as large, so that overruns are caught
        memcpy(copy, bytes.data, size);
        char *error = NULL;
        struct profile *part = profile_parse(copy, size, WRITER_NONE, "x", &error);
        if (size < FILE_HEAD_BYTES) {
            assert_null(part);
            assert_string_equal(error, "x is not a cairn profile");
        } else {
            assert_non_null(part);
            assert_false(part->complete);
            assert_true(says(part, "cut off"));
            assert_part_of(part, whole);
        }
        free(error);
        profile_free(part);
        free(copy);
    }
    bytes_free(&bytes);
    profile_free(whole);
}

static void test_damage_at_every_byte(void **state)
{
    (void)state;
    struct profile *whole = sample_profile();
    struct bytes bytes = encoded(whole);
    for (size_t at = 0; at < bytes.size; at++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            bytes.data[at] ^= 1u << bit;
            char *error = NULL;
            struct profile *part = profile_parse(bytes.data, bytes.size, WRITER_NONE, "x", &error);
            assert_true(at < 8 ? !part : part != NULL);
            if (part) {
                assert_false(part->complete);
                assert_true(part->note_count > 0);
                assert_true(says(part, "damaged") || says(part, "cut off"));
                assert_part_of(part, whole);
            } else {
                assert_non_null(error);
            }
            free(error);
            profile_free(part);
            bytes.data[at] ^= 1u << bit;
        }
    }
    bytes_free(&bytes);
    profile_free(whole);
}

static void test_zeroes(void **state)
{
    (void)state;
    struct profile *whole = sample_profile();
    struct bytes bytes = encoded(whole);
    uint8_t zeroes[5000] = {0};
    size_t size = bytes.size;
    bytes_put(&bytes, zeroes, sizeof zeroes);
    struct profile *again = profile_parse(bytes.data, bytes.size, WRITER_NONE, "x", NULL);
    assert_same(whole, again); // a tail that was never written changes nothing
    profile_free(again);
    memset(bytes.data + FILE_HEAD_BYTES, 0, size / 2); // but a hole in the middle is damage
    again = profile_parse(bytes.data, size, WRITER_NONE, "x", NULL);
    assert_true(says(again, "damaged"));
    assert_false(again->complete);
    profile_free(again);
    bytes_free(&bytes);
    profile_free(whole);
}

static void test_lost_chunk_of_nodes(void **state)
{
    (void)state;
    // Three chunks of nodes; the middle one is lost, the third hangs below it.
    struct profile *whole = make_profile("cpu", "ns", 1000000);
    unsigned app = make_module(whole, "/bin/app");
    unsigned tree = make_tree(whole, make_process(whole, 1, 0, "app"), 0);
    uint32_t frame = 0;
    for (unsigned i = 0; i < 300; i++)
        frame = make_frame(whole, tree, frame, place_make(app, i + 1), place_make(app, i * 16 + 1));
    uint32_t leaf = make_statement(whole, tree, frame, place_make(app, 7), 4711);
    struct batch batch = {.level = 3};
    chunk_put_file_head(&batch.out);
    encode_session(&batch, whole);
    encode_module(&batch, app, &whole->modules[app]);
    encode_process(&batch, 0, &whole->processes[0]);
    encode_tree(&batch, 0, &whole->trees[0]);
    size_t start[4];
    for (unsigned part = 0; part < 3; part++) {
        uint32_t first = part * 100, count = part == 2 ? leaf + 1 - 200 : 100;
        encode_nodes(&batch, 0, first, count, whole->trees[0].nodes + first,
                     whole->trees[0].values + first, 1);
        start[part] = batch.out.size;
        batch_flush(&batch);
    }
    encode_values(&batch, 0, 2, (uint32_t[]){150, leaf}, (uint64_t[]){999, 5000}, 1);
    encode_state(&batch, 1, true);
    batch_flush(&batch);
    batch.out.data[start[1] + CHUNK_HEAD_BYTES + 3] ^= 0x40;
    struct profile *part = profile_parse(batch.out.data, batch.out.size, WRITER_NONE, "x", NULL);
    assert_false(part->complete);
    assert_true(says(part, "100 contexts are unknown and 1 of their values lost"));
    assert_int_equal(part->trees[0].count, leaf + 1);
    assert_int_equal(part->trees[0].values[leaf], 5000);
    assert_int_equal(part->trees[0].values[150], 0);
    assert_int_equal(part->trees[0].nodes[150].parent, 0);
    profile_free(part);
    profile_free(whole);
    batch_free(&batch);
}

static void test_gaps_need_a_reason(void **state)
{
    (void)state;
    // Sound chunks that name far too high indices: no memory is spent on what they claim.
    struct profile *whole = sample_profile();
    struct batch batch = {.level = 3};
    chunk_put_file_head(&batch.out);
    encode_session(&batch, whole);
    encode_process(&batch, 4000000000u, &whole->processes[0]);
    batch_flush(&batch);
    whole->trees[0].process = 0;
    encode_process(&batch, 0, &whole->processes[0]);
    encode_tree(&batch, 3000000000u, &whole->trees[0]);
    batch_flush(&batch);
    encode_nodes(&batch, 0, 4000000000u, 1, whole->trees[0].nodes, whole->trees[0].values, 1);
    batch_flush(&batch);
    struct profile *part = profile_parse(batch.out.data, batch.out.size, WRITER_NONE, "x", NULL);
    assert_true(says(part, "damaged"));
    assert_true(part->process_count <= 1);
    profile_free(part);
    profile_free(whole);
    batch_free(&batch);
}

static void test_unknown_chunks_are_skipped(void **state)
{
    (void)state;
    struct profile *whole = sample_profile();
    struct bytes bytes = encoded(whole), more = {0};
    bytes_put_string(&more, "from the future", 15);
    chunk_put(&bytes, 4242, &more, 3);
    chunk_put(&bytes, CHUNK_FILLER, &more, 3);
    struct profile *again = profile_parse(bytes.data, bytes.size, WRITER_NONE, "x", NULL);
    assert_true(says(again, "1 parts that this version of cairn does not know were skipped"));
    assert_true(again->complete);
    assert_int_equal(again->tree_count, whole->tree_count);
    profile_free(again);
    bytes_free(&more);
    bytes_free(&bytes);
    profile_free(whole);
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
        if (sum == 0) { // damaged, not newer: the sum does not hold
            struct profile *empty = read_back();
            assert_true(says(empty, "head of the file"));
            profile_free(empty);
        }
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
    assert_int_equal(profile_write(profile, path), 0);
    chmod(path, 0600);
    char link[80];
    snprintf(link, sizeof link, "%s/link", folder);
    assert_int_equal(symlink(path, link), 0);
    assert_int_equal(profile_write(profile, link), 0);
    struct stat status;
    assert_int_equal(lstat(link, &status), 0);
    assert_true(S_ISLNK(status.st_mode));
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0600);
    unlink(link);
    profile_free(profile);
}

static void test_totals(void **state)
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

static void test_fold(void **state)
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
        cmocka_unit_test(test_large_tree),
        cmocka_unit_test(test_cut_at_every_byte),
        cmocka_unit_test(test_damage_at_every_byte),
        cmocka_unit_test(test_zeroes),
        cmocka_unit_test(test_lost_chunk_of_nodes),
        cmocka_unit_test(test_gaps_need_a_reason),
        cmocka_unit_test(test_unknown_chunks_are_skipped),
        cmocka_unit_test(test_foreign_and_newer),
        cmocka_unit_test(test_locked_is_growing),
        cmocka_unit_test(test_failed_write_keeps_the_old),
        cmocka_unit_test(test_links_and_modes_stay),
        cmocka_unit_test(test_totals),
        cmocka_unit_test(test_fold),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
