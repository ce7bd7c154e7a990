// SPDX-License-Identifier: MIT
#include "make_live.h"
#include "profile/profile.h"
#include "tree/copy.h"
#include "tree/layout.h"
#include "tree_nodes.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { SLICE = 1 << 20, SAMPLES = 500, DAMAGES = 400 };

// A tree of the kind that `cairn_snapshot()` copies, and the copy in an arena of its own.
static struct fake_live live;
static struct fake_process process;
static uint64_t total;

static struct live_thread *fill(void)
{
    live = fake_live_new(SLICE, 1);
    process = fake_process_new(&live, 1 << 23, "app\0--fast", 11);
    fake_module(&process, 3, "/usr/bin/app");
    fake_note(&process, "a note");
    struct live_thread *thread = fake_thread(&process, 0);
    for (unsigned i = 0; i < SAMPLES; i++) {
        const uint64_t path[3] = {0x100, 0x200 + i % 7 * 16, 0x1000 + i % 50 * 16};
        fake_sample(&process, thread, path, 3, path[2] + 4, 100 + i);
        total += 100 + i;
    }
    return thread;
}

static ref_t copy(struct arena *to, ref_t tree)
{
    const int64_t bytes = stable_bytes(&process.arena, SLICE, tree);
    assert_true(bytes > 0);
    void *memory = malloc((size_t)bytes);
    struct stable_tree stable;
    assert_int_equal(stable_read(&stable, &process.arena, SLICE, tree, memory, (size_t)bytes), 0);
    const uint64_t before = atomic_load(&arena_head(to)->used);
    ref_t made = tree_copy(to, &stable, &process.arena, SLICE, tree);
    // A node with an error, its edge, and the heads of a tree.
    assert_true(atomic_load(&arena_head(to)->used) - before <=
                stable.count * (tree_node_bytes(2) + sizeof(struct edge)) + 1024);
    free(memory);
    return made;
}

struct sum {
    const struct arena *arena;
    uint64_t cost, nodes;
};

static bool add(void *context, ref_t ref, const struct node *node)
{
    struct sum *sum = context;
    struct edge edge;
    (void)ref;
    assert_true(tree_edge_read(sum->arena, SLICE, node->edge, &edge));
    sum->cost += edge.function || !node->parent ? 0 : node->value[0];
    sum->nodes++;
    return true;
}

static void test_a_copied_tree_has_the_same_sums(void **state)
{
    (void)state;
    struct live_thread *thread = fill();
    struct arena arena;
    void *memory = calloc(1, SLICE);
    arena_init(&arena, memory, sizeof(struct arena_head), SLICE);
    const ref_t tree = copy(&arena, thread->tree);
    struct sum sum = {.arena = &arena};
    assert_true(tree_scan(&arena, SLICE, tree, add, &sum) > 0);
    assert_int_equal(sum.cost, total);
    assert_int_equal(sum.nodes, tree_nodes(&process.arena, thread->tree));
    assert_int_equal(tree_nodes(&arena, tree), sum.nodes);
    // No room: no copy, and nothing is written beyond.
    arena_init(&arena, memory, sizeof(struct arena_head), 2000);
    assert_int_equal(copy(&arena, thread->tree), 0);
    free(memory);
    fake_process_free(&process);
    fake_live_free(&live);
}

static char path[] = "/tmp/cairn-test-snapshot-XXXXXX";

static uint8_t *snapshot(size_t *size)
{
    total = 0;
    fill();
    strcpy(live.session->tree_name, "full");
    live.session->options.period_ns = 1000000;
    *size = LIVE_SESSION_BYTES + atomic_load(&arena_head(&process.arena)->used);
    uint8_t *data = malloc(*size);
    assert_int_equal(pread(live.fd, data, *size, 0), *size);
    fake_process_free(&process);
    fake_live_free(&live);
    return data;
}

static struct profile *read_back(const uint8_t *data, size_t size)
{
    FILE *file = fopen(path, "w");
    assert_int_equal(fwrite(data, 1, size, file), size);
    fclose(file);
    char *error = NULL;
    struct profile *profile = profile_read(path, &error);
    assert_true(profile || error);
    assert_true(!error || !strchr(error, '\n'));
    free(error);
    return profile;
}

static void test_a_snapshot_is_a_whole_profile(void **state)
{
    (void)state;
    size_t size;
    uint8_t *data = snapshot(&size);
    struct profile *profile = read_back(data, size);
    assert_non_null(profile);
    assert_true(profile->complete);
    assert_int_equal(profile->tree_count, 1);
    uint64_t cost = 0;
    for (uint32_t i = 1; i < profile->trees[0].count; i++)
        cost += profile->trees[0].nodes[i].function ? 0 : profile->trees[0].values[i];
    assert_int_equal(cost, total);
    assert_string_equal(profile->command[1], "--fast");
    assert_string_equal(profile->tree_kind, "full");
    assert_string_equal(profile->notes[0], "a note");
    profile_free(profile);
    free(data);
}

// Whatever a file holds, it is read or refused.
static void test_any_file_is_read_or_refused(void **state)
{
    (void)state;
    size_t size;
    uint8_t *data = snapshot(&size), *damaged = malloc(size);
    unsigned read = 0;
    srand(11);
    for (unsigned i = 0; i < DAMAGES; i++) {
        memcpy(damaged, data, size);
        const size_t length = i % 4 ? size : 8 + (size_t)rand() % (size - 8);
        // Heads and tails of structures are where references are.
        for (int hits = 1 + rand() % 20; hits > 0; hits--) {
            const size_t at = 8 + (size_t)rand() % (i % 2 ? LIVE_SESSION_BYTES * 2 : length - 8);
            if (at < length)
                damaged[at] = (uint8_t)(rand() % 3 ? rand() : rand() % 2 ? 0 : 0xff);
        }
        struct profile *profile = read_back(damaged, length);
        read += profile != NULL;
        profile_free(profile);
    }
    assert_true(read > 0);
    unlink(path);
    free(damaged);
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_copied_tree_has_the_same_sums),
        cmocka_unit_test(test_a_snapshot_is_a_whole_profile),
        cmocka_unit_test(test_any_file_is_read_or_refused),
    };
    const int fd = mkstemp(path);
    if (fd < 0)
        return 1;
    close(fd);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
