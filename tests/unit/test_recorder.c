// SPDX-License-Identifier: MIT
#include "recorder_fixture.h"
#include "tree_nodes.h"

static void test_each_update_adds_what_is_new(void **state)
{
    (void)state;
    struct fake_live live = fake_live_new(SLICE, 4);
    struct recorder *recorder = open_recorder(&live);
    struct profile *profile = read_back(); // has its head at once
    assert_string_equal(profile->command[1], "--fast");
    assert_string_equal(profile->metrics[0].name, "cpu");
    assert_true(says(profile, "still being recorded"));
    assert_int_equal(profile->tree_count, 0);
    profile_free(profile);

    struct fake_process process = fake_process_new(&live, getpid(), "app\0--fast", 11);
    fake_module(&process, 3, "/usr/bin/app");
    struct live_thread *thread = fake_thread(&process, 0);
    fake_thread(&process, place_make(3, 99)); // never sampled: not in the profile
    uint64_t cost = 0;
    for (unsigned round = 0; round < 20; round++) {
        for (unsigned i = 0; i < 50; i++) {
            uint64_t functions[3] = {0x100, 0x200 + round * 16, 0x1000 + i * 16};
            fake_sample(&process, thread, functions, 3, functions[2] + 4, 1000 + i);
            cost += 1000 + i;
        }
        if (round == 7)
            fake_module(&process, 4, "/usr/lib/late.so");
        assert_int_equal(recorder_update(recorder), 0);
        profile = read_back();
        assert_int_equal(total_cost(profile), cost);
        assert_false(profile->complete);
        profile_free(profile);
    }
    fake_note(&process, "a note\nof the agent");
    fake_note(&process, "a note\nof the agent");
    recorder_note(recorder, "a note of the tool");
    struct recorder_totals totals;
    recorder_totals(recorder, &totals);
    assert_int_equal(totals.samples, 1000);
    assert_int_equal(totals.cost_ns, cost);
    assert_int_equal(totals.complete, 1000);
    assert_int_equal(totals.guessed + totals.truncated, 0);
    assert_int_equal(totals.processes, 1);
    assert_int_equal(totals.live_processes, 1);
    assert_int_equal(totals.threads, 2);
    assert_int_equal(totals.nodes, tree_nodes(&process.arena, thread->tree));

    struct stat before, after;
    stat(path, &before);
    assert_int_equal(recorder_update(recorder), 0); // the two notes
    assert_int_equal(recorder_update(recorder), 0);
    stat(path, &after);
    assert_int_equal(recorder_update(recorder), 0);
    stat(path, &before);
    assert_int_equal(before.st_size, after.st_size); // nothing new: nothing written

    assert_int_equal(recorder_close(recorder), 0);
    profile = read_back();
    assert_true(profile->complete);
    assert_true(profile->file_bytes < (uint64_t)after.st_size);
    assert_int_equal(total_cost(profile), cost);
    assert_int_equal(profile->tree_count, 1);
    assert_int_equal(profile->trees[0].count, tree_nodes(&process.arena, thread->tree));
    assert_int_equal(profile->trees[0].stats.samples, 1000);
    assert_int_equal(profile->process_count, 1);
    assert_int_equal(profile->processes[0].pid, getpid());
    assert_int_equal(profile->processes[0].samples, 1000);
    assert_false(profile->processes[0].ended);
    assert_string_equal(profile->processes[0].command[1], "--fast");
    assert_string_equal(profile->metrics[0].source, "perf-task-clock");
    assert_int_equal(profile->note_count, 2);
    assert_true(says(profile, "a note of the agent"));
    assert_int_equal(profile->module_count, 5);
    assert_string_equal(profile->modules[4].path, "/usr/lib/late.so");
    profile_free(profile);
    fake_process_free(&process);
    fake_live_free(&live);
}

