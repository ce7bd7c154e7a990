// SPDX-License-Identifier: MIT

// Profiles as one: what adds up, what stands side by side, and calls laid upon walked trees.

#include "make_profile.h"
#include "profile/merge/merge.h"
#include "profile/reader.h"
#include "profile/totals.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#define AT(module, offset) place_make(module, offset)

static struct profile *merge(size_t count, struct profile **profiles, enum merge_processes how)
{
    char *error = NULL;
    struct profile *merged =
        profile_merge((const struct profile *const *)profiles, count, how, &error);
    if (!merged)
        fail_msg("%s", error);
    return merged;
}

static struct profile *merge2(struct profile *one, struct profile *other)
{
    return merge(2, (struct profile *[]){one, other}, MERGE_BY_PROGRAM);
}

static uint64_t sum(const struct profile *profile, const char *metric, bool statements)
{
    uint64_t sum = 0;
    for (unsigned m = 0; m < profile->metric_count; m++)
        for (unsigned t = 0; t < profile->tree_count; t++)
            for (uint32_t i = 0; i < profile->trees[t].count; i++)
                if (strcmp(profile->metrics[m].name, metric) == 0 &&
                    (profile->trees[t].nodes[i].function == 0) == statements)
                    sum += profile->trees[t].values[(size_t)i * profile->metric_count + m];
    return sum;
}

static uint64_t value(const struct profile *profile, unsigned tree, uint32_t node,
                      const char *metric)
{
    for (unsigned m = 0; m < profile->metric_count; m++)
        if (strcmp(profile->metrics[m].name, metric) == 0)
            return profile->trees[tree].values[(size_t)node * profile->metric_count + m];
    fail_msg("there is no metric %s", metric);
    return 0;
}

// The child of a node that is the function at an offset of the program; fails if it is not alone.
static uint32_t child(const struct profile *profile, unsigned tree, uint32_t parent,
                      uint64_t offset)
{
    uint32_t found = UINT32_MAX;
    for (uint32_t i = 1; i < profile->trees[tree].count; i++) {
        const struct profile_node *node = &profile->trees[tree].nodes[i];
        if (node->parent == parent && node->function && place_offset(node->function) == offset) {
            assert_int_equal(found, UINT32_MAX);
            found = i;
        }
    }
    assert_int_not_equal(found, UINT32_MAX);
    return found;
}

static void set_frame(struct profile *profile, unsigned tree, uint32_t node, uint64_t count)
{
    profile->trees[tree].values[(size_t)node * profile->metric_count] = count;
}

// main calls f and, in a thread, g. `skip` moves the module numbers.
static struct profile *small(unsigned skip, uint64_t scale, const char *program)
{
    struct profile *profile = make_profile("cpu", "ns", 1000000);
    char path[64];
    for (unsigned i = 0; i < skip; i++) {
        snprintf(path, sizeof path, "/lib/skipped%u.so", i);
        make_module(profile, path);
    }
    snprintf(path, sizeof path, "/bin/%s", program);
    unsigned exe = make_module(profile, path);
    unsigned process = make_process(profile, 100 + skip, 1, path);
    unsigned tree = make_tree(profile, process, 0);
    uint32_t main_ = make_frame(profile, tree, 0, AT(exe, 0x10), AT(exe, 0x100));
    uint32_t f = make_frame(profile, tree, main_, AT(exe, 0x110), AT(exe, 0x200));
    set_frame(profile, tree, f, 7);
    make_statement(profile, tree, main_, AT(exe, 0x120), 5 * scale);
    make_statement(profile, tree, f, AT(exe, 0x220 + skip), 3 * scale);
    tree = make_tree(profile, process, AT(exe, 0x300));
    uint32_t g = make_frame(profile, tree, 0, 0, AT(exe, 0x300));
    make_statement(profile, tree, g, AT(exe, 0x310), 11 * scale);
    return profile;
}

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
    struct profile *profiles[17];
    for (unsigned i = 0; i < 17; i++) {
        char name[16];
        profiles[i] = small(0, 1, "app");
        snprintf(name, sizeof name, "m%u", i);
        make_text(&profiles[i]->metrics[0].name, name);
    }
    char *error = NULL;
    assert_null(
        profile_merge((const struct profile *const *)profiles, 17, MERGE_BY_PROGRAM, &error));
    assert_string_equal(error, "these profiles have more than 16 different metrics");
    free(error);
    struct profile *merged = merge(16, profiles, MERGE_BY_PROGRAM);
    assert_int_equal(merged->metric_count, 16);
    profile_free(merged);
    for (unsigned i = 0; i < 17; i++)
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

