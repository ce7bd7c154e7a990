// SPDX-License-Identifier: MIT

// Trees that forget, from the live memory to the profile: told anew when they changed, sparingly.

#include "folder.h"
#include "make_live.h"
#include "make_profile.h"
#include "profile/queries/kind.h"
#include "profile/queries/totals.h"
#include "profile/reader.h"
#include "profile/recorder/recorder.h"
#include "profile/write_records.h"
#include "tree/layout.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { SLICE = 1 << 20 };

// A tree in the live memory, node by node.

struct garden {
    struct fake_live live;
    struct fake_process process;
    struct live_thread *thread;
    struct recorder *recorder;
    ref_t block; // where nodes are set
};

static ref_t new_block(struct garden *garden, unsigned metrics, uint32_t nodes)
{
    struct arena *arena = &garden->process.arena;
    ref_t ref = arena_alloc(arena, sizeof(struct node_block) + nodes * tree_node_bytes(metrics));
    assert_true(ref);
    struct node_block *block = arena_at(arena, ref);
    block->metrics = metrics;
    block->capacity = nodes;
    atomic_store(&block->used, nodes);
    return ref;
}

static ref_t edge(struct garden *garden, uint64_t site, uint64_t function)
{
    struct arena *arena = &garden->process.arena;
    ref_t ref = arena_alloc(arena, sizeof(struct edge));
    *(struct edge *)arena_at(arena, ref) = (struct edge){
        site && site != PLACE_UNKNOWN ? place_make(3, site) : site,
        function ? place_make(3, function) : 0,
    };
    return ref;
}

static struct node *node(struct garden *garden, uint32_t index, ref_t *ref)
{
    struct arena *arena = &garden->process.arena;
    const struct node_block *block = arena_at(arena, garden->block);
    *ref = tree_node_in_block(garden->block, block->metrics, index);
    return arena_at(arena, *ref);
}

static ref_t set(struct garden *garden, uint32_t index, ref_t parent, ref_t edge, uint64_t count,
                 uint64_t error)
{
    ref_t ref;
    struct node *at = node(garden, index, &ref);
    at->edge = edge;
    at->parent = parent;
    at->value[0] = count;
    at->value[1] = error;
    return ref;
}

// A tree of nodes with two values, its root at place 0.
static ref_t forgetful_tree(struct garden *garden)
{
    struct arena *arena = &garden->process.arena;
    ref_t ref = arena_alloc(arena, sizeof(struct tree));
    struct tree *tree = arena_at(arena, ref);
    garden->block = new_block(garden, 2, 64);
    tree->metrics = 2;
    tree->root = set(garden, 0, 0, edge(garden, 0, 0), 0, 0);
    atomic_store(&tree->first_block, garden->block);
    return ref;
}

static void start(struct garden *garden, enum live_tree_kind kind, const char *event,
                  const char *unit)
{
    static char *const command[] = {"app", NULL};
    garden->live = fake_live_new(SLICE, 4);
    garden->live.session->options.tree = kind;
    struct recorder_description description = {
        .path = path,
        .command = command,
        .events = {{.name = event, .unit = unit, .period = 1}},
        .event_count = 1,
        .tracker = strcmp(event, "calls") ? "walk" : "calls",
        .tree_kind = kind == LIVE_TREE_FULL ? "full" : "hot:0.1,0.02",
    };
    char *error = NULL;
    garden->recorder = recorder_open(&description, garden->live.fd, garden->live.session, &error);
    if (!garden->recorder)
        fail_msg("%s", error);
    garden->process = fake_process_new(&garden->live, getpid(), "app", 4);
    fake_module(&garden->process, 3, "/usr/bin/app");
    garden->thread = fake_thread(&garden->process, 0);
    if (kind != LIVE_TREE_FULL)
        garden->thread->tree = forgetful_tree(garden);
}

static void update(struct garden *garden)
{
    garden->thread->stats.samples++;
    garden->thread->stats.cost_ns++;
    assert_int_equal(recorder_update(garden->recorder), 0);
}

static void end(struct garden *garden)
{
    fake_process_free(&garden->process);
    fake_live_free(&garden->live);
}

static struct profile *read_back(void)
{
    char *error = NULL;
    struct profile *profile = profile_read(path, &error);
    if (!profile)
        fail_msg("%s", error);
    return profile;
}

