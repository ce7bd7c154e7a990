// SPDX-License-Identifier: MIT
// What the miners promise, on streams that are meant to hurt. The contexts are all children of the
// root, so that nothing but the miner matters.

#include "hot_fixture.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static void open_flat(struct stream *stream, unsigned miner, uint64_t counters, unsigned contexts)
{
    const struct tree_options options = {
        .kind = TREE_HOT, .miner = miner, .counters = counters, .sticky_items = counters * 4};
    stream_open(stream, 64 << 20, &options, contexts, 1);
}

static void hit(struct stream *stream, uint64_t context, uint64_t amount)
{
    assert_true(stream_charge(stream, stream->base + context, amount));
}

// The theorem: no more than two scans per event, and what the first passes cost.
static void check_scans(const struct stream *stream)
{
    const struct tree_hot state = stream_state(stream);
    if (state.scans > 2 * state.events + 2 * state.monitored)
        fail_msg("%lu scans for %lu events", (unsigned long)state.scans,
                 (unsigned long)state.events);
}

// The floor where all events weigh the same, and where they do not.
static void check_floor(const struct stream *stream, bool weighted)
{
    const struct tree_hot state = stream_state(stream);
    const uint64_t sum = stream->charged + state.made_up;
    if (weighted)
        assert_true(state.floor <= 2 * (sum / state.monitored + 1));
    else
        assert_true(state.floor <= stream->charged / state.monitored && state.made_up == 0);
}

// Streams: which context comes at step i, and with which weight.
struct attack {
    const char *name;
    uint64_t (*context)(struct stream *stream, uint64_t step, uint64_t counters);
    uint64_t (*weight)(struct stream *stream, uint64_t step, uint64_t counters);
};

static uint64_t always_new(struct stream *stream, uint64_t step, uint64_t counters)
{
    (void)counters;
    return step % stream->base;
}

static uint64_t one_too_many(struct stream *stream, uint64_t step, uint64_t counters)
{
    (void)stream;
    return step % (counters + 1);
}

// Fills, raises all but one, and then asks for that one again and again.
static uint64_t lone_cold(struct stream *stream, uint64_t step, uint64_t counters)
{
    if (step < 64 * counters)
        return step % counters;
    return step % 2 ? counters + step % (stream->base - counters) : step / 2 % (counters - 1);
}

static uint64_t hot_and_cold(struct stream *stream, uint64_t step, uint64_t counters)
{
    (void)step;
    const uint64_t draw = stream_random(stream);
    return draw % 4 ? draw / 4 % (counters / 2) : draw / 4 % stream->base;
}

static uint64_t sweeps(struct stream *stream, uint64_t step, uint64_t counters)
{
    // Monitored ones in the order of M, each raised just when a pass has gone by it.
    return step % 3 ? step / 3 % counters : counters + step % (stream->base - counters);
}

static uint64_t unit(struct stream *stream, uint64_t step, uint64_t counters)
{
    (void)stream, (void)step, (void)counters;
    return 1;
}

static uint64_t alike(struct stream *stream, uint64_t step, uint64_t counters)
{
    (void)stream, (void)step, (void)counters;
    return 1000003;
}

static uint64_t all_different(struct stream *stream, uint64_t step, uint64_t counters)
{
    (void)counters;
    return 1000000 + step * 7919 % 999983 + stream_random(stream) % 3;
}

static uint64_t growing(struct stream *stream, uint64_t step, uint64_t counters)
{
    (void)stream, (void)counters;
    return 1 + step * step / 64;
}

static uint64_t shrinking(struct stream *stream, uint64_t step, uint64_t counters)
{
    (void)stream, (void)counters;
    return 1 + (UINT64_C(1) << 40) / (1 + step);
}

static uint64_t powers(struct stream *stream, uint64_t step, uint64_t counters)
{
    (void)step, (void)counters;
    return UINT64_C(1) << (unsigned)__builtin_ctzll(stream_random(stream) | UINT64_C(1) << 40);
}

