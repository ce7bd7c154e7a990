// SPDX-License-Identifier: MIT

// Profiles as one: runs that add up, and metrics that stand side by side.

#include "merge_fixture.h"
#include "profile/queries/totals.h"
#include "profile/reader.h"
#include "profile/write_records.h"
#include <stdio.h>
#include <unistd.h>

static void runs_of_a_program_add_up(void **state)
{
    (void)state;
    struct profile *one = small(0, 1, "app"), *other = small(2, 100, "app");
    struct profile *merged = merge2(one, other);
    assert_int_equal(merged->metric_count, 1);
    assert_int_equal(merged->tree_count, 2);
    assert_int_equal(merged->process_count, 2);
    assert_int_equal(merged->processes[0].merged_into, PROFILE_NOT_MERGED);
    assert_int_equal(merged->processes[1].merged_into, 0);
    assert_int_equal(merged->processes[1].pid, 102);
    assert_int_equal(merged->processes[1].cost_ns, 1900);
    assert_int_equal(sum(merged, "cpu", true), 1919);
    assert_int_equal(sum(merged, "cpu", false), 14); // returns
    assert_int_equal(merged->module_count, MODULE_FIRST_FILE + 3);
    assert_int_equal(merged->trees[0].threads, 2);
    assert_int_equal(merged->trees[0].stats.samples, 4);
    // root, main, f, a line of main, a line of f for each: the modules were lined up.
    assert_int_equal(merged->trees[0].count, 6);
    assert_int_equal(merged->trees[1].count, 3);
    profile_free(one);
    profile_free(other);
    profile_free(merged);
}

static void other_builds_stay_apart(void **state)
{
    (void)state;
    struct profile *one = small(0, 1, "app"), *other = small(0, 1, "app");
    other->modules[MODULE_FIRST_FILE].build_id_bytes = 4;
    struct profile *merged = merge2(one, other);
    assert_int_equal(merged->module_count, MODULE_FIRST_FILE + 2);
    assert_int_equal(merged->trees[0].count, 9);
    profile_free(one);
    profile_free(other);
    profile_free(merged);
}

static void threads_of_a_pool_add_up(void **state)
{
    (void)state;
    struct profile *one = small(0, 1, "app"), *other = small(0, 100, "app");
    strcpy(one->trees[0].name, "main"); // the first thread: whatever it is called
    strcpy(one->trees[1].name, "worker-1");
    strcpy(other->trees[1].name, "worker-2");
    struct profile *merged = merge2(one, other);
    assert_int_equal(merged->tree_count, 2);
    assert_string_equal(merged->trees[0].name, "");
    assert_string_equal(merged->trees[1].name, "worker-*");
    assert_int_equal(merged->trees[1].threads, 2);
    profile_free(merged);
    strcpy(other->trees[1].name, "loader");
    merged = merge2(one, other);
    assert_int_equal(merged->tree_count, 3);
    profile_free(merged);
    profile_free(one);
    profile_free(other);
}

static void processes_can_stay_apart(void **state)
{
    (void)state;
    struct profile *profiles[] = {small(0, 1, "app"), small(1, 1, "app"), small(2, 1, "tool")};
    struct profile *merged = merge(3, profiles, MERGE_APART);
    assert_int_equal(merged->tree_count, 6);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(merged->processes[i].merged_into, PROFILE_NOT_MERGED);
    profile_free(merged);
    merged = merge(3, profiles, MERGE_BY_PROGRAM);
    assert_int_equal(merged->tree_count, 4);
    assert_int_equal(merged->processes[1].merged_into, 0);
    assert_int_equal(merged->processes[2].merged_into, PROFILE_NOT_MERGED);
    profile_free(merged);
    for (unsigned i = 0; i < 3; i++)
        profile_free(profiles[i]);
}

