// SPDX-License-Identifier: MIT
// The timeline from the ring of a thread to the profile, and parts of a recording by time. What the
// agent writes with is compiled in: the memory is that of a test.

#include "agent/thread/timeline.h"
#include "make_profile.h"
#include "profile/queries/time_range.h"
#include "profile/reader.h"
#include "profile/timeline_records.h"
#include "recorder_fixture.h"

struct agent agent;
static uint64_t late_ns; // what the clock says

uint64_t clock_now(enum live_event event)
{
    (void)event;
    return late_ns;
}

static const uint64_t second = 1000000000;

// A process whose main thread has some statements to charge.
struct scene {
    struct fake_live live;
    struct fake_process process;
    struct live_thread *thread;
    struct recorder *recorder;
    ref_t statements[8];
    uint64_t start_ns, written, weight;
};

static void begin(struct scene *scene)
{
    *scene = (struct scene){.live = fake_live_new((uint64_t)64 << 20, 2)};
    scene->live.session->options.timeline = 1;
    scene->process = new_process(&scene->live, NO_SUCH_PID, "app");
    scene->thread = fake_thread(&scene->process, 0);
    agent.arena = scene->process.arena;
    agent.session = scene->live.session;
    struct arena *arena = &scene->process.arena;
    const ref_t tree = scene->thread->tree, root = tree_root(arena, tree);
    for (unsigned i = 0; i < 8; i++)
        scene->statements[i] =
            tree_child(arena, tree, root, tree_edge(arena, tree, place_make(3, 100 + i), 0));
    agent.arena = scene->process.arena;
    scene->recorder = open_recorder(&scene->live);
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    scene->start_ns = (uint64_t)now.tv_sec * second + (uint64_t)now.tv_nsec;
}

static void charge(struct scene *scene, unsigned statement, uint64_t time, uint64_t weight)
{
    tree_add(&scene->process.arena, scene->statements[statement], 0, weight);
    timeline_note(scene->thread, scene->statements[statement], 0, weight, scene->start_ns + time);
    scene->thread->stats.samples++;
    scene->thread->stats.cost_ns += weight;
    scene->written++;
    scene->weight += weight;
}

static struct profile *end(struct scene *scene)
{
    assert_int_equal(recorder_close(scene->recorder), 0);
    fake_process_free(&scene->process);
    fake_live_free(&scene->live);
    return read_back();
}

static uint64_t sum_of(const struct profile *profile, const struct profile_tree *tree)
{
    uint64_t sum = 0, before = 0;
    struct timeline_cursor cursor = timeline_begin(profile, tree);
    for (struct timeline_charge charge; timeline_next(&cursor, &charge);) {
        assert_true(charge.time_ns >= before);
        assert_true(charge.node < tree->count);
        before = charge.time_ns;
        sum += charge.weight;
    }
    return sum;
}

static void test_all_charges_come_to_the_profile(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene);
    for (unsigned i = 0; i < 20000; i++) { // a second at 1000 a second, between two readings
        charge(&scene, i % 8, i * 1000003ull, i % 5 ? 1000003 : 100 + next_random() % second);
        if (i % 1000 == 999)
            assert_int_equal(recorder_update(scene.recorder), 0);
    }
    // Late, by another thread; and to the root.
    late_ns = scene.start_ns + 30 * second;
    timeline_write_late(scene.thread, scene.statements[0], 17);
    timeline_write_late(scene.thread, 0, 18);
    tree_add(&scene.process.arena, scene.statements[0], 0, 17 + 18);
    scene.thread->stats.samples++;
    struct profile *profile = end(&scene);
    const struct profile_tree *tree = &profile->trees[0];
    assert_true(profile->timeline.recorded);
    assert_int_equal(tree->charges.count, scene.written + 2);
    assert_int_equal(tree->charges.lost, 0);
    assert_int_equal(sum_of(profile, tree), scene.weight + 17 + 18);
    assert_int_equal(total_cost(profile), scene.weight + 17 + 18);
    assert_true(profile->timeline.stored_bytes < 10 * tree->charges.count);
    assert_false(says(profile, "timeline"));
    profile_free(profile);
}