// _start calls main, which calls compare through a sort that calls itself; compare calls leaf.
enum { START = 0x100, MAIN = 0x200, COMPARE = 0x300, LEAF = 0x400, SORT = 0x1000 };

static struct profile *walked(void)
{
    struct profile *profile = make_profile("cpu", "ns", 1000000);
    unsigned exe = make_module(profile, "/bin/app"), lib = make_module(profile, "/lib/libc.so");
    unsigned tree = make_tree(profile, make_process(profile, 1, 0, "app"), 0);
    uint32_t start = make_frame(profile, tree, 0, 0, AT(exe, START));
    uint32_t main_ = make_frame(profile, tree, start, AT(exe, START + 9), AT(exe, MAIN));
    uint32_t sort = make_frame(profile, tree, main_, AT(exe, MAIN + 9), AT(lib, SORT));
    uint32_t deep = make_frame(profile, tree, sort, AT(lib, SORT + 5), AT(lib, SORT));
    uint32_t compare = make_frame(profile, tree, sort, AT(lib, SORT + 9), AT(exe, COMPARE));
    uint32_t deep_compare = make_frame(profile, tree, deep, AT(lib, SORT + 9), AT(exe, COMPARE));
    make_statement(profile, tree, main_, AT(exe, MAIN + 4), 100);
    make_statement(profile, tree, compare, AT(exe, COMPARE + 4), 200);
    make_statement(profile, tree, deep_compare, AT(exe, COMPARE + 4), 600);
    set_frame(profile, tree, compare, 2); // returns
    return profile;
}

static struct profile *followed(void)
{
    struct profile *profile = make_profile("calls", "calls", 1);
    make_text(&profile->tracker, "calls");
    unsigned lib = make_module(profile, "/lib/libc.so"), exe = make_module(profile, "/bin/app");
    unsigned tree = make_tree(profile, make_process(profile, 2, 0, "app"), 0);
    uint32_t main_ = make_frame(profile, tree, 0, AT(exe, START + 9), AT(exe, MAIN));
    uint32_t compare = make_frame(profile, tree, main_, AT(lib, SORT + 9), AT(exe, COMPARE));
    uint32_t leaf = make_frame(profile, tree, compare, AT(exe, COMPARE + 9), AT(exe, LEAF));
    set_frame(profile, tree, main_, 1);
    set_frame(profile, tree, compare, 1001);
    set_frame(profile, tree, leaf, 5);
    return profile;
}

static void check_shape(struct profile *merged)
{
    assert_string_equal(merged->tracker, "walk+calls");
    assert_int_equal(merged->metric_count, 2);
    assert_string_equal(merged->metrics[0].name, "cpu");
    assert_int_equal(merged->tree_count, 1);
    assert_int_equal(sum(merged, "calls", false), 1007);
    assert_int_equal(sum(merged, "cpu", false), 2);
    uint32_t start = child(merged, 0, 0, START), main_ = child(merged, 0, start, MAIN);
    uint32_t sort = child(merged, 0, main_, SORT), deep = child(merged, 0, sort, SORT);
    uint32_t compare = child(merged, 0, sort, COMPARE);
    uint32_t deep_compare = child(merged, 0, deep, COMPARE);
    assert_int_equal(value(merged, 0, start, "calls"), 0);
    assert_int_equal(value(merged, 0, main_, "calls"), 1);
    assert_int_equal(value(merged, 0, sort, "calls"), 0);
    // A quarter of the time, a quarter of the calls; nothing is lost by rounding.
    assert_in_range(value(merged, 0, compare, "calls"), 250, 251);
    assert_int_equal(value(merged, 0, compare, "calls") + value(merged, 0, deep_compare, "calls"),
                     1001);
    // It was never sampled: it goes to the costlier one.
    assert_int_equal(value(merged, 0, child(merged, 0, deep_compare, LEAF), "calls"), 5);
}

static void check_laid(struct profile *merged)
{
    check_shape(merged);
    assert_int_equal(sum(merged, "cpu", true), 900);
}

