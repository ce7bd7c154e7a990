// SPDX-License-Identifier: MIT

// Several events in one tree: where their values lie in the program's memory, and in the profile.

#include "recorder_fixture.h"

static struct recorder *start(struct fake_live *live, enum live_event event, uint32_t also,
                              const struct recorder_description *like)
{
    char *error = NULL;
    *live = fake_live_new(SLICE, 2);
    live->session->options.event = event;
    live->session->options.also = also;
    struct recorder *recorder = recorder_open(like, live->fd, live->session, &error);
    if (!recorder)
        fail_msg("%s", error);
    return recorder;
}

// A frame and a statement below the root.
struct pair {
    ref_t frame, statement;
};

static struct pair plant(struct fake_live *live, struct fake_process *process,
                         struct live_thread *thread)
{
    const struct tree_options options = {.kind = TREE_FULL,
                                         .metrics = live_values(&live->session->options)};
    struct arena *arena = &process->arena;
    struct pair pair;
    thread->tree = tree_new(arena, &options);
    assert_true(thread->tree != 0);
    pair.frame =
        tree_child(arena, thread->tree, tree_root(arena, thread->tree),
                   tree_edge(arena, thread->tree, place_make(3, 0x100), place_make(3, 0x200)));
    pair.statement = tree_child(arena, thread->tree, pair.frame,
                                tree_edge(arena, thread->tree, place_make(3, 0x210), 0));
    assert_true(pair.frame && pair.statement);
    return pair;
}

static unsigned metric_named(const struct profile *profile, const char *name)
{
    for (unsigned i = 0; i < profile->metric_count; i++)
        if (strcmp(profile->metrics[i].name, name) == 0)
            return i;
    fail_msg("no metric %s", name);
    return 0;
}

static uint64_t sum(const struct profile *profile, const char *name, bool of_frames)
{
    const unsigned metric = metric_named(profile, name);
    const struct profile_tree *tree = &profile->trees[0];
    uint64_t sum = 0;
    for (uint32_t i = 1; i < tree->count; i++)
        if ((tree->nodes[i].function != 0) == of_frames)
            sum += tree->values[(size_t)i * profile->metric_count + metric];
    return sum;
}