// Rings grow where they must hold what is young, and stay small where they need not.
static void test_rings_hold_four_seconds(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene);
    for (unsigned i = 0; i < 1000; i++) {
        charge(&scene, i % 8, i * second, second);
        if (i % 100 == 99)
            assert_int_equal(recorder_update(scene.recorder), 0);
    }
    const struct live_timeline_ring *ring = arena_at(&agent.arena, scene.thread->timeline.first);
    assert_int_equal(ring->next, 0);
    assert_true(ring->capacity <= 256);
    for (unsigned i = 0; i < 30000; i++) // of three seconds, and nobody reads
        charge(&scene, i % 8, 1000 * second + i * 100000ull, 100000);
    assert_int_not_equal(ring->next, 0);
    struct profile *profile = end(&scene);
    assert_int_equal(profile->trees[0].charges.count, scene.written);
    assert_int_equal(profile->trees[0].charges.lost, 0);
    assert_int_equal(sum_of(profile, &profile->trees[0]), scene.weight);
    profile_free(profile);
}

// The first ring, exactly, and nobody has read of it yet.
static void fill_ring(struct scene *scene)
{
    charge(scene, 0, 0, 1);
    const struct live_timeline_ring *ring = arena_at(&agent.arena, scene->thread->timeline.first);
    while (scene->written < ring->capacity)
        charge(scene, 0, scene->written * second, second);
}

static void test_a_full_ring_is_read_whole(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene);
    fill_ring(&scene);
    assert_int_equal(recorder_update(scene.recorder), 0);
    // The owner has begun the next one, which overwrites the oldest.
    atomic_fetch_add(&scene.thread->timeline.begun, 1);
    assert_int_equal(recorder_update(scene.recorder), 0);
    atomic_fetch_sub(&scene.thread->timeline.begun, 1);
    struct profile *profile = end(&scene);
    assert_int_equal(profile->trees[0].charges.count, scene.written);
    assert_int_equal(profile->trees[0].charges.lost, 0);
    profile_free(profile);
}

static void test_an_entry_that_is_being_overwritten_is_lost(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene);
    fill_ring(&scene);
    atomic_fetch_add(&scene.thread->timeline.begun, 1);
    struct profile *profile = end(&scene);
    assert_int_equal(profile->trees[0].charges.count, scene.written - 1);
    assert_int_equal(profile->trees[0].charges.lost, 1);
    profile_free(profile);
}

static void test_what_was_overwritten_is_counted(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene);
    for (unsigned i = 0; i < 400000; i++)
        charge(&scene, i % 8, i * 10ull, 10);
    struct profile *profile = end(&scene);
    const struct profile_charges *charges = &profile->trees[0].charges;
    assert_true(charges->lost > 100000);
    assert_int_equal(charges->count + charges->lost, scene.written);
    assert_true(says(profile, "the timeline lacks some charges"));
    assert_int_equal(total_cost(profile), scene.weight); // the tree has all of them
    profile_free(profile);
}

static void test_without_memory_charges_are_counted(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene);
    arena_head(&agent.arena)->limit = atomic_load(&arena_head(&agent.arena)->used);
    for (unsigned i = 0; i < 10; i++)
        charge(&scene, i % 8, i, 1);
    arena_head(&agent.arena)->limit = agent.arena.bytes;
    charge(&scene, 0, 11, 1);
    struct profile *profile = end(&scene);
    assert_int_equal(profile->trees[0].charges.count, 1);
    assert_int_equal(profile->trees[0].charges.lost, 10);
    profile_free(profile);
}

// The program may write over all of it: nobody faults, and the profile can be read.
static void test_scribbled_rings(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 60; round++) {
        struct scene scene;
        begin(&scene);
        for (unsigned i = 0; i < 700; i++)
            charge(&scene, i % 8, i * 1000ull, 1000);
        assert_int_equal(recorder_update(scene.recorder), 0);
        struct live_timeline *timeline = &scene.thread->timeline;
        uint32_t *words[] = {(uint32_t *)timeline, arena_at(&agent.arena, timeline->ring),
                             arena_at(&agent.arena, timeline->first)};
        const size_t counts[] = {sizeof *timeline / 4, 8, 8};
        const unsigned which = round % 3;
        for (unsigned i = 0; i < 3; i++)
            words[which][next_random() % counts[which]] =
                round % 2 ? (uint32_t)next_random() : (uint32_t)(next_random() % 4096);
        for (unsigned i = 0; i < 700; i++)
            charge(&scene, i % 8, 1000000 + i * 1000ull, 1000);
        assert_int_equal(recorder_update(scene.recorder), 0);
        struct profile *profile = end(&scene);
        assert_int_equal(profile->trees[0].stats.samples, scene.written);
        profile_free(profile);
    }
}

// In a profile that was put together by hand.

enum { STATEMENTS = 40, CHARGES = 10000 };