static void calls_are_laid_upon_walked_trees(void **state)
{
    (void)state;
    struct profile *time = walked(), *calls = followed();
    struct profile *merged = merge2(time, calls), *reversed = merge2(calls, time);
    check_laid(merged);
    check_laid(reversed);
    struct profile *twice = merge2(merged, calls);
    assert_int_equal(twice->metrics[0].runs, 1);
    assert_int_equal(twice->metrics[1].runs, 2);
    assert_int_equal(sum(twice, "calls", false), 2014);
    assert_int_equal(twice->trees[0].count, merged->trees[0].count);
    profile_free(twice);
    profile_free(merged);
    profile_free(reversed);
    profile_free(time);
    profile_free(calls);
}

// Time on top of calls: frames of libraries, which samples have seen, are those of the walk.
static void samples_of_both_meet(void **state)
{
    (void)state;
    struct profile *time = walked(), *calls = followed();
    struct profile_tree *tree = &calls->trees[0];
    unsigned lib = MODULE_FIRST_FILE, exe = MODULE_FIRST_FILE + 1;
    calls->metrics = realloc(calls->metrics, 2 * sizeof *calls->metrics);
    calls->metrics[1] = (struct profile_metric){0};
    make_text(&calls->metrics[1].name, "cpu");
    make_text(&calls->metrics[1].unit, "ns");
    make_text(&calls->metrics[1].source, "test");
    uint64_t *values = calloc((size_t)tree->count * 2 + 8, sizeof *values);
    for (uint32_t i = 0; i < tree->count; i++)
        values[2 * i] = tree->values[i];
    free(tree->values);
    tree->values = values;
    tree->nodes = realloc(tree->nodes, (tree->count + 4) * sizeof *tree->nodes);
    uint32_t sort = tree->count++, line = tree->count++, own = tree->count++;
    tree->nodes[sort] = (struct profile_node){1, AT(exe, MAIN + 9), AT(lib, SORT)};
    tree->nodes[line] = (struct profile_node){sort, AT(lib, SORT + 2), 0};
    tree->nodes[own] = (struct profile_node){2, AT(exe, COMPARE + 4), 0};
    values[2 * line + 1] = 50;
    values[2 * own + 1] = 70;
    calls->metric_count = 2;
    struct profile *merged = merge2(time, calls);
    check_shape(merged);
    assert_int_equal(sum(merged, "cpu", true), 900 + 120);
    uint32_t at = child(merged, 0, child(merged, 0, child(merged, 0, 0, START), MAIN), SORT);
    // The sort is there once, with the new line; the line of compare is one that was there.
    assert_int_equal(merged->trees[0].count, time->trees[0].count + 2);
    const struct profile_node *last = &merged->trees[0].nodes[merged->trees[0].count - 1];
    assert_int_equal(last->parent, at);
    assert_int_equal(place_offset(last->site), SORT + 2);
    profile_free(merged);
    profile_free(time);
    profile_free(calls);
}

static void calls_alone_add_up(void **state)
{
    (void)state;
    struct profile *one = followed(), *other = followed();
    struct profile *merged = merge2(one, other);
    assert_int_equal(merged->trees[0].count, one->trees[0].count);
    assert_int_equal(sum(merged, "calls", false), 2014);
    assert_string_equal(merged->tracker, "calls");
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
        cmocka_unit_test(test_errors_of_hot_trees_add_up),
        cmocka_unit_test(test_complete_walks_are_those_to_the_root_and_to_the_marker),
        cmocka_unit_test(test_the_peak_of_processes_is_that_of_the_largest),
        cmocka_unit_test(runs_of_a_program_add_up),
        cmocka_unit_test(other_builds_stay_apart),
        cmocka_unit_test(threads_of_a_pool_add_up),
        cmocka_unit_test(threads_of_one_creator_add_up),
        cmocka_unit_test(processes_can_stay_apart),
        cmocka_unit_test(different_metrics_stand_side_by_side),
        cmocka_unit_test(too_many_metrics_are_refused),
        cmocka_unit_test(notes_and_words_are_told_once),
        cmocka_unit_test(merging_is_associative_and_keeps_totals),
        cmocka_unit_test(a_merged_profile_can_be_written_and_read),
        cmocka_unit_test(calls_are_laid_upon_walked_trees),
        cmocka_unit_test(samples_of_both_meet),
        cmocka_unit_test(calls_alone_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
