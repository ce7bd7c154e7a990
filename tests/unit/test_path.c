// SPDX-License-Identifier: MIT

// Whole paths in a bounded tree: what of them is kept, and when they are whole.

#include "bounded_fixture.h"
#include "track/walk/unwind_pass.h"

enum { FRAMES = 512 };

static struct live_stats stats;
static struct walk_frame frames[FRAMES];
static struct walker walker;

// As walk.c has it.
void unwind_pass_adopt(struct unwind_pass *pass, size_t keep, size_t from)
{
    const size_t fresh = unwind_pass_walked(pass) - from;
    memmove(walker.frames + keep, walker.frames + pass->low + from, fresh * sizeof *walker.frames);
    walker.count = keep + fresh;
}

static struct thread *start(unsigned limit, uint64_t bytes, uint32_t purge)
{
    struct thread *thread = new_thread(TREE_BOUNDED, limit, bytes, purge);
    stats = (struct live_stats){0};
    walker = (struct walker){.arena = &thread->arena,
                             .tree = thread->tree,
                             .stats = &stats,
                             .kind = *tree_traits_of(TREE_BOUNDED),
                             .limit = limit,
                             .whole = 1,
                             .frames = frames,
                             .capacity = FRAMES};
    return thread;
}

// A sample in the context of the functions path[0], path[1], ... up to the first 0.
static ref_t sample_path(struct thread *thread, const char *path, uint64_t weight)
{
    struct unwind_pass pass = {
        .walker = &walker, .low = FRAMES, .amount = weight, .verdict = VERDICT_COMPLETE};
    for (size_t i = strlen(path); i-- > 0;)
        frames[--pass.low] =
            (struct walk_frame){.site = i ? place_make(3, (uint64_t)path[i - 1] * 16 + 5) : 0,
                                .function = place_make(3, (uint64_t)path[i] * 16)};
    const ref_t node = unwind_pass_insert_path(&pass);
    tree_charge(&thread->arena, thread->tree, node, weight);
    thread->charged += weight;
    return node;
}

// The names of a node's frames, from the root's child on; '~' stands for what was above where it
// was detached.
static const char *path_of(const struct thread *thread, ref_t node)
{
    static char text[FRAMES + 2];
    char *at = text + sizeof text - 1;
    *at = 0;
    while (node && node != root_of(thread)) {
        struct edge edge;
        assert_true(
            tree_edge_read(&thread->arena, ARENA_BYTES, node_at(thread, node)->edge, &edge));
        *--at = (char)(place_offset(edge.function) / 16);
        node = node_at(thread, node)->parent;
        if (edge.site == PLACE_UNKNOWN) {
            assert_int_equal(node, root_of(thread));
            *--at = '~';
        }
    }
    return at;
}

static void short_paths_are_whole(void **state)
{
    (void)state;
    struct thread *thread = start(4, 1 << 16, TREE_PURGE_AGE);
    const ref_t first = sample_path(thread, "ABCD", 5);
    assert_string_equal(path_of(thread, first), "ABCD");
    assert_int_equal(sample_path(thread, "ABCD", 7), first);
    assert_int_equal(node_at(thread, first)->value[0], 12);
    assert_int_equal(node_at(thread, first)->value[1], 5); // the call was there before
    // It has returned, another one was made, and it comes again.
    sample_path(thread, "ABX", 1);
    assert_int_equal(sample_path(thread, "ABCD", 3), first);
    assert_int_equal(node_at(thread, first)->value[1], 8);
    assert_int_equal(stats.verdicts[VERDICT_COMPLETE], 4);
    assert_int_equal(stats.verdicts[VERDICT_DETACHED], 0);
    free_thread(thread);
}

static void as_many_new_frames_as_may_be(void **state)
{
    (void)state;
    struct thread *thread = start(3, 1 << 16, TREE_PURGE_AGE);
    assert_string_equal(path_of(thread, sample_path(thread, "ABC", 1)), "ABC");
    assert_string_equal(path_of(thread, sample_path(thread, "ABCDEF", 1)), "ABCDEF");
    assert_string_equal(path_of(thread, sample_path(thread, "ABUVWXYZ", 1)), "~XYZ");
    assert_int_equal(stats.verdicts[VERDICT_DETACHED], 1);
    // What is known of it grows by three a sample, until three are left.
    assert_string_equal(path_of(thread, sample_path(thread, "ABUVWXYZ", 1)), "~XYZ");
    assert_string_equal(path_of(thread, sample_path(thread, "ABUVWXYZ", 1)), "ABUVWXYZ");
    assert_int_equal(stats.verdicts[VERDICT_DETACHED], 2);
    free_thread(thread);
}

static void one_frame_a_sample(void **state)
{
    (void)state;
    struct thread *thread = start(1, 1 << 16, TREE_PURGE_AGE);
    ref_t node = 0;
    unsigned samples = 0;
    while (!node || *path_of(thread, node) == '~') {
        node = sample_path(thread, "ABCDEFGH", 1);
        assert_true(++samples < 20);
    }
    assert_string_equal(path_of(thread, node), "ABCDEFGH");
    free_thread(thread);
}

// A buffer that is too small for all that comes: nothing is lost without being counted.
static void sums_stay_right(void **state)
{
    (void)state;
    const uint32_t purges[] = {TREE_PURGE_AGE, TREE_PURGE_ALL};
    for (unsigned p = 0; p < 2; p++) {
        struct thread *thread = start(8, 16 << 10, purges[p]);
        char path[64];
        unsigned depth = 1;
        path[0] = 'A';
        for (unsigned i = 0; i < 20000; i++) {
            depth -= next_random() % depth;
            for (unsigned more = next_random() % 20; more > 0 && depth < 60; more--)
                path[depth++] = (char)('B' + next_random() % 25);
            path[depth] = 0;
            const ref_t node = sample_path(thread, path, 1 + next_random() % 5);
            const char *kept = path_of(thread, node);
            const bool whole = *kept != '~';
            if (strcmp(whole ? kept : kept + 1, whole ? path : path + depth - 8))
                fail_msg("%s became %s", path, kept);
        }
        struct stable_tree stable;
        const int64_t bytes = stable_bytes(&thread->arena, ARENA_BYTES, thread->tree);
        void *memory = malloc((size_t)bytes);
        assert_int_equal(
            stable_read(&stable, &thread->arena, ARENA_BYTES, thread->tree, memory, (size_t)bytes),
            0);
        uint64_t sum = 0;
        for (uint32_t i = 0; i < stable.count; i++)
            sum += stable_at(&stable, i)->value[0];
        assert_int_equal(sum + bounded_purged(&thread->arena, thread->tree), thread->charged);
        assert_true(stats.purged > 0);
        free(memory);
        free_thread(thread);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_paths_are_whole),
        cmocka_unit_test(as_many_new_frames_as_may_be),
        cmocka_unit_test(one_frame_a_sample),
        cmocka_unit_test(sums_stay_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