static struct profile *make_timed(struct timeline_charge *charges)
{
    struct profile *profile = make_profile("cpu", "ns", 1000000);
    const unsigned exe = make_module(profile, "/bin/app");
    const unsigned process = make_process(profile, 100, 1, "app");
    const unsigned tree = make_tree(profile, process, 0);
    uint32_t statements[STATEMENTS];
    profile->timeline = (struct profile_timeline){
        .recorded = true, .start_ns = 1000, .metrics = {0, 0}, .metric_count = 1};
    for (unsigned i = 0; i < STATEMENTS; i++) {
        const uint32_t frame =
            make_frame(profile, tree, 0, place_make(exe, 16 + i), place_make(exe, 256 + 16 * i));
        statements[i] = make_statement(profile, tree, frame, place_make(exe, 256 + 16 * i + 4), 0);
    }
    uint64_t time = 0;
    for (unsigned i = 0; i < CHARGES; i++) {
        // Like the previous one, as long as the time since then, or anything.
        const uint64_t step = next_random() % 2000000, kind = next_random() % 3;
        time += step;
        charges[i] = (struct timeline_charge){
            .time_ns = time,
            .weight = kind == 0             ? 1000000
                      : kind == 1 || i == 0 ? step
                                            : next_random() % (100 * second),
            .node = statements[next_random() % STATEMENTS],
            .tid = 100 + i / 3000,
        };
        profile->trees[tree].values[charges[i].node] += charges[i].weight;
    }
    return profile;
}

// As if it had been read: through a file in memory.
static struct profile *write_timed(const struct profile *profile,
                                   const struct timeline_charge *charges, size_t count)
{
    struct batch batch = {.level = 1};
    write_profile(&batch, profile);
    timeline_put(&batch, 0, charges, count, 3);
    batch_flush(&batch);
    char *error = NULL;
    struct profile *read =
        profile_parse(batch.out.data, batch.out.size, WRITER_NONE, "test", &error);
    if (!read)
        fail_msg("%s", error);
    batch_free(&batch);
    return read;
}

static void test_charges_are_what_they_were(void **state)
{
    (void)state;
    static struct timeline_charge charges[CHARGES];
    struct profile *made = make_timed(charges), *once = write_timed(made, charges, CHARGES);
    struct batch batch = {.level = 1};
    write_profile(&batch, once); // as it was read
    struct profile *profile =
        profile_parse(batch.out.data, batch.out.size, WRITER_NONE, "test", NULL);
    assert_int_equal(profile->trees[0].charges.count, CHARGES);
    assert_int_equal(profile->trees[0].charges.lost, 3);
    struct timeline_cursor cursor = timeline_begin(profile, &profile->trees[0]);
    for (unsigned i = 0; i < CHARGES; i++) {
        struct timeline_charge charge;
        assert_true(timeline_next(&cursor, &charge));
        assert_int_equal(charge.time_ns, charges[i].time_ns);
        assert_int_equal(charge.weight, charges[i].weight);
        assert_int_equal(charge.node, charges[i].node);
        assert_int_equal(charge.tid, charges[i].tid);
    }
    struct timeline_charge none;
    assert_false(timeline_next(&cursor, &none));
    batch_free(&batch);
    profile_free(profile);
    profile_free(once);
    profile_free(made);
}

static uint64_t cost_of(const struct profile *profile)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < profile->trees[0].count; i++)
        sum += profile->trees[0].values[i];
    return sum;
}

static void test_parts_add_up(void **state)
{
    (void)state;
    static struct timeline_charge charges[CHARGES];
    struct profile *made = make_timed(charges);
    const uint64_t length = charges[CHARGES - 1].time_ns + 1, parts = 7;
    uint64_t sum = 0, samples = 0;
    for (uint64_t i = 0; i < parts; i++) {
        struct profile *part = write_timed(made, charges, CHARGES);
        const struct time_range range = {length * i / parts, length * (i + 1) / parts};
        uint64_t expected = 0;
        for (unsigned c = 0; c < CHARGES; c++)
            if (charges[c].time_ns >= range.from_ns && charges[c].time_ns < range.to_ns)
                expected += charges[c].weight;
        assert_int_equal(profile_keep_range(part, &range), 0);
        assert_int_equal(cost_of(part), expected);
        assert_int_equal(part->trees[0].stats.cost_ns, expected);
        sum += expected;
        samples += part->trees[0].stats.samples;
        profile_free(part);
    }
    assert_int_equal(sum, cost_of(made));
    assert_int_equal(samples, CHARGES);
    // One that begins or ends at the time of a sample has the first of them alone.
    struct profile *between = write_timed(made, charges, CHARGES);
    const struct time_range exact = {charges[5].time_ns, charges[20].time_ns};
    uint64_t expected = 0;
    for (unsigned c = 0; c < CHARGES; c++)
        if (charges[c].time_ns >= exact.from_ns && charges[c].time_ns < exact.to_ns)
            expected += charges[c].weight;
    assert_true(expected > 0 && charges[20].weight > 0);
    assert_int_equal(profile_keep_range(between, &exact), 0);
    assert_int_equal(cost_of(between), expected);
    profile_free(between);
    // A part has the contexts that it needs, and no others.
    struct profile *part = write_timed(made, charges, CHARGES);
    const struct time_range one = {charges[5].time_ns, charges[5].time_ns + 1};
    assert_int_equal(profile_keep_range(part, &one), 0);
    assert_int_equal(part->trees[0].count, charges[5].weight ? 3 : 1);
    profile_free(part);
    profile_free(made);
}

