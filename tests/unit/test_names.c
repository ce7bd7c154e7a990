// SPDX-License-Identifier: MIT

// What threads and processes are called, and how they are chosen by that.

#include "analyze/names/names.h"
#include "analyze/tree/process_tree.h"
#include "analyze_fixture.h"
#include "base/memory.h"
#include "base/system/thread_name.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void assert_pool(const char *name, const char *expected)
{
    char bytes[THREAD_NAME_BYTES] = {0}, pool[THREAD_NAME_BYTES];
    memcpy(bytes, name, strnlen(name, sizeof bytes));
    thread_name_pool(pool, bytes);
    assert_string_equal(pool, expected);
}

static void test_threads_of_a_pool_have_one_name(void **state)
{
    (void)state;
    assert_pool("worker-12", "worker-*");
    assert_pool("pool-1-thread-2", "pool-1-thread-*");
    assert_pool("C1 CompilerThre", "C1 CompilerThre"); // and C2: other work
    assert_pool("G1 Conc#0", "G1 Conc#*");
    assert_pool("av:h264:df3", "av:h264:df*");
    assert_pool("Thread-3 (work)", "Thread-* (work)");
    assert_pool("x1y2", "x1y*");
    assert_pool("42", "*");
    assert_pool("", "");
    assert_pool("no number", "no number");
    assert_pool("0123456789abcdef", "*abcde"); // without a zero at the end
    assert_true(thread_name_same_pool("worker-1", "worker-64"));
    assert_false(thread_name_same_pool("worker-1", "walker-1"));
    assert_false(thread_name_same_pool("worker", "worker-1"));
    assert_false(thread_name_same_pool("", "1"));
}

static void name_tree(const char *name)
{
    struct profile *profile = fixture_analysis()->profile;
    strncpy(profile->trees[profile->tree_count - 1].name, name, THREAD_NAME_BYTES - 1);
}

static void add_thread(place_t start, uint32_t tid, const char *name, uint64_t cost)
{
    const uint32_t root = fixture_tree(start, tid);
    fixture_statement(fixture_frame(root, 0, start, 0), start + 8, cost);
    name_tree(name);
}

static struct calltree *build(const struct build_options *options)
{
    struct analysis *analysis = fixture_analysis();
    analysis_resolve(analysis, options);
    return build_calltree(analysis->functions, analysis->profile, options);
}

static uint64_t total(const struct build_options *options, const char *path)
{
    struct calltree *tree = build(options);
    const uint64_t found =
        path ? calltree_total(tree, fixture_find(tree, path), 0) : calltree_total(tree, 0, 0);
    calltree_free(tree);
    return found;
}

static void add_threads(void)
{
    const place_t routine = fixture_function(PROGRAM, 0x2000, "routine", 1);
    fixture_figure1();
    name_tree("ui");
    add_thread(routine, 101, "worker-1", 1);
    add_thread(routine, 102, "worker-2", 2);
    add_thread(routine, 103, "lonely-3", 4);
    add_thread(routine, 104, "", 8);
    add_thread(routine, 105, "prog", 16);     // the program's: it was not named
    add_thread(routine, 106, "worker-*", 32); // of several that took turns
}

static void test_threads_of_one_name_are_one_branch(void **state)
{
    (void)state;
    fixture_start();
    add_threads();
    struct build_options by_name = {.threads = THREADS_BY_NAME};
    assert_int_equal(total(&by_name, "worker-*;routine"), 35);
    assert_int_equal(total(&by_name, "lonely-3;routine"), 4);
    assert_int_equal(total(&by_name, "routine;routine"), 24);
    assert_int_equal(total(&by_name, "main thread (ui);main"), 100);
    struct build_options by_start = {.threads = THREADS_BY_START};
    assert_int_equal(total(&by_start, "routine;routine"), 63);
    assert_int_equal(total(&by_start, "main thread;main"), 100);
    struct build_options apart = {.threads = THREADS_APART};
    assert_int_equal(total(&apart, "worker-2 [102];routine"), 2);
    assert_int_equal(total(&apart, "main thread (ui) [100];main"), 100);
    fixture_end();
}

