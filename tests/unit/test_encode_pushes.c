// SPDX-License-Identifier: MIT
// Pushes that are looked at: why each of them pushed, and whether another encoding would save it.

#include "base/now.h"
#include "make_pool.h"
#include "track/encode/sites/open_functions.h"
#include "track/encode/threads/count_pushes.h"
#include "track/encode/threads/epoch.h"
#include "track/walk/seen_unwinders.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

// main calls f directly (0) and g by its address (1); f calls itself by its address (2). A call of
// h by its address (3) is newer than the encoding; another one (4) leads outside.
enum { DIRECT, INDIRECT, REPEATS, NEW, OUTSIDE, EDGES };
enum { KNOWN = NEW }; // edges of the encoding
enum { MAIN, F, G, H, STRANGER };

#define HOURS_NS UINT64_C(10000000000000)

// What count_pushes.c finds in the agent.
struct encode encode;
__thread struct encode_state encode_state;

static struct live_encode counts;
static struct dictionary dictionary;
static struct encode_epoch epoch;
static struct encode_thread thread;
static unsigned slow_paths;

int64_t encode_word(const struct encode_thread *on, uint32_t edge)
{
    return on->epoch->words.word[edge];
}

bool encode_repeats(const struct encode_thread *on, uint32_t edge)
{
    const int64_t word = encode_word(on, edge);
    return word < 0 && word & WORD_REPEATS;
}

bool encode_may_number(uint32_t edge)
{
    return !encode_leads_outside(edge);
}

bool encode_leads_outside(uint32_t edge)
{
    return graph_edge(&encode.graph, edge)->callee == STRANGER;
}

void encode_take_slow_path(struct encode_state *state)
{
    assert_ptr_equal(state, &encode_state);
    slow_paths++;
}

bool program_unwinder_has_memory(void)
{
    return false;
}

static void add_edge(uint32_t site, uint32_t caller, uint32_t callee, enum edge_kind kind)
{
    assert_int_not_equal(
        graph_add_edge(&encode.graph, place_make(7, 1000 + site), caller, callee, kind),
        GRAPH_NONE);
}

static int setup(void **unused)
{
    (void)unused;
    encode = (struct encode){.pool = test_pool, .counts = &counts};
    encode.policy = (struct reencode_policy)POLICY_DEFAULT;
    encode.encoded_at = now_ns(CLOCK_MONOTONIC);
    graph_init(&encode.graph, &encode.pool);
    for (uint32_t function = MAIN; function <= STRANGER; function++)
        assert_int_equal(graph_add_function(&encode.graph, place_make(7, function)), function);
    add_edge(0, MAIN, F, EDGE_CALL);
    add_edge(1, MAIN, G, EDGE_INDIRECT);
    add_edge(2, F, F, EDGE_INDIRECT);
    add_edge(3, MAIN, H, EDGE_INDIRECT);
    add_edge(4, MAIN, STRANGER, EDGE_INDIRECT);
    dictionary = (struct dictionary){.edges = KNOWN};
    epoch.dictionary = &dictionary;
    for (uint32_t edge = 0; edge < EDGES; edge++)
        epoch.words.word[edge] = WORD_PUSH | edge;
    epoch.words.word[INDIRECT] = 3;
    epoch.words.word[REPEATS] |= WORD_REPEATS;
    thread.epoch = &epoch;
    encode.epoch = &epoch;
    encode_state = (struct encode_state){.thread = &thread, .countdown_from = 1000};
    encode.policy_counters.last_cost = HOURS_NS;
    encode.policy_counters.edges_encoded = EDGES;
    counts = (struct live_encode){0};
    slow_paths = 0;
    return 0;
}

static int teardown(void **unused)
{
    (void)unused;
    graph_free(&encode.graph);
    test_pool_free();
    return 0;
}