// The values of the context of those functions; with its statement for cost.
static const uint64_t *values_of(const struct profile *profile, const uint64_t *functions,
                                 unsigned depth, bool statement)
{
    const struct profile_tree *tree = &profile->trees[0];
    uint32_t at = 0;
    for (unsigned level = 0; level < depth + statement; level++) {
        uint32_t found = 0;
        for (uint32_t i = 1; i < tree->count; i++) {
            const struct profile_node *node = &tree->nodes[i];
            bool is_it = level == depth
                             ? node->function == 0
                             : node->function && place_offset(node->function) == functions[level];
            if (node->parent == at && is_it)
                found = i;
        }
        if (!found)
            return NULL;
        at = found;
    }
    return &tree->values[(size_t)at * profile->metric_count];
}

static off_t file_size(void)
{
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    return status.st_size;
}

static void test_hot_costs(void **state)
{
    (void)state;
    struct garden garden;
    start(&garden, LIVE_TREE_HOT, "cpu", "ns");
    ref_t root;
    node(&garden, 0, &root);
    // b before its parent a; a is not monitored.
    ref_t a;
    node(&garden, 9, &a);
    set(&garden, 4, a, edge(&garden, 0x110, 0x200), 500, 40);
    set(&garden, 9, root, edge(&garden, 0x10, 0x100) | TREE_UNMONITORED, 0, 0);
    set(&garden, 5, root, edge(&garden, 0x10, 0x300), 70, 0);
    update(&garden);
    struct profile *profile = read_back();
    assert_int_equal(profile->metric_count, 2);
    assert_string_equal(profile->metrics[1].name, "cpu error");
    assert_string_equal(profile->metrics[1].unit, "error");
    assert_int_equal(profile_error_of(profile, 0), 1);
    assert_int_equal(profile->trees[0].count, 6); // root, a, b, its cost, c, its cost
    const uint64_t *b = values_of(profile, (uint64_t[]){0x100, 0x200}, 2, true);
    assert_non_null(b);
    assert_int_equal(b[0], 500);
    assert_int_equal(b[1], 40);
    assert_null(values_of(profile, (uint64_t[]){0x100}, 1, true));
    profile_free(profile);

    // Nothing new but the stats: the nodes are not told again.
    off_t before = file_size();
    update(&garden);
    off_t stats_only = file_size() - before;
    // Only a value changes.
    set(&garden, 5, root, edge(&garden, 0x10, 0x300), 75, 0); // another edge record, same places
    before = file_size();
    update(&garden);
    off_t one_value = file_size() - before;
    assert_true(one_value > stats_only && one_value < stats_only + 60);
    profile = read_back();
    assert_int_equal(values_of(profile, (uint64_t[]){0x300}, 1, true)[0], 75);
    profile_free(profile);

    // b leaves, and its place is taken by a context below c.
    ref_t c;
    node(&garden, 5, &c);
    set(&garden, 4, c, edge(&garden, 0x310, 0x400), 541, 540);
    set(&garden, 9, 0, 0, 0, 0);
    update(&garden);
    profile = read_back();
    assert_int_equal(profile->trees[0].count, 5);
    assert_null(values_of(profile, (uint64_t[]){0x100}, 1, false));
    const uint64_t *d = values_of(profile, (uint64_t[]){0x300, 0x400}, 2, true);
    assert_int_equal(d[0], 541);
    assert_int_equal(d[1], 540);
    profile_free(profile);
    struct recorder_totals totals;
    recorder_totals(garden.recorder, &totals);
    assert_int_equal(totals.nodes, 5);
    assert_int_equal(totals.frames, 2);

    assert_int_equal(recorder_close(garden.recorder), 0);
    profile = read_back();
    assert_true(profile->complete);
    assert_string_equal(profile->tree_kind, "hot:0.1,0.02");
    assert_int_equal(profile->trees[0].count, 5);
    assert_int_equal(profile->note_count, 0);
    profile_free(profile);
    end(&garden);
}

static void test_hot_calls(void **state)
{
    (void)state;
    struct garden garden;
    start(&garden, LIVE_TREE_HOT, "calls", "calls");
    ref_t root;
    node(&garden, 0, &root);
    ref_t a = set(&garden, 1, root, edge(&garden, 0x10, 0x100), 7, 0);
    set(&garden, 2, a, edge(&garden, 0x110, 0x200), 500, 40);
    update(&garden);
    struct recorder_totals totals;
    recorder_totals(garden.recorder, &totals);
    assert_int_equal(totals.calls, 507);
    struct profile *profile = read_back();
    assert_int_equal(profile->trees[0].count, 3); // calls lie in the frames
    const uint64_t *b = values_of(profile, (uint64_t[]){0x100, 0x200}, 2, false);
    assert_int_equal(b[0], 500);
    assert_int_equal(b[1], 40);
    profile_free(profile);
    assert_int_equal(recorder_close(garden.recorder), 0);
    end(&garden);
}