static void test_threads_are_chosen(void **state)
{
    (void)state;
    fixture_start();
    add_threads();
    assert_int_equal(total(&(struct build_options){.thread = fixture_pattern("^worker-2$")}, NULL),
                     2);
    assert_int_equal(total(&(struct build_options){.thread = fixture_pattern("worker-*")}, NULL),
                     35);
    assert_int_equal(total(&(struct build_options){.thread = fixture_pattern("^routine$")}, NULL),
                     63);
    assert_int_equal(
        total(&(struct build_options){.thread = fixture_pattern("^main thread( |$)")}, NULL), 100);
    fixture_end();
}

static void add_process(uint32_t pid, uint32_t parent, const char *const *command, uint64_t cost)
{
    struct profile *profile = fixture_analysis()->profile;
    fixture_process(pid, command[0]);
    struct profile_process *process = &profile->processes[profile->process_count - 1];
    process->parent_pid = parent;
    process->start_ns = profile->process_count;
    size_t words = 0;
    while (command[words])
        words++;
    free(process->command);
    process->command = memory_array(words + 1, sizeof *command);
    memcpy(process->command, command, words * sizeof *command);
    fixture_statement(fixture_tree(0, pid), 0, cost);
}

#define COMMAND(...) ((const char *const[]){__VA_ARGS__, NULL})

static const char *name_of(uint32_t process)
{
    return names_process(functions_names(fixture_analysis()->functions), process);
}

static void test_processes_are_named_by_what_tells_them_apart(void **state)
{
    (void)state;
    fixture_start();
    add_process(1, 0, COMMAND("/lib/cc1", "-quiet", "foo.c", "-dumpbase", "foo.c", "-o", "/tmp/1"),
                1);
    add_process(
        2, 0, COMMAND("/lib/cc1", "-quiet", "src/bar.c", "-dumpbase", "bar.c", "-o", "/tmp/2"), 2);
    add_process(3, 0, COMMAND("server", "-p", "80"), 4);
    add_process(4, 0, COMMAND("server", "-p", "80"), 8);
    add_process(5, 0, COMMAND("sh", "-c", "a script of quite some length, that nobody will read\n"),
                16);
    add_process(6, 0, COMMAND("tar", "/a/path/that/is/much/too/long/to/be/shown/whole/file.tar"),
                32);
    add_process(7, 0, COMMAND("ar", "a/x.o"), 0);
    add_process(8, 0, COMMAND("ar", "b/x.o"), 0);
    add_process(9, 0, COMMAND("bash", "cd /a; make"), 0);
    add_process(10, 0, COMMAND("bash", "-I/usr/b"), 0);
    assert_string_equal(name_of(0), "prog");
    assert_string_equal(name_of(1), "cc1 ... foo.c ... 1");
    assert_string_equal(name_of(2), "cc1 ... bar.c ... 2");
    assert_string_equal(name_of(7), "ar a/x.o"); // its end alone does not tell
    assert_string_equal(name_of(8), "ar b/x.o");
    assert_string_equal(name_of(9), "bash cd /a; make"); // no path
    assert_string_equal(name_of(10), "bash -I/usr/b");
    assert_string_equal(name_of(3), "server -p 80");
    assert_string_equal(name_of(4), "server -p 80");
    assert_string_equal(name_of(5), "sh -c a script of quite some length, that nob...");
    assert_string_equal(name_of(6), "tar .../too/long/to/be/shown/whole/file.tar");
    struct build_options apart = {.processes = PROCESSES_APART};
    assert_int_equal(total(&apart, "cc1 ... foo.c ... 1 [1]"), 1);
    struct build_options by_program = {.processes = PROCESSES_BY_PROGRAM};
    assert_int_equal(total(&by_program, "cc1"), 3);
    assert_int_equal(total(&by_program, "server"), 12);
    // By what is shown of them, and by what is not.
    assert_int_equal(
        total(&(struct build_options){.process_name = fixture_pattern("^cc1 ... foo.c")}, NULL), 1);
    assert_int_equal(
        total(&(struct build_options){.process_name = fixture_pattern("^cc1 -quiet")}, NULL), 3);
    assert_int_equal(
        total(&(struct build_options){.process_name = fixture_pattern("^(cc1|sh) ")}, NULL), 19);
    fixture_end();
}