// A tree that is written anew has other nodes: what was charged to the old ones is told as lost.
static void test_a_tree_anew_has_no_timeline(void **state)
{
    (void)state;
    static struct timeline_charge charges[CHARGES];
    struct profile *made = make_timed(charges);
    struct batch batch = {.level = 1};
    write_profile(&batch, made);
    timeline_put(&batch, 0, charges, 100, 0);
    batch_flush(&batch);
    write_anew(&batch, 0);
    write_nodes(&batch, &(struct written_nodes){.count = 1,
                                                .nodes = made->trees[0].nodes,
                                                .values = made->trees[0].values,
                                                .metrics = 1});
    batch_flush(&batch);
    struct profile *profile =
        profile_parse(batch.out.data, batch.out.size, WRITER_NONE, "test", NULL);
    assert_int_equal(profile->trees[0].count, 1);
    assert_int_equal(profile->trees[0].charges.count, 0);
    assert_int_equal(profile->trees[0].charges.lost, 100);
    batch_free(&batch);
    profile_free(profile);
    profile_free(made);
}

// Sections that contradict themselves are damage, and nothing else.
static void test_odd_sections(void **state)
{
    (void)state;
    static struct timeline_charge charges[CHARGES];
    struct profile *made = make_timed(charges);
    // kind, tree, thread, lost, count, bytes of the three columns, columns
    static const uint8_t odd[][12] = {
        {1, 0, 1, 0, 2, 1, 1, 1, 5, 0, 0},    // fewer charges than it says
        {1, 0, 1, 0, 1, 2, 1, 1, 5, 5, 0, 0}, // more
        {1, 0, 1, 0, 1, 9, 1, 1, 5, 0, 0},    // columns beyond its end
        {1, 0, 1, 0, 1, 1, 1, 1, 5, 1, 0},    // a metric that there is not
        {1, 9, 1, 0, 1, 1, 1, 1, 5, 0, 0},    // a tree that there is not
        {2, 0, 1, 0, 1, 1, 1, 1, 5, 0, 0},    // a kind of record that there is not
        {0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0},    // a timeline of three metrics
    };
    for (unsigned i = 0; i < sizeof odd / sizeof *odd; i++) {
        struct batch batch = {.level = 1};
        write_profile(&batch, made);
        bytes_put(&batch.payload[CHUNK_TIMELINE], odd[i], i == 1 ? 12 : 11);
        batch_flush(&batch);
        struct profile *profile =
            profile_parse(batch.out.data, batch.out.size, WRITER_NONE, "test", NULL);
        assert_non_null(profile);
        assert_true(says(profile, "damaged"));
        assert_int_equal(profile->trees[0].charges.count, 0);
        batch_free(&batch);
        profile_free(profile);
    }
    profile_free(made);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_all_charges_come_to_the_profile, clear_folder),
        cmocka_unit_test_setup(test_rings_hold_four_seconds, clear_folder),
        cmocka_unit_test_setup(test_a_full_ring_is_read_whole, clear_folder),
        cmocka_unit_test_setup(test_an_entry_that_is_being_overwritten_is_lost, clear_folder),
        cmocka_unit_test_setup(test_what_was_overwritten_is_counted, clear_folder),
        cmocka_unit_test_setup(test_without_memory_charges_are_counted, clear_folder),
        cmocka_unit_test_setup(test_scribbled_rings, clear_folder),
        cmocka_unit_test(test_charges_are_what_they_were),
        cmocka_unit_test(test_parts_add_up),
        cmocka_unit_test(test_a_tree_anew_has_no_timeline),
        cmocka_unit_test(test_odd_sections),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