static void test_bounded_trees_are_written_with_edges_and_errors(void **state)
{
    (void)state;
    struct garden garden;
    start(&garden, LIVE_TREE_BOUNDED, "cpu", "ns");
    ref_t root;
    node(&garden, 0, &root);
    set(&garden, 1, root, edge(&garden, PLACE_UNKNOWN, 0x100), 30, 90); // detached
    garden.thread->stats.purged = 1234;
    update(&garden);
    struct profile *profile = read_back();
    assert_string_equal(profile->metrics[1].name, "cpu edges");
    assert_true(profile_is_edge(&profile->metrics[1]));
    assert_int_equal(profile_error_of(profile, 0), 2);
    const uint64_t *frame = values_of(profile, (uint64_t[]){0x100}, 1, false);
    assert_int_equal(frame[0], 0);
    assert_int_equal(frame[1], 90);
    assert_int_equal(profile->trees[0].nodes[1].function, place_make(3, 0x100));
    assert_int_equal(profile->trees[0].nodes[1].site, PLACE_UNKNOWN);
    const uint64_t *statement = values_of(profile, (uint64_t[]){0x100}, 1, true);
    assert_int_equal(statement[0], 30);
    assert_int_equal(statement[1], 0);
    struct profile_totals totals;
    profile_sum(profile, &totals);
    assert_int_equal(totals.purged, 1234);
    profile_free(profile);
    assert_int_equal(recorder_close(garden.recorder), 0);
    end(&garden);
}

// A full tree that goes on in recycled nodes when its memory is used up, beside one that does not.
static void test_memory_limit(void **state)
{
    (void)state;
    struct garden garden;
    start(&garden, LIVE_TREE_FULL, "cpu", "ns");
    struct live_thread *other = fake_thread(&garden.process, place_make(3, 0x900));
    uint64_t deep[] = {0x100, 0x200};
    fake_sample(&garden.process, garden.thread, deep, 2, 0x210, 5000);
    fake_sample(&garden.process, other, deep, 2, 0x210, 7000);
    update(&garden);
    struct profile *profile = read_back();
    assert_int_equal(profile->metric_count, 1);
    profile_free(profile);

    struct arena *arena = &garden.process.arena;
    struct tree *tree = arena_at(arena, garden.thread->tree);
    tree->forgets = 1;
    ref_t block = garden.block = new_block(&garden, 2, 64);
    ref_t last = atomic_load(&tree->first_block);
    while (atomic_load(&((struct node_block *)arena_at(arena, last))->next))
        last = atomic_load(&((struct node_block *)arena_at(arena, last))->next);
    atomic_store(&((struct node_block *)arena_at(arena, last))->next, block);
    ref_t known =
        tree_child(arena, garden.thread->tree, tree->root,
                   tree_edge(arena, garden.thread->tree, place_make(3, 1), place_make(3, 0x100)));
    tree_add(arena, known, 0, 3); // returns
    set(&garden, 7, known, edge(&garden, 0x120, 0x700), 900, 800);
    update(&garden);
    profile = read_back();
    assert_int_equal(profile->metric_count, 2);
    assert_string_equal(profile->metrics[1].name, "cpu error");
    const uint64_t *late = values_of(profile, (uint64_t[]){0x100, 0x700}, 2, true);
    assert_non_null(late);
    assert_int_equal(late[0], 900);
    assert_int_equal(late[1], 800);
    const uint64_t *early = values_of(profile, deep, 2, true);
    assert_int_equal(early[0], 5000);
    assert_int_equal(early[1], 0);
    assert_int_equal(values_of(profile, deep, 1, false)[0], 3); // returns stay returns
    assert_int_equal(profile->trees[1].values[0], 0);
    assert_int_equal(profile->note_count, 2); // and "still being recorded"
    assert_non_null(strstr(profile->notes[0], "memory limit"));
    profile_free(profile);

    fake_sample(&garden.process, other, deep, 2, 0x220, 11);
    update(&garden);
    assert_int_equal(recorder_close(garden.recorder), 0);
    profile = read_back();
    assert_true(profile->complete);
    uint64_t cost = 0;
    for (uint32_t i = 0; i < profile->trees[1].count; i++)
        if (profile->trees[1].nodes[i].function == 0)
            cost += profile->trees[1].values[i * 2];
    assert_int_equal(cost, 7011);
    profile_free(profile);
    end(&garden);
}