static uint64_t unit_then_large(struct stream *stream, uint64_t step, uint64_t counters)
{
    return step < 40 * counters ? 1 : 500 + stream_random(stream) % 1000;
}

// All counts two apart, so that each is a minimum of its own.
static uint64_t stairs(struct stream *stream, uint64_t step, uint64_t counters)
{
    (void)stream;
    return step < counters ? 1 + 2 * step : 1 + step % 2;
}

static const struct attack attacks[] = {
    {"always new", always_new, unit},
    {"always new, alike", always_new, alike},
    {"one too many", one_too_many, unit},
    {"a lone cold one", lone_cold, unit},
    {"hot and cold", hot_and_cold, unit},
    {"sweeps", sweeps, unit},
    {"always new, all different", always_new, all_different},
    {"always new, growing", always_new, growing},
    {"always new, shrinking", always_new, shrinking},
    {"always new, powers", always_new, powers},
    {"one too many, all different", one_too_many, all_different},
    {"one too many, stairs", one_too_many, stairs},
    {"one too many, powers", one_too_many, powers},
    {"a lone cold one, all different", lone_cold, all_different},
    {"a lone cold one, unit then large", lone_cold, unit_then_large},
    {"hot and cold, all different", hot_and_cold, all_different},
    {"hot and cold, growing", hot_and_cold, growing},
    {"hot and cold, powers", hot_and_cold, powers},
    {"hot and cold, unit then large", hot_and_cold, unit_then_large},
    {"sweeps, all different", sweeps, all_different},
    {"sweeps, stairs", sweeps, stairs},
    {"sweeps, powers", sweeps, powers},
};

static void test_scans_are_amortised(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {1, 2, 7, 64, 500};
    for (unsigned size = 0; size < sizeof sizes / sizeof *sizes; size++) {
        const uint64_t counters = sizes[size] < 2 ? 2 : sizes[size];
        for (unsigned i = 0; i < sizeof attacks / sizeof *attacks; i++) {
            const struct attack *attack = &attacks[i];
            struct stream stream;
            open_flat(&stream, TREE_SPACE_SAVING, counters, (unsigned)counters * 3 + 1);
            for (uint64_t step = 0; step < 120 * counters; step++) {
                hit(&stream, attack->context(&stream, step, counters),
                    attack->weight(&stream, step, counters));
                if (step % (counters / 2 + 1) == 0)
                    check_scans(&stream);
            }
            const bool weighted = attack->weight != unit && attack->weight != alike;
            check_floor(&stream, weighted);
            stream_check(&stream);
            stream_close(&stream);
        }
    }
}

// With events that all weigh the same the victim is a coldest context, exactly.
static void test_victim_is_the_coldest(void **state)
{
    (void)state;
    struct stream stream;
    open_flat(&stream, TREE_SPACE_SAVING, 20, 200);
    for (uint64_t step = 0; step < 20000; step++) {
        uint64_t least = UINT64_MAX, floor = stream_state(&stream).floor;
        const struct miner *miner =
            &hot_of(&stream.arena, arena_at(&stream.arena, stream.tree))->miner;
        for (uint32_t i = 0; i < miner->count; i++) {
            const ref_t *part = arena_at(&stream.arena, miner->parts[i < 16 ? 0 : 1]);
            const struct node *node = arena_at(&stream.arena, part[i < 16 ? i : i - 16]);
            least = node->value[0] < least ? node->value[0] : least;
        }
        hit(&stream, stream_random(&stream) % (1 + stream_random(&stream) % 200), 5);
        if (stream_state(&stream).floor != floor)
            assert_int_equal(stream_state(&stream).floor, least);
    }
    stream_close(&stream);
}