// Nanoseconds that a look at a push of the edge finds wasted.
static uint64_t waste_of(uint32_t edge)
{
    const uint64_t before = encode.policy_counters.wasted, pushes = encode_state.countdown_from;
    const uint64_t heat = graph_edge(&encode.graph, edge)->heat;
    encode_count_push(&encode_state, edge);
    assert_int_equal(graph_edge(&encode.graph, edge)->heat, heat + pushes);
    assert_in_range(encode_state.countdown, 128, 255);
    return (encode.policy_counters.wasted - before) / pushes;
}

static void test_recursion_is_no_waste(void **unused)
{
    (void)unused;
    assert_int_equal(waste_of(REPEATS), 0);
    assert_int_equal(counts.pushes_recursion, 1000);
    assert_int_equal(counts.pushes, 1000);
}

static void test_edges_that_are_new(void **unused)
{
    (void)unused;
    const uint64_t each = waste_of(NEW);
    assert_int_not_equal(each, 0);
    assert_int_equal(counts.pushes_new, 1000);
    assert_int_equal(waste_of(OUTSIDE), each); // its call would add, too
}

// In the chain of its site, but that does not lead there now.
static void test_targets_without_an_arm(void **unused)
{
    (void)unused;
    const uint64_t each = waste_of(INDIRECT);
    assert_int_equal(counts.pushes_armless, 1000);
    assert_int_equal(each, waste_of(NEW));
    for (uint32_t edge = INDIRECT; edge <= OUTSIDE; edge++)
        graph_edge(&encode.graph, edge)->flags = EDGE_ARMLESS | EDGE_UNENCODED;
    assert_int_equal(waste_of(INDIRECT) + waste_of(NEW) + waste_of(OUTSIDE), 0);
}

// Of direct calls that push, the encoding has left some out.
static void test_edges_that_were_left_out(void **unused)
{
    (void)unused;
    assert_int_equal(waste_of(DIRECT), 0);
    assert_int_equal(counts.pushes_overflow, 1000);
    encode.numbering.cold = 100;
    assert_int_not_equal(waste_of(DIRECT), 0);
    assert_int_equal(waste_of(REPEATS), 0);
}

static void look(uint32_t edge, enum reencode wanted)
{
    encode.wanted = REENCODE_NOT;
    slow_paths = 0;
    waste_of(edge);
    assert_int_equal(encode.wanted, wanted);
    assert_int_equal(slow_paths, wanted != REENCODE_NOT);
}

static void test_an_encoding_is_asked_for(void **unused)
{
    (void)unused;
    look(NEW, REENCODE_NOT);
    // As soon as it costs little of the time.
    encode.policy_counters.last_cost = encode.policy.least_cost;
    encode.encoded_at =
        now_ns(CLOCK_MONOTONIC) - encode.policy.cost_parts * encode.policy.least_cost;
    look(REPEATS, REENCODE_NOT);
    look(NEW, REENCODE_WASTE);
    // As soon as pushes have taken as long.
    encode.encoded_at = now_ns(CLOCK_MONOTONIC);
    encode.policy_counters.last_cost = encode.policy_counters.wasted = HOURS_NS;
    look(REPEATS, REENCODE_NOT);
    look(NEW, REENCODE_WASTE);
}

// There is a newer encoding: the thread goes over to that one first.
static void test_a_thread_that_is_behind(void **unused)
{
    (void)unused;
    static struct encode_epoch newer;
    encode.epoch = &newer;
    look(NEW, REENCODE_WASTE);
    assert_int_equal(encode.policy_counters.wasted, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_recursion_is_no_waste, setup, teardown),
        cmocka_unit_test_setup_teardown(test_edges_that_are_new, setup, teardown),
        cmocka_unit_test_setup_teardown(test_targets_without_an_arm, setup, teardown),
        cmocka_unit_test_setup_teardown(test_edges_that_were_left_out, setup, teardown),
        cmocka_unit_test_setup_teardown(test_an_encoding_is_asked_for, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_thread_that_is_behind, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