static void test_modules_of_two_processes(void **state)
{
    (void)state;
    struct fake_live live = fake_live_new(SLICE, 4);
    struct fake_process one = new_process(&live, NO_SUCH_PID, "one");
    struct fake_process two = fake_process_new(&live, NO_SUCH_PID + 1, "two", 4);
    // Other numbers for the same files: one list in the profile. 3 stands for another file here.
    fake_module(&one, 4, "/lib/libc.so");
    fake_module(&two, 3, "/usr/bin/other");
    fake_module(&two, 2, "[vdso]");
    struct live_thread *thread = fake_thread(&two, place_make(9, 5)); // a module never told
    fake_sample(&two, thread, (uint64_t[]){0x100}, 1, 0x104, 5);
    thread = fake_thread(&one, 0);
    fake_sample(&one, thread, (uint64_t[]){0x100}, 1, 0x104, 5);
    struct recorder *recorder = open_recorder(&live);
    assert_int_equal(recorder_close(recorder), 0);
    struct profile *profile = read_back();
    assert_int_equal(profile->module_count, 6);
    assert_string_equal(profile->modules[2].path, "[vdso]");
    assert_int_equal(profile->modules[2].build_id_bytes, 20);
    unsigned module = place_module(profile->trees[0].nodes[2].function);
    assert_string_equal(profile->modules[module].path, "/usr/bin/app");
    module = place_module(profile->trees[1].nodes[2].function);
    assert_string_equal(profile->modules[module].path, "/usr/bin/other");
    assert_int_equal(place_module(profile->trees[1].start), MODULE_NONE);
    assert_true(profile->trees[1].start != 0);
    assert_true(profile->processes[0].ended && profile->processes[1].ended);
    profile_free(profile);
    fake_process_free(&one);
    fake_process_free(&two);
    fake_live_free(&live);
}

// A thread may be named at any time, and by a program that scribbles.
static void test_a_thread_is_known_by_its_newest_name(void **state)
{
    (void)state;
    struct fake_live live = fake_live_new(SLICE, 4);
    struct fake_process process = new_process(&live, getpid(), "app");
    struct live_thread *thread = fake_thread(&process, place_make(3, 99));
    fake_sample(&process, thread, (uint64_t[]){0x100}, 1, 0x104, 5);
    struct recorder *recorder = open_recorder(&live);
    assert_int_equal(recorder_update(recorder), 0);
    struct profile *profile = read_back();
    assert_string_equal(profile->trees[0].name, "");
    profile_free(profile);
    strcpy(thread->name, "worker-1"); // and nothing else is new
    assert_int_equal(recorder_update(recorder), 0);
    profile = read_back();
    assert_string_equal(profile->trees[0].name, "worker-1");
    profile_free(profile);
    memset(thread->name, 'x', sizeof thread->name);
    assert_int_equal(recorder_close(recorder), 0);
    profile = read_back();
    assert_string_equal(profile->trees[0].name, "xxxxxxxxxxxxxxx");
    profile_free(profile);
    fake_process_free(&process);
    fake_live_free(&live);
}

static void assert_refused(struct fake_live *live, const char *words)
{
    char *error = NULL;
    assert_null(try_open(live, &error));
    assert_non_null(strstr(error, words));
    assert_null(strchr(error, '\n'));
    free(error);
}

static void test_what_is_not_overwritten(void **state)
{
    (void)state;
    struct fake_live live = fake_live_new(SLICE, 1);
    unlink(path);
    FILE *file = fopen(path, "w");
    fputs("my thesis, the only copy", file);
    fclose(file);
    assert_refused(&live, "is not a cairn profile and stays as it is");
    char text[40] = "";
    file = fopen(path, "r");
    assert_non_null(fgets(text, sizeof text, file));
    fclose(file);
    assert_string_equal(text, "my thesis, the only copy");
    unlink(path);
    mkdir(path, 0777);
    assert_refused(&live, "not an ordinary file");
    rmdir(path);
    struct recorder *recorder = open_recorder(&live);
    assert_refused(&live, "is being recorded by another cairn");
    // A reader of the old profile is not disturbed by a new one under the same name.
    assert_int_equal(recorder_close(recorder), 0);
    int old = open(path, O_RDONLY);
    recorder = open_recorder(&live);
    struct stat before, after;
    fstat(old, &before);
    stat(path, &after);
    assert_true(before.st_ino != after.st_ino && before.st_size > 0);
    close(old);
    assert_int_equal(recorder_close(recorder), 0);
    strcat(path, "/x");
    assert_refused(&live, "Not a directory");
    *strrchr(path, '/') = '\0';
    fake_live_free(&live);
}