static void different_metrics_stand_side_by_side(void **state)
{
    (void)state;
    struct profile *one = small(0, 1, "app"), *other = small(0, 10, "app");
    make_text(&other->metrics[0].name, "wall");
    other->metrics[0].period = 5;
    struct profile *merged = merge2(one, other);
    assert_int_equal(merged->metric_count, 2);
    assert_int_equal(sum(merged, "cpu", true), 19);
    assert_int_equal(sum(merged, "wall", true), 190);
    assert_int_equal(merged->trees[0].count, 5);
    assert_int_equal(merged->metrics[0].period, 1000000);
    assert_int_equal(merged->metrics[1].period, 5);
    profile_free(one);
    profile_free(other);
    profile_free(merged);
}

static void too_many_metrics_are_refused(void **state)
{
    (void)state;
    struct profile *profiles[PROFILE_MOST_METRICS + 1];
    for (unsigned i = 0; i <= PROFILE_MOST_METRICS; i++) {
        char name[16];
        profiles[i] = small(0, 1, "app");
        snprintf(name, sizeof name, "m%u", i);
        make_text(&profiles[i]->metrics[0].name, name);
    }
    char *error = NULL;
    assert_null(profile_merge(
        &(struct merge_source){PROFILE_MOST_METRICS + 1, merge_from_memory, profiles, NULL},
        MERGE_BY_PROGRAM, &error));
    assert_string_equal(error, "these profiles have more than 40 different metrics");
    free(error);
    struct profile *merged = merge(PROFILE_MOST_METRICS, profiles, MERGE_BY_PROGRAM);
    assert_int_equal(merged->metric_count, PROFILE_MOST_METRICS);
    profile_free(merged);
    for (unsigned i = 0; i <= PROFILE_MOST_METRICS; i++)
        profile_free(profiles[i]);
}

static void notes_and_words_are_told_once(void **state)
{
    (void)state;
    struct profile *one = small(0, 1, "app"), *other = small(0, 1, "app");
    make_note(one, "the same");
    make_note(other, "the same");
    make_note(other, "another");
    other->complete = false;
    other->metrics[0].rate_requested = 5;
    make_text(&other->metrics[0].source, "posix-timer");
    struct profile *merged = merge2(one, other), *again = merge2(merged, one);
    assert_int_equal(again->note_count, 2);
    assert_false(again->complete);
    assert_string_equal(again->tracker, "walk");
    assert_string_equal(again->metrics[0].source, "several");
    assert_true(again->metrics[0].rate_requested == 0);
    assert_int_equal(again->process_count, 3);
    profile_free(again);
    profile_free(one);
    profile_free(other);
    profile_free(merged);
}

// Both orders of merging give the same nodes, whatever their numbers: compared as text, sorted.
static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static char *described(const struct profile *profile)
{
    char **lines = NULL, *text = NULL;
    size_t count = 0, bytes = 0;
    for (unsigned t = 0; t < profile->tree_count; t++)
        for (uint32_t i = 0; i < profile->trees[t].count; i++) {
            const struct profile_tree *tree = &profile->trees[t];
            char *line = NULL;
            size_t size = 0;
            FILE *out = open_memstream(&line, &size);
            for (uint32_t at = i; at != PROFILE_NO_PARENT; at = tree->nodes[at].parent)
                fprintf(out, "%s+%llx %llx;",
                        profile->modules[place_module(tree->nodes[at].function)].path
                            ? profile->modules[place_module(tree->nodes[at].function)].path
                            : "",
                        (unsigned long long)place_offset(tree->nodes[at].function),
                        (unsigned long long)place_offset(tree->nodes[at].site));
            for (unsigned m = 0; m < profile->metric_count; m++)
                fprintf(out, " %llu",
                        (unsigned long long)tree->values[(size_t)i * profile->metric_count + m]);
            fclose(out);
            lines = realloc(lines, (count + 1) * sizeof *lines);
            lines[count++] = line;
        }
    qsort(lines, count, sizeof *lines, by_text);
    FILE *out = open_memstream(&text, &bytes);
    for (size_t i = 0; i < count; i++) {
        fprintf(out, "%s\n", lines[i]);
        free(lines[i]);
    }
    fclose(out);
    free(lines);
    return text;
}