static void test_no_such_process(void **state)
{
    (void)state;
    fixture_start();
    fixture_figure1();
    add_process(1, 0, COMMAND("cc1", "foo.c"), 200);
    add_process(2, 0, COMMAND("cc1", "bar.c"), 200);
    struct report_options options = fixture_options();
    options.build.process_name = fixture_pattern("cc2");
    assert_null(fixture_report(options));
    assert_string_equal(fixture_error, "no process matches 'cc2'; the profile has cc1 (2), prog");
    fixture_end();
}

// A number that is used again belongs to whoever had it last.
static void test_process_tree(void **state)
{
    (void)state;
    fixture_start();
    add_process(1, 0, COMMAND("make"), 1);
    add_process(2, 1, COMMAND("gcc", "foo.c"), 2);
    add_process(3, 2, COMMAND("cc1", "foo.c"), 4);
    add_process(2, 1, COMMAND("gcc", "bar.c"), 8);
    add_process(5, 2, COMMAND("cc1", "bar.c"), 16);
    add_process(6, 77, COMMAND("orphan"), 32);
    struct analysis *analysis = fixture_analysis();
    struct calltree *tree =
        process_tree(analysis->functions, analysis->profile, &(struct build_options){0});
    assert_int_equal(calltree_total(tree, fixture_find(tree, "make [1]"), 0), 31);
    assert_int_equal(calltree_self(tree, fixture_find(tree, "make [1]"), 0), 1);
    assert_int_equal(
        calltree_total(tree, fixture_find(tree, "make [1];gcc foo.c [2];cc1 foo.c [3]"), 0), 4);
    assert_int_equal(calltree_total(tree, fixture_find(tree, "make [1];gcc bar.c [2]"), 0), 24);
    assert_int_equal(calltree_total(tree, fixture_find(tree, "orphan [6]"), 0), 32);
    calltree_free(tree);
    // One that was folded into another while recording has its own cost still.
    analysis->profile->processes[3].merged_into = 5;
    analysis->profile->processes[3].cost_ns = 4;
    analysis->profile->trees[2].process = 5;
    tree = process_tree(analysis->functions, analysis->profile, &(struct build_options){0});
    assert_int_equal(
        calltree_self(tree, fixture_find(tree, "make [1];gcc foo.c [2];cc1 foo.c [3]"), 0), 4);
    assert_int_equal(
        calltree_self(tree, fixture_find(tree, "make [1];gcc bar.c [2];cc1 bar.c [5]"), 0), 16);
    calltree_free(tree);
    fixture_end();
}

static void test_the_head_names_the_largest_threads(void **state)
{
    (void)state;
    fixture_start();
    add_threads();
    char *text = fixture_report(fixture_options());
    assert_non_null(text);
    assert_non_null(strstr(text, "\nthreads: main thread (ui) 61.3 %, worker-* (3) 21.5 %, routine "
                                 "(2) 14.7 %, lonely-3 2.5 %\n"));
    assert_null(strstr(text, "programs: "));
    free(text);
    struct report_options options = fixture_options();
    options.json = true;
    text = fixture_report(options);
    assert_non_null(strstr(text, "\"name\": \"worker-*\""));
    free(text);
    fixture_end();
}

int main(void)
{
    setenv("LC_ALL", "C", 1); // three dots
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads_of_a_pool_have_one_name),
        cmocka_unit_test(test_threads_of_one_name_are_one_branch),
        cmocka_unit_test(test_threads_are_chosen),
        cmocka_unit_test(test_processes_are_named_by_what_tells_them_apart),
        cmocka_unit_test(test_no_such_process),
        cmocka_unit_test(test_process_tree),
        cmocka_unit_test(test_the_head_names_the_largest_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