// Somebody else takes the name while we record: theirs is left alone.
static void test_replaced_while_recording(void **state)
{
    (void)state;
    struct fake_live live = fake_live_new(SLICE, 1);
    struct recorder *recorder = open_recorder(&live);
    unlink(path);
    FILE *file = fopen(path, "w");
    fputs("new", file);
    fclose(file);
    assert_int_equal(recorder_close(recorder), -ESTALE);
    struct stat status;
    stat(path, &status);
    assert_int_equal(status.st_size, 3);
    unlink(path);
    fake_live_free(&live);
}

// Values that do not compress, all of them new each time: the file is rewritten before it is huge.
static void test_compacts_on_the_way(void **state)
{
    (void)state;
    enum { FUNCTIONS = 20000, ROUNDS = 150 };
    struct fake_live live = fake_live_new(4 << 20, 2);
    struct recorder *recorder = open_recorder(&live);
    struct fake_process process = new_process(&live, getpid(), "app");
    struct live_thread *thread = fake_thread(&process, 0);
    uint64_t cost = 0, largest = 0;
    unsigned shrinks = 0;
    off_t before = 0;
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < FUNCTIONS; i++) {
            uint64_t amount = next_random() >> 24;
            fake_sample(&process, thread, (uint64_t[]){16}, 1, i, amount);
            cost += amount;
        }
        // A new tree now and then, so that numbers given before and after meet.
        if (round % 40 == 39) {
            fake_sample(&process, fake_thread(&process, place_make(3, round)), (uint64_t[]){16}, 1,
                        5, 7);
            cost += 7;
        }
        assert_int_equal(recorder_update(recorder), 0);
        struct stat status;
        stat(path, &status);
        shrinks += status.st_size < before;
        before = status.st_size;
        largest = (uint64_t)before > largest ? (uint64_t)before : largest;
        if (shrinks == 1 && status.st_size < 1 << 20) {
            struct profile *profile = read_back(); // rewritten, locked, and not complete
            assert_int_equal(total_cost(profile), cost);
            assert_true(says(profile, "still being recorded"));
            assert_false(profile->complete);
            profile_free(profile);
        }
    }
    assert_true(shrinks >= 1);
    assert_true(largest < 18 << 20);
    assert_int_equal(recorder_close(recorder), 0);
    struct profile *profile = read_back();
    assert_int_equal(total_cost(profile), cost);
    assert_int_equal(profile->tree_count, 1 + ROUNDS / 40);
    assert_int_equal(profile->note_count, 0);
    assert_true(profile->complete);
    profile_free(profile);
    fake_process_free(&process);
    fake_live_free(&live);
}

// A live view: another process reads while the file grows and is compacted.
static void test_reader_beside_the_writer(void **state)
{
    (void)state;
    struct fake_live live = fake_live_new(SLICE, 2);
    struct recorder *recorder = open_recorder(&live);
    struct fake_process process = new_process(&live, getpid(), "app");
    struct live_thread *thread = fake_thread(&process, 0);
    pid_t reader = fork();
    if (reader == 0) {
        uint64_t before = 0;
        for (;;) {
            struct profile *profile = profile_read(path, NULL);
            if (!profile)
                _exit(2);
            uint64_t now = total_cost(profile);
            if (now < before || says(profile, "damaged"))
                _exit(3);
            before = now;
            bool complete = profile->complete;
            profile_free(profile);
            if (complete)
                _exit(before == 40000 ? 0 : 4);
        }
    }
    for (unsigned i = 0; i < 40000; i++) {
        fake_sample(&process, thread, (uint64_t[]){i * i % 97 * 16, i % 13 * 16}, 2, i % 50, 1);
        if (i % 50 == 0)
            assert_int_equal(recorder_update(recorder), 0);
    }
    assert_int_equal(recorder_close(recorder), 0);
    int status;
    assert_int_equal(waitpid(reader, &status, 0), reader);
    assert_int_equal(status, 0);
    fake_process_free(&process);
    fake_live_free(&live);
}