// Chunks of a file, by hand.

static struct profile *parse(struct bytes *file)
{
    char *error = NULL;
    struct profile *profile = profile_parse(file->data, file->size, WRITER_NONE, "x", &error);
    if (!profile)
        fail_msg("%s", error);
    return profile;
}

static struct profile *small_profile(void)
{
    struct profile *profile = make_profile("cpu", "ns", 1);
    unsigned app = make_module(profile, "/usr/bin/app");
    unsigned tree = make_tree(profile, make_process(profile, 10, 1, "app"), 0);
    uint32_t frame = make_frame(profile, tree, 0, place_make(app, 5), place_make(app, 0x100));
    make_statement(profile, tree, frame, place_make(app, 0x120), 5);
    return profile;
}

static void test_told_anew(void **state)
{
    (void)state;
    struct profile *profile = small_profile();
    struct batch batch = {.level = 1};
    write_profile(&batch, profile);
    size_t first = batch.out.size;
    // In one batch: forgotten before it is told, whatever the order of the calls. More values than
    // before, and more than the session knows of.
    struct profile_node nodes[] = {{PROFILE_NO_PARENT, 0, 0}, {0, 0, place_make(3, 0x800)}};
    const uint64_t values[] = {0, 0, 66, 6};
    write_nodes(&batch, &(struct written_nodes){0, 0, 2, nodes, values, 2});
    write_anew(&batch, 0);
    batch_flush(&batch);
    struct profile *read = parse(&batch.out);
    assert_int_equal(read->metric_count, 2);
    assert_int_equal(read->trees[0].count, 2);
    assert_int_equal(read->trees[0].values[2], 66);
    assert_int_equal(read->trees[0].values[3], 6);
    assert_true(read->complete);
    profile_free(read);
    // Told from the root on again, but what says so was lost: only then it is believed.
    struct batch later = {.level = 1};
    write_nodes(&later, &(struct written_nodes){0, 0, 2, nodes, values, 2});
    batch_flush(&later);
    struct bytes file = {0};
    bytes_put(&file, batch.out.data, first);
    bytes_put(&file, later.out.data, later.out.size);
    read = parse(&file);
    assert_int_equal(read->trees[0].count, 3);
    assert_false(read->complete);
    profile_free(read);
    file.size = first;
    bytes_put(&file, "damage", 6);
    bytes_put(&file, later.out.data, later.out.size);
    read = parse(&file);
    assert_int_equal(read->trees[0].count, 2);
    profile_free(read);
    bytes_free(&file);
    batch_free(&later);
    batch_free(&batch);
    profile_free(profile);
}

// Sections of fewer values than the profile has metrics: those that were told before there were so
// many.
static void test_narrow_sections(void **state)
{
    (void)state;
    struct profile *profile = small_profile();
    struct batch batch = {.level = 1};
    write_profile(&batch, profile);
    profile->metrics = realloc(profile->metrics, 2 * sizeof *profile->metrics);
    memset(&profile->metrics[1], 0, sizeof *profile->metrics);
    make_text(&profile->metrics[1].name, "cpu error");
    make_text(&profile->metrics[1].unit, "error");
    make_text(&profile->metrics[1].source, "tree");
    profile->metric_count = 2;
    write_session(&batch, profile);
    batch_flush(&batch);
    const uint32_t index = 2;
    const uint64_t value = 9;
    write_values(&batch, &(struct written_values){0, 1, &index, &value, 1});
    batch_flush(&batch);
    struct profile *read = parse(&batch.out);
    assert_int_equal(read->metric_count, 2);
    assert_string_equal(read->metrics[1].name, "cpu error");
    assert_int_equal(read->trees[0].count, 3);
    assert_int_equal(read->trees[0].values[4], 9);
    assert_int_equal(read->trees[0].values[5], 0);
    profile_free(read);
    batch_free(&batch);
    profile->metric_count = 2;
    profile_free(profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hot_costs),
        cmocka_unit_test(test_hot_calls),
        cmocka_unit_test(test_bounded_trees_are_written_with_edges_and_errors),
        cmocka_unit_test(test_memory_limit),
        cmocka_unit_test(test_told_anew),
        cmocka_unit_test(test_narrow_sections),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