// A random tree of few functions.
static struct profile *random_profile(unsigned *seed)
{
    struct profile *profile = make_profile("cpu", "ns", 1000);
    unsigned exe = make_module(profile, "/bin/app"), lib = make_module(profile, "/lib/x.so");
    if (rand_r(seed) & 1)
        exe = make_module(profile, "/bin/other");
    unsigned process = make_process(profile, 1, 1, rand_r(seed) & 1 ? "app" : "other");
    unsigned tree = make_tree(profile, process, rand_r(seed) & 1 ? 0 : AT(exe, 0x10));
    for (unsigned i = 0; i < 60; i++) {
        uint32_t parent = (uint32_t)rand_r(seed) % profile->trees[tree].count;
        if (parent && profile->trees[tree].nodes[parent].function == 0)
            continue;
        unsigned module = rand_r(seed) & 1 ? exe : lib;
        uint64_t offset = (uint64_t)(rand_r(seed) % 4 + 1) * 0x100;
        if (rand_r(seed) & 1)
            make_statement(profile, tree, parent, AT(module, offset), (uint64_t)rand_r(seed) % 50);
        else
            set_frame(profile, tree,
                      make_frame(profile, tree, parent, AT(module, offset), AT(lib, offset)),
                      (uint64_t)rand_r(seed) % 9);
    }
    return profile;
}

static void merging_is_associative_and_keeps_totals(void **state)
{
    (void)state;
    unsigned seed = 42;
    for (unsigned round = 0; round < 50; round++) {
        struct profile *p[3];
        uint64_t cost = 0, returns = 0, samples = 0;
        for (unsigned i = 0; i < 3; i++) {
            p[i] = random_profile(&seed);
            cost += sum(p[i], "cpu", true);
            returns += sum(p[i], "cpu", false);
            samples += p[i]->trees[0].stats.samples;
        }
        struct profile *left = merge2(p[0], p[1]), *right = merge2(p[1], p[2]);
        struct profile *all[] = {merge2(left, p[2]), merge2(p[0], right),
                                 merge(3, p, MERGE_BY_PROGRAM)};
        char *text = described(all[0]);
        for (unsigned i = 0; i < 3; i++) {
            struct profile_totals totals;
            profile_sum(all[i], &totals);
            char *other = described(all[i]);
            assert_string_equal(text, other);
            assert_int_equal(sum(all[i], "cpu", true), cost);
            assert_int_equal(sum(all[i], "cpu", false), returns);
            assert_int_equal(totals.samples, samples);
            free(other);
            profile_free(all[i]);
        }
        free(text);
        profile_free(left);
        profile_free(right);
        for (unsigned i = 0; i < 3; i++)
            profile_free(p[i]);
    }
}

static void a_merged_profile_can_be_written_and_read(void **state)
{
    (void)state;
    struct profile *one = small(0, 1, "app"), *other = small(3, 10, "tool");
    struct profile *merged = merge2(one, other);
    char path[] = "/tmp/cairn-merge-XXXXXX";
    close(mkstemp(path));
    assert_int_equal(profile_write(merged, path), 0);
    char *error = NULL;
    struct profile *read = profile_read(path, &error);
    assert_non_null(read);
    assert_int_equal(read->note_count, 0);
    assert_int_equal(read->metrics[0].runs, 2);
    char *written = described(merged), *found = described(read);
    assert_string_equal(written, found);
    free(written);
    free(found);
    unlink(path);
    profile_free(read);
    profile_free(merged);
    profile_free(one);
    profile_free(other);
}