// Processes of one program have the same steps; a step that names a later one is not believed.
static void test_steps_of_creators_are_written_once(void **state)
{
    (void)state;
    static const uint64_t work[] = {0x900};
    struct fake_live live = fake_live_new(SLICE, 4);
    struct recorder *recorder = open_recorder(&live);
    struct fake_process processes[2];
    for (unsigned p = 0; p < 2; p++) {
        processes[p] = new_process(&live, getpid(), p ? "other" : "app");
        uint32_t call = fake_creation(&processes[p], 0, 0, 0, place_make(3, 0x100));
        call = fake_creation(&processes[p], call, 1, place_make(3, 0x120), place_make(3, 0x100));
        uint32_t frame = call;
        for (unsigned i = 0; i < 2 * LIVE_CREATION_BLOCK; i++) // a recursion
            frame =
                fake_creation(&processes[p], frame, 0, place_make(3, 0x920), place_make(3, 0x900));
        const uint32_t numbers[] = {
            0, call, fake_creation(&processes[p], frame, 2, place_make(3, 0x940), 0), 4711};
        for (unsigned i = 0; i < 4; i++) {
            struct live_thread *thread = fake_thread(&processes[p], place_make(3, 0x900));
            thread->creator = numbers[i];
            fake_sample(&processes[p], thread, work, 1, 0x910, 1000 + i);
        }
        assert_int_equal(recorder_update(recorder), 0);
    }
    fake_creation(&processes[0], 1000, 0, 0, 0);
    fake_thread(&processes[0], place_make(3, 0x900))->creator = 1;
    assert_int_equal(recorder_close(recorder), 0);
    struct profile *profile = read_back();
    assert_int_equal(profile->tree_count, 8);
    assert_int_equal(profile->creation_count, 2 * LIVE_CREATION_BLOCK + 3);
    for (unsigned i = 0; i < profile->tree_count; i++) {
        const struct profile_tree *tree = &profile->trees[i];
        const unsigned which = i % 4;
        if (which == 0 || which == 3) {
            assert_int_equal(tree->creator, 0);
            continue;
        }
        const struct profile_creation *step = &profile->creations[tree->creator - 1];
        assert_true(step->function == 0 &&
                    place_offset(step->site) == (which == 1 ? 0x120 : 0x940));
        unsigned steps = 1;
        for (; step->parent != PROFILE_NO_PARENT; steps++)
            step = &profile->creations[step->parent];
        assert_int_equal(steps, which == 1 ? 2 : 2 * LIVE_CREATION_BLOCK + 3);
        assert_int_equal(place_offset(step->function), 0x100);
    }
    profile_free(profile);
    fake_process_free(&processes[0]);
    fake_process_free(&processes[1]);
    fake_live_free(&live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_each_update_adds_what_is_new, clear_folder),
        cmocka_unit_test_setup(test_modules_of_two_processes, clear_folder),
        cmocka_unit_test_setup(test_a_thread_is_known_by_its_newest_name, clear_folder),
        cmocka_unit_test_setup(test_steps_of_creators_are_written_once, clear_folder),
        cmocka_unit_test_setup(test_what_is_not_overwritten, clear_folder),
        cmocka_unit_test_setup(test_replaced_while_recording, clear_folder),
        cmocka_unit_test_setup(test_compacts_on_the_way, clear_folder),
        cmocka_unit_test_setup(test_reader_beside_the_writer, clear_folder),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