static void test_exact_while_there_are_counters(void **state)
{
    (void)state;
    for (unsigned miner = TREE_SPACE_SAVING; miner <= TREE_STICKY_SAMPLING; miner++) {
        struct stream stream;
        // Lossy Counting: less than a window of events; Sticky Sampling: still at rate 1.
        open_flat(&stream, miner, 3000, 100);
        for (unsigned step = 0; step < 2900; step++)
            hit(&stream, stream_random(&stream) % 100, 1 + step % 2);
        assert_int_equal(stream_state(&stream).monitored, 100);
        assert_int_equal(stream_state(&stream).made_up, 0);
        stream_check(&stream);
        stream_check_found(&stream, 1);
        stream_close(&stream);
    }
}

// Lossy Counting keeps few, finds all that are hot, and says what it dropped.
static void test_lossy_counting(void **state)
{
    (void)state;
    for (unsigned weighted = 0; weighted < 2; weighted++) {
        struct stream stream;
        open_flat(&stream, TREE_LOSSY_COUNTING, 200, 20000);
        for (uint64_t step = 0; step < 200000; step++) {
            const uint64_t draw = stream_random(&stream);
            const uint64_t context = draw % 3 ? draw % 20000 : draw % 40;
            hit(&stream, context, weighted ? 1 + draw / 3 % 1000 : 1);
            if (step % 5000 == 0)
                stream_check(&stream);
        }
        const struct tree_hot hot = stream_state(&stream);
        assert_true(hot.floor <= stream.charged / 200);
        // 1/epsilon * ln(epsilon * N), and a window of new ones.
        assert_true(hot.monitored <= 200 * 8 + 200);
        stream_check(&stream);
        stream_check_found(&stream, stream.charged / 200 + 1);
        stream_close(&stream);
    }
}

// The generator is fixed, so what is likely here is certain.
static void test_sticky_sampling(void **state)
{
    (void)state;
    for (unsigned weighted = 0; weighted < 2; weighted++) {
        struct stream stream;
        open_flat(&stream, TREE_STICKY_SAMPLING, 200, 20000);
        for (uint64_t step = 0; step < 200000; step++) {
            const uint64_t draw = stream_random(&stream);
            const uint64_t context = draw % 3 ? draw % 20000 : draw % 40;
            hit(&stream, context, weighted ? 1 + draw / 3 % 1000000 : 1);
            if (step % 5000 == 0)
                stream_check(&stream);
        }
        const struct tree_hot hot = stream_state(&stream);
        assert_true(hot.monitored <= 2 * 800); // 2 * items are expected at most
        assert_true(hot.monitored >= 40);
        stream_check(&stream);
        stream_check_found(&stream, stream.charged / 200 + 1);
        // What a hot one lost until it was taken is small.
        for (unsigned i = 0; i < 40; i++) {
            uint32_t length;
            const struct tree *tree = arena_at(&stream.arena, stream.tree);
            ref_t ref = children_find(&stream.arena, tree, tree->root, stream.edges[i], &length);
            const struct node *node = arena_at(&stream.arena, ref);
            assert_true(ref && node->value[0] + hot.floor >= stream.exact[stream.base + i]);
        }
        stream_close(&stream);
    }
}

static void test_options_that_make_no_tree_are_refused(void **state)
{
    (void)state;
    struct stream stream;
    open_flat(&stream, TREE_SPACE_SAVING, 1, 3);
    for (unsigned i = 0; i < 100; i++)
        hit(&stream, i % 3, 1 + i);
    stream_check(&stream);
    const struct tree_options bad[] = {
        {.kind = TREE_HOT, .counters = 0},
        {.kind = TREE_HOT, .counters = 5, .miner = 3},
        {.kind = TREE_HOT, .counters = 5, .miner = TREE_STICKY_SAMPLING},
    };
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(tree_new(&stream.arena, &bad[i]), 0);
    stream_close(&stream);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scans_are_amortised),
        cmocka_unit_test(test_victim_is_the_coldest),
        cmocka_unit_test(test_exact_while_there_are_counters),
        cmocka_unit_test(test_lossy_counting),
        cmocka_unit_test(test_sticky_sampling),
        cmocka_unit_test(test_options_that_make_no_tree_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