// Two runs of a program whose modules have other numbers, and a worker that main() created, or
// that another thread did.
static struct profile *created(bool swapped)
{
    struct profile *profile = make_profile("cpu", "ns", 1000);
    unsigned library = swapped ? make_module(profile, "/lib/pool.so") : 0,
             app = make_module(profile, "/usr/bin/app");
    if (!swapped)
        library = make_module(profile, "/lib/pool.so");
    const unsigned process = make_process(profile, 1, 0, "app");
    uint32_t call = make_creation(profile, PROFILE_NO_PARENT, 0, AT(app, 0x100));
    call = make_creation(profile, call, AT(app, 0x120), 0);
    uint32_t again = make_creation(profile, call, 0, AT(library, 0x200));
    again = make_creation(profile, again, AT(library, 0x220), 0);
    for (unsigned i = 0; i < 2; i++) {
        const unsigned tree = make_tree(profile, process, AT(library, 0x200));
        profile->trees[tree].creator = (i ? again : call) + 1;
        make_statement(profile, tree, 0, AT(library, 0x240), 10 + i);
    }
    return profile;
}

static struct profile *merge_named(size_t count, struct profile **profiles, char *const *names,
                                   enum merge_processes how)
{
    char *error = NULL;
    const struct merge_source source = {count, merge_from_memory, profiles, names};
    struct profile *merged = profile_merge(&source, how, &error);
    if (!merged)
        fail_msg("%s", error);
    return merged;
}

// The ranks of these, as they are after the profile was written and read again.
static void check_ranks(const struct profile *profile, uint32_t count, const uint64_t *sums)
{
    struct batch batch = {0};
    char *error = NULL;
    write_profile(&batch, profile);
    struct profile *back =
        profile_parse(batch.out.data, batch.out.size, WRITER_NONE, "back", &error);
    assert_non_null(back);
    assert_int_equal(back->note_count, 0);
    assert_int_equal(back->rank_count, count);
    for (uint32_t i = 0; i < count; i++) {
        assert_string_equal(back->ranks[i].name, profile->ranks[i].name);
        assert_int_equal(back->ranks[i].metrics, 1);
        assert_int_equal(rank_sum(profile, i, 0), sums[i]);
        assert_int_equal(rank_sum(back, i, 0), sums[i]);
    }
    profile_free(back);
    batch_free(&batch);
}

static void each_rank_keeps_its_costs(void **state)
{
    (void)state;
    struct profile *one = small(0, 1, "app"), *other = small(0, 10, "app");
    struct profile *third = small(0, 100, "tool");
    struct profile *both = merge_named(2, (struct profile *[]){one, other},
                                       (char *[]){"one", "other"}, MERGE_BY_PROGRAM);
    check_ranks(both, 2, (uint64_t[]){19, 190});
    // A merged profile passes its ranks on, wherever their nodes go.
    struct profile *all = merge_named(2, (struct profile *[]){third, both},
                                      (char *[]){"third", "both"}, MERGE_BY_PROGRAM);
    check_ranks(all, 3, (uint64_t[]){1900, 19, 190});
    assert_string_equal(all->ranks[1].name, "one");
    struct profile *apart =
        merge_named(2, (struct profile *[]){both, third}, (char *[]){"both", "third"}, MERGE_APART);
    check_ranks(apart, 3, (uint64_t[]){19, 190, 1900});
    struct profile *sums = merge2(one, other);
    assert_int_equal(sums->rank_count, 0);
    struct profile *profiles[] = {one, other, third, both, all, apart, sums};
    for (size_t i = 0; i < sizeof profiles / sizeof *profiles; i++)
        profile_free(profiles[i]);
}

// The program has more nodes than a rank says, or less: costs of none are left out.
static void costs_of_no_node_are_left_out(void **state)
{
    (void)state;
    struct profile *one = small(0, 1, "app"), *other = small(0, 10, "app");
    struct profile *both = merge_named(2, (struct profile *[]){one, other},
                                       (char *[]){"one", "other"}, MERGE_BY_PROGRAM);
    struct rank_cost costs[] = {{0, 0, 1u << 30, 7}, {0, 0, 1, 5}, {0, 9, 0, 7}, {30, 0, 0, 7}};
    assert_int_equal(rank_set_costs(&both->ranks[0], costs, 4), 0);
    assert_int_equal(rank_sum(both, 0, 0), 5);
    profile_free(one);
    profile_free(other);
    profile_free(both);
}

