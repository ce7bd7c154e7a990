// SPDX-License-Identifier: MIT
// Files that were cut off, damaged, or written by others: what is still told of them is right.
#include "make_profile.h"
#include "profile/reader.h"
#include "profile/write_records.h"
#include "profile_fixture.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

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
    whole->overhead = (struct profile_overhead){700, 200};
    whole->kernel = strdup("frames");
    struct bytes bytes = encoded(whole);
    for (size_t size = 0; size < bytes.size; size++) {
        uint8_t *copy = malloc(size ? size : 1); // exactly as large, so that overruns are caught
        memcpy(copy, bytes.data, size);
        char *error = NULL;
        struct profile *part = profile_parse(copy, size, WRITER_NONE, "x", &error);
        if (size < FILE_HEAD_BYTES) {
            assert_null(part);
            assert_string_equal(error, "x is not a cairn profile");
        } else if (!part) {
            assert_string_equal(
                error, "x is damaged: nothing that was recorded can be read; record again");
            assert_true(size < bytes.size / 4);
        } else {
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

static void test_a_tail_that_was_never_written_changes_nothing(void **state)
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
    memset(bytes.data + FILE_HEAD_BYTES, 0, size / 2); // but a hole is damage
    char *error = NULL;
    again = profile_parse(bytes.data, size, WRITER_NONE, "x", &error);
    assert_null(again); // here nothing is left of what was recorded
    assert_string_equal(error, "x is damaged: nothing that was recorded can be read; record again");
    free(error);
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
    write_session(&batch, whole);
    write_module(&batch, app, &whole->modules[app]);
    write_process(&batch, 0, &whole->processes[0]);
    write_tree(&batch, 0, &whole->trees[0]);
    size_t start[4];
    for (unsigned part = 0; part < 3; part++) {
        uint32_t first = part * 100, count = part == 2 ? leaf + 1 - 200 : 100;
        write_nodes(&batch, &(struct written_nodes){0, first, count, whole->trees[0].nodes + first,
                                                    whole->trees[0].values + first, 1});
        start[part] = batch.out.size;
        batch_flush(&batch);
    }
    write_values(&batch, &(struct written_values){0, 2, (uint32_t[]){150, leaf},
                                                  (uint64_t[]){999, 5000}, 1});
    write_state(&batch, 1, true);
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
    write_session(&batch, whole);
    write_process(&batch, 4000000000u, &whole->processes[0]);
    batch_flush(&batch);
    whole->trees[0].process = 0;
    write_process(&batch, 0, &whole->processes[0]);
    write_tree(&batch, 3000000000u, &whole->trees[0]);
    batch_flush(&batch);
    write_nodes(&batch, &(struct written_nodes){0, 4000000000u, 1, whole->trees[0].nodes,
                                                whole->trees[0].values, 1});
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut_at_every_byte),
        cmocka_unit_test(test_damage_at_every_byte),
        cmocka_unit_test(test_a_tail_that_was_never_written_changes_nothing),
        cmocka_unit_test(test_lost_chunk_of_nodes),
        cmocka_unit_test(test_gaps_need_a_reason),
        cmocka_unit_test(test_unknown_chunks_are_skipped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