static void each_event_has_its_metric(void **state)
{
    (void)state;
    const struct recorder_description description = {
        .path = path,
        .command = command,
        .events = {{"wall", "ns", 1000000, 1000},
                   {"alloc", "bytes", 1, 0},
                   {"cpu", "ns", 1000000, 1000},
                   {"calls", "calls", 1, 0}},
        .event_count = 4,
        .tracker = "calls",
        .tree_kind = "full",
    };
    struct fake_live live;
    struct recorder *recorder =
        start(&live, LIVE_EVENT_CPU, 1 << LIVE_EVENT_WALL | 1 << LIVE_EVENT_ALLOC, &description);
    struct fake_process process = new_process(&live, getpid(), "app");
    struct live_thread *thread = fake_thread(&process, 0);
    const struct pair pair = plant(&live, &process, thread);
    thread->stats.samples = 3;
    thread->stats.waits = 1;
    thread->stats.cost_ns = 20;
    tree_add(&process.arena, pair.frame, 0, 70); // calls
    tree_add(&process.arena, pair.statement, LIVE_ALLOC_BYTES, 100);
    tree_add(&process.arena, pair.statement, LIVE_ALLOC_BLOCKS, 4);
    tree_add(&process.arena, pair.statement, LIVE_TEMPORARY, 3);
    tree_add(&process.arena, pair.statement, LIVE_MAPPED, 4096);
    tree_add(&process.arena, pair.statement, LIVE_FREED_BYTES, 60);
    tree_add(&process.arena, pair.statement, LIVE_FREED_BLOCKS, 3);
    tree_add(&process.arena, pair.statement, LIVE_ALLOC_VALUES, 20);
    tree_add(&process.arena, pair.statement, LIVE_ALLOC_VALUES + 1, 90);
    assert_int_equal(recorder_update(recorder), 0);
    // What is live may become less, and nothing else.
    tree_add(&process.arena, pair.statement, LIVE_FREED_BYTES, 40);
    tree_add(&process.arena, pair.statement, LIVE_FREED_BLOCKS, 1);
    tree_add(&process.arena, pair.statement, LIVE_ALLOC_VALUES, 1);
    thread->stats.cost_ns++;
    assert_int_equal(recorder_update(recorder), 0);
    struct recorder_totals totals;
    recorder_totals(recorder, &totals);
    assert_int_equal(totals.calls, 70);
    assert_int_equal(totals.blocks, 4);
    assert_int_equal(totals.block_bytes, 100);
    assert_int_equal(totals.cost_ns, 21);
    assert_int_equal(recorder_close(recorder), 0);
    struct profile *profile = read_back();
    assert_int_equal(profile->metric_count, 15);
    assert_string_equal(profile->metrics[0].name, "wall");
    assert_string_equal(profile->metrics[1].name, "alloc");
    assert_string_equal(profile->metrics[13].name, "cpu");
    assert_string_equal(profile->metrics[14].name, "calls");
    assert_string_equal(profile->metrics[0].source, "perf-task-clock");
    assert_string_equal(profile->metrics[1].source, PROFILE_ALLOC_SOURCE);
    assert_string_equal(profile->metrics[13].source, "perf-task-clock");
    assert_string_equal(profile->metrics[14].source, "hooks");
    assert_int_equal(sum(profile, "wall", false), 90);
    assert_int_equal(sum(profile, "cpu", false), 21);
    assert_int_equal(sum(profile, "alloc", false), 100);
    assert_int_equal(sum(profile, "allocs", false), 4);
    assert_int_equal(sum(profile, "freed", false), 100);
    assert_int_equal(sum(profile, "live", false), 0);
    assert_int_equal(sum(profile, "live-age", false), 0);
    assert_int_equal(sum(profile, "temporary", false), 3);
    assert_int_equal(sum(profile, "mapped", false), 4096);
    assert_int_equal(sum(profile, "unmapped", false), 0);
    assert_int_equal(sum(profile, "calls", true), 70);
    for (unsigned i = 0; i < 14; i++)
        assert_int_equal(sum(profile, profile->metrics[i].name, true), 0);
    assert_int_equal(sum(profile, "calls", false), 0);
    assert_int_equal(profile->trees[0].stats.waits, 1);
    assert_null(profile_samples_caused(profile));
    profile_free(profile);
    fake_process_free(&process);
    fake_live_free(&live);
}

// Without calls, frames have returns, in the place of CPU time.
static void returns_stay_with_the_clock(void **state)
{
    (void)state;
    const struct recorder_description description = {
        .path = path,
        .command = command,
        .events = {{"wall", "ns", 1000000, 1000}, {"cpu", "ns", 1000000, 1000}},
        .event_count = 2,
        .tracker = "walk",
        .tree_kind = "full",
    };
    struct fake_live live;
    struct recorder *recorder = start(&live, LIVE_EVENT_CPU, 1 << LIVE_EVENT_WALL, &description);
    struct fake_process process = new_process(&live, getpid(), "app");
    struct live_thread *thread = fake_thread(&process, 0);
    const struct pair pair = plant(&live, &process, thread);
    thread->stats.samples = thread->stats.cost_ns = 1;
    tree_add(&process.arena, pair.frame, 0, 7);
    tree_add(&process.arena, pair.statement, 0, 20);
    tree_add(&process.arena, pair.statement, 1, 90);
    assert_int_equal(recorder_close(recorder), 0);
    struct profile *profile = read_back();
    assert_int_equal(profile->metric_count, 2);
    assert_int_equal(sum(profile, "cpu", false), 20);
    assert_int_equal(sum(profile, "wall", false), 90);
    assert_int_equal(sum(profile, "cpu", true), 7);
    assert_int_equal(sum(profile, "wall", true), 0);
    profile_free(profile);
    fake_process_free(&process);
    fake_live_free(&live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(each_event_has_its_metric, clear_folder),
        cmocka_unit_test_setup(returns_stay_with_the_clock, clear_folder),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