static void threads_of_one_creator_add_up(void **state)
{
    (void)state;
    struct profile *one = created(false), *other = created(true);
    struct profile *merged = merge2(one, other);
    assert_int_equal(merged->creation_count, 4);
    assert_int_equal(merged->tree_count, 2);
    for (unsigned i = 0; i < 2; i++) {
        const struct profile_tree *tree = &merged->trees[i];
        const struct profile_creation *call = &merged->creations[tree->creator - 1];
        const struct profile_creation *frame = &merged->creations[call->parent];
        assert_int_equal(tree->threads, 2);
        assert_int_equal(tree->values[1], 20 + 2 * i);
        assert_true(call->function == 0 && place_offset(call->site) == (i ? 0x220 : 0x120));
        assert_string_equal(merged->modules[place_module(frame->function)].path,
                            i ? "/lib/pool.so" : "/usr/bin/app");
    }
    assert_int_equal(merged->creations[merged->trees[1].creator - 1].parent, 2);
    profile_free(merged);
    profile_free(one);
    profile_free(other);
}

static void test_complete_walks_are_those_to_the_root_and_to_the_marker(void **state)
{
    (void)state;
    struct profile_totals totals = {0};
    for (unsigned i = 0; i < VERDICT_COUNT; i++)
        totals.verdicts[i] = 100;
    totals.verdicts[VERDICT_COMPLETE] = 5;
    totals.verdicts[VERDICT_MARKER] = 3;
    assert_int_equal(totals_complete(&totals), 8);
    assert_int_equal(totals_walks(&totals), 8 + 100 * (VERDICT_COUNT - 2));
}

// Processes have their peaks at different times.
static void test_the_peak_of_processes_is_that_of_the_largest(void **state)
{
    (void)state;
    struct profile_process processes[] = {{.alloc = {.live = 10, .peak = 30}},
                                          {.alloc = {.live = 20, .peak = 20}}};
    const struct profile profile = {.processes = processes, .process_count = 2};
    struct profile_totals totals;
    profile_sum(&profile, &totals);
    assert_int_equal(totals.alloc.live, 30);
    assert_int_equal(totals.alloc.peak, 30);
}

static void test_errors_of_hot_trees_add_up(void **state)
{
    (void)state;
    struct profile_hot into = {.counters = 5, .floor = 3, .made_up = -2};
    hot_add(&into, &(struct profile_hot){.counters = 7, .floor = 4, .made_up = 5});
    assert_int_equal(into.counters, 7);
    assert_int_equal(into.floor, 7);
    assert_int_equal(into.made_up, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_of_a_program_add_up),
        cmocka_unit_test(other_builds_stay_apart),
        cmocka_unit_test(threads_of_a_pool_add_up),
        cmocka_unit_test(processes_can_stay_apart),
        cmocka_unit_test(different_metrics_stand_side_by_side),
        cmocka_unit_test(too_many_metrics_are_refused),
        cmocka_unit_test(notes_and_words_are_told_once),
        cmocka_unit_test(merging_is_associative_and_keeps_totals),
        cmocka_unit_test(a_merged_profile_can_be_written_and_read),
        cmocka_unit_test(each_rank_keeps_its_costs),
        cmocka_unit_test(costs_of_no_node_are_left_out),
        cmocka_unit_test(threads_of_one_creator_add_up),
        cmocka_unit_test(test_complete_walks_are_those_to_the_root_and_to_the_marker),
        cmocka_unit_test(test_the_peak_of_processes_is_that_of_the_largest),
        cmocka_unit_test(test_errors_of_hot_trees_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
