// SPDX-License-Identifier: MIT
#include "encode_fixture.h"

// A jump that nobody sees, the only one that leads there: it is the edge with the number 0.
static void test_silent_jump(void **unused)
{
    (void)unused;
    add("AB AC");
    add_kind("BC", EDGE_SILENT_JUMP);
    graph_edge(&graph, find("AC"))->heat = 100;
    encode();
    assert_int_equal(number_of("BC"), 0);
    assert_int_equal(number_of("AC"), 1);
    assert_false(numbering_code(&numbering, find("AB"))->save);
    walk("AB");
    assert_context("AB");
    uint32_t expected[] = {find("AB"), find("BC")};
    assert_path('C', 2, expected);
    machine_return(&machine, &numbering, find("AB"));
    walk("AC");
    assert_path('C', 1, (uint32_t[]){find("AC")});
}

// Two of them lead to D: B and C have ids of their own there, and so have those who call D.
static void test_silent_jumps(void **unused)
{
    (void)unused;
    add("AB AC AD DE");
    add_kind("BD", EDGE_SILENT_JUMP);
    add_kind("CD", EDGE_SILENT_JUMP);
    encode();
    assert_int_equal(number_of("AB"), 0);
    assert_int_equal(number_of("AC"), 1);
    assert_int_equal(number_of("AD"), 2);
    assert_int_equal(numbering.dictionary->max_id, 2);
    const char *ways[] = {"AB", "AC"}, *jumps[] = {"BD", "CD"};
    for (unsigned i = 0; i < 2; i++) {
        machine_reset(&machine);
        walk(ways[i]);
        uint32_t expected[] = {find(ways[i]), find(jumps[i]), find("DE")};
        assert_path('D', 2, expected);
        walk("DE");
        assert_path('E', 3, expected);
    }
    machine_reset(&machine);
    walk("ADE");
    assert_context("ADE");
}

// An interpreter: one jump leads to hundreds of functions, the last ones as well as the first.
static void test_silent_to_many(void **unused)
{
    (void)unused;
    enum { MANY = 400 };
    uint32_t edges[MANY], path[DEPTH];
    add("AB");
    const place_t jump = site_of('B', 'B');
    for (unsigned i = 0; i < MANY; i++) {
        const uint32_t target =
            graph_add_function(&graph, place_make(MODULE_FIRST_FILE, 0x100000 + i * 16));
        edges[i] = graph_add_edge(&graph, jump, function_of('B'), target, EDGE_SILENT_JUMP);
        assert_int_not_equal(edges[i], GRAPH_NONE);
    }
    encode();
    walk("AB");
    for (unsigned i = 0; i < MANY; i++) {
        const struct context context = context_of(&machine, graph_edge(&graph, edges[i])->callee);
        const int64_t count = context_decode(&graph, numbering.dictionary, &context, path, DEPTH);
        assert_int_equal(count, 2);
        assert_int_equal(path[DEPTH - 2], find("AB"));
        assert_int_equal(path[DEPTH - 1], edges[i]);
    }
}

// Jumps in a circle, with calls in between: B and C lead to each other.
static void test_silent_circle(void **unused)
{
    (void)unused;
    add("AB AC BD CD DC");
    add_kind("BC", EDGE_SILENT_JUMP);
    add_kind("CB", EDGE_SILENT_JUMP);
    encode();
    assert_int_equal(numbering_code(&numbering, find("DC"))->action, ACTION_REPEAT);
    walk("AB");
    uint32_t one[] = {find("AB"), find("BC"), find("CD"), find("DC"), find("CB")};
    assert_path('C', 2, one);
    walk("CD");
    assert_path('D', 3, one);
    walk("DC");
    assert_path('C', 4, one);
    assert_path('B', 5, one);
    machine_reset(&machine);
    walk("AC");
    uint32_t other[] = {find("AC"), find("CB"), find("BD")};
    assert_path('B', 2, other);
    walk("BD");
    assert_path('D', 3, other);
}

// A call that cannot be patched changes nothing, either, and its frame is there.
static void test_silent_call(void **unused)
{
    (void)unused;
    add("AB CD");
    add_kind("BC", EDGE_SILENT_CALL);
    encode();
    walk("AB");
    walk("CD");
    uint32_t expected[] = {find("AB"), find("BC"), find("CD")};
    assert_path('D', 3, expected);
    struct walked frames[3];
    assert_int_equal(path_to_walk(&graph, expected, 3, frames), 3);
    assert_true(frames[1].function == entry_of('C'));
    uint32_t unknown;
    assert_int_equal(machine_resync(&machine, &numbering, frames, 3, &unknown), 0);
    assert_path('D', 3, expected);
    machine_return(&machine, &numbering, find("CD"));
    assert_context("AB"); // back in B, nothing was done in between
}

// Met when the function that it leads to is encoded already.
static void test_silent_met_late(void **unused)
{
    (void)unused;
    add("AD");
    encode();
    enum cover cover;
    add_kind("BD", EDGE_SILENT_JUMP);
    assert_int_equal(numbering_cover(&numbering, &cover), 0);
    assert_int_equal(cover, COVER_STALE);
    encode();
    add_kind("XY", EDGE_SILENT_JUMP);
    assert_int_equal(numbering_cover(&numbering, &cover), 0);
    assert_int_equal(cover, COVER_FITS);
    walk("AX");
    uint32_t expected[] = {find("AX"), find("XY")};
    assert_path('Y', 2, expected);
    add_kind("DY", EDGE_SILENT_JUMP); // D has a number: calls of it do not push
    assert_int_equal(numbering_cover(&numbering, &cover), 0);
    assert_int_equal(cover, COVER_STALE);
}

static void test_hot_edges(void **unused)
{
    (void)unused;
    add("AB AC AD BE CE DE");
    graph_edge(&graph, find("CE"))->heat = 100;
    graph_edge(&graph, find("DE"))->heat = 50;
    encode();
    assert_int_equal(number_of("CE"), 0);
    assert_int_equal(number_of("DE"), 1);
    assert_int_equal(number_of("BE"), 2);
    // Of a circle, the coldest edge is left out, even if it is the oldest.
    add("EA");
    graph_edge(&graph, find("EA"))->heat = 70;
    encode();
    assert_int_equal(number_of("EA"), 0);
    assert_int_equal(number_of("CE"), 0);
    assert_int_equal(numbering_code(&numbering, find("AC"))->action, ACTION_REPEAT);
    walk("ACEACE");
    assert_context("ACEACE");
}

static void test_overflow(void **unused)
{
    (void)unused;
    // Each step doubles the contexts: A=B=C=D=E=F.
    char edge[3] = {0};
    for (char name = 'A'; name < 'Z'; name++) {
        edge[0] = name;
        edge[1] = (char)(name + 1);
        add(edge);
        graph_add_edge(&graph, site_of(name, edge[1]) + 3, function_of(name), function_of(edge[1]),
                       EDGE_CALL);
    }
    encode();
    assert_int_equal(numbering.dictionary->max_id, (1 << 25) - 1);
    assert_int_equal(numbering.cut, 0);
    options.id_bits = 16;
    encode();
    assert_int_equal(numbering.dictionary->max_id, 0x7fff);
    assert_int_equal(numbering.cut, 10);
    walk("ABCDEFGHIJKLMNOPQRSTUVWXYZ");
    assert_context("ABCDEFGHIJKLMNOPQRSTUVWXYZ");
    uint32_t cut = graph_find_edge(&graph, site_of('Y', 'Z') + 3, function_of('Z'));
    assert_int_equal(numbering_code(&numbering, cut)->action, ACTION_PUSH);
}

// A start routine that somebody calls, too: the root of the thread tells the two apart.
static void test_called_root(void **unused)
{
    (void)unused;
    add("AW WX");
    graph_set_root(&graph, function_of('W'));
    encode();
    walk("AWX");
    assert_context("AWX");
    machine.root = function_of('W');
    machine_reset(&machine);
    walk("WX");
    assert_context("WX");
}

static void test_resync(void **unused)
{
    (void)unused;
    add("AB BC AD DC");
    add_kind("CE", EDGE_TAIL);
    encode();
    struct walked frames[] = {
        {site_of('A', 'D'), entry_of('D'), GRAPH_NONE},
        {site_of('D', 'C'), entry_of('E'), GRAPH_NONE}, // C has left by its tail call
        {place_make(9, 77), entry_of('B'), GRAPH_NONE}, // called from code that is not ours
        {site_of('B', 'C'), entry_of('X'), GRAPH_NONE}, // C left in a way that we did not see
    };
    uint32_t unknown = 0;
    assert_int_equal(machine_resync(&machine, &numbering, frames, 2, &unknown), 0);
    assert_context("ADCE");
    machine_return(&machine, &numbering, find("DC"));
    assert_context("AD");
    for (uint32_t expected = 2; expected < 4; expected++) {
        assert_int_equal(machine_resync(&machine, &numbering, frames, 4, &unknown), -ENOENT);
        assert_int_equal(unknown, expected);
        uint32_t edge = resync_explain(&graph, &frames[unknown], frames[unknown - 1].function);
        assert_int_equal(graph_edge(&graph, edge)->kind,
                         expected == 2 ? EDGE_OUTSIDE : EDGE_TAIL_INDIRECT);
        cover();
    }
    for (unsigned i = 0; i < 2; i++) {
        uint32_t path[DEPTH];
        struct walked again[DEPTH];
        assert_int_equal(machine_resync(&machine, &numbering, frames, 4, &unknown), 0);
        struct context context = context_of(&machine, function_of('X'));
        int64_t count = context_decode(&graph, numbering.dictionary, &context, path, DEPTH);
        assert_int_equal(count, 6);
        assert_int_equal(path_to_walk(&graph, path + DEPTH - count, 6, again), 4);
        for (unsigned f = 0; f < 4; f++) {
            assert_true(again[f].site == frames[f].site);
            assert_true(again[f].function == frames[f].function);
        }
        machine_return(&machine, &numbering, find("BC"));
        encode();
    }
}

static void test_damaged_contexts(void **unused)
{
    (void)unused;
    add("AB AC BD CD DA");
    encode();
    uint32_t path[DEPTH];
    struct cc_entry entries[] = {{0, find("CD"), 0}, {1, find("DA"), 3}};
    struct context context = {1, entries, 0, function_of('A'), function_of('D')};
    assert_int_equal(context_decode(&graph, numbering.dictionary, &context, path, DEPTH), 2);
    assert_int_equal(context_decode(&graph, numbering.dictionary, &context, path, 1), -ENOSPC);
    struct context bad[] = {
        {2, entries, 0, function_of('A'), function_of('D')}, // above max_id, nothing pushed
        {1, entries, 1, function_of('A'), function_of('D')}, // below, though something was
        {1, entries, 0, function_of('A'), function_of('B')}, // more than B has contexts
        {0, entries, 0, function_of('C'), function_of('B')}, // C does not lead to B
        {0, entries, 0, function_of('A'), 1000},             // no such function
        {3, entries, 1, function_of('A'), function_of('D')}, // D was not entered by that
        {2, entries, 2, function_of('A'), function_of('A')}, // the repetition does not fit
        {UINT64_MAX, entries, 2, function_of('A'), function_of('A')},
    };
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(context_decode(&graph, numbering.dictionary, &bad[i], path, DEPTH),
                         -EBADMSG);
    entries[0].edge = 999;
    context = (struct context){2, entries, 1, function_of('A'), function_of('D')};
    assert_int_equal(context_decode(&graph, numbering.dictionary, &context, path, DEPTH), -EBADMSG);
}

static void test_no_room(void **unused)
{
    (void)unused;
    machine.limit = machine.tail_limit = 0;
    add("AB");
    add_kind("AC", EDGE_INDIRECT);
    cover();
    assert_int_equal(machine_call(&machine, &numbering, find("AB")), -ENOSPC);
    assert_int_equal(machine_call(&machine, &numbering, find("AC")), -ENOSPC);
    assert_int_equal(machine.id, 0);
    encode();
    assert_int_equal(machine_call(&machine, &numbering, find("AB")), 0);
}

// Without memory there is no new encoding, and nothing is lost.
static void test_no_memory(void **unused)
{
    (void)unused;
    add("AB BC CD DA AD");
    add_kind("CE", EDGE_SILENT_JUMP);
    encode();
    struct numbering other;
    unsigned maps = 0;
    for (int status = -ENOMEM; status == -ENOMEM; maps++) {
        uint64_t held = test_pool.mapped;
        test_pool_fail_after(maps);
        status = numbering_make(&other, &graph, &options);
        test_pool_fail_after(UINT_MAX);
        assert_true(status == 0 || status == -ENOMEM);
        assert_true(status == 0 || test_pool.mapped == held);
        assert_true(maps < 20);
    }
    assert_true(maps > 4);
    test_pool_fail_after(0);
    for (uint32_t i = 0; i < 1000; i++) {
        uint32_t function = graph_add_function(&graph, place_make(7, i));
        assert_true(function == GRAPH_NONE || function == i + 5);
    }
    test_pool_fail_after(UINT_MAX);
    walk("ABCDA");
    assert_context("ABCDA");
}

static void test_policy(void **unused)
{
    (void)unused;
    struct policy policy = POLICY_DEFAULT;
    struct policy_counters counters = {.edges = 15, .nanoseconds = 1000};
    assert_int_equal(policy_decide(&policy, &counters), REENCODE_NOT);
    counters.edges = 16;
    assert_int_equal(policy_decide(&policy, &counters), REENCODE_EDGES);
    // Not before the last one has paid off.
    counters.last_cost = 21;
    assert_int_equal(policy_decide(&policy, &counters), REENCODE_NOT);
    counters.nanoseconds = 21 * 50;
    assert_int_equal(policy_decide(&policy, &counters), REENCODE_EDGES);
    // A large graph wants more new edges.
    counters.edges_encoded = 8000;
    counters.edges = 8999;
    assert_int_equal(policy_decide(&policy, &counters), REENCODE_NOT);
    counters.edges = 9000;
    assert_int_equal(policy_decide(&policy, &counters), REENCODE_EDGES);
    counters.edges = 8001;
    counters.observed = (struct observed){.samples = 31, .taken = 100, .unencoded = 90};
    assert_int_equal(policy_decide(&policy, &counters), REENCODE_NOT);
    counters.observed.samples = 32;
    assert_int_equal(policy_decide(&policy, &counters), REENCODE_STACK);
    counters.observed.unencoded = 4;
    assert_int_equal(policy_decide(&policy, &counters), REENCODE_NOT);
    counters.observed.misplaced = 10;
    assert_int_equal(policy_decide(&policy, &counters), REENCODE_HOT);
    // Recursion stays: the same reason again and again is heard less and less.
    counters.observed = (struct observed){.samples = 32, .taken = 100, .repeated = 50};
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(policy_decide(&policy, &counters), REENCODE_STACK);
        policy_encoded(&policy, REENCODE_STACK, &counters);
        counters.observed.samples = i ? counters.observed.samples * 2 - 1 : 32;
        if (i > 0)
            assert_int_equal(policy_decide(&policy, &counters), REENCODE_NOT);
        counters.observed.samples = UINT64_C(32) << i;
    }
    // It helped: then the next is heard at once.
    counters.observed.repeated = 10;
    policy_encoded(&policy, REENCODE_STACK, &counters);
    assert_int_equal(policy.patience[REENCODE_STACK], 0);
}

static void test_observation(void **unused)
{
    (void)unused;
    add("AB AC BD CD DA");
    encode();
    add("AD");
    cover();
    uint32_t path[] = {find("AC"), find("CD"), find("DA"), find("AD"), find("DA")};
    struct observed observed = {0};
    observe_path(&graph, &numbering, path, 5, 0, 3, &observed);
    assert_int_equal(observed.samples, 1);
    assert_int_equal(observed.taken, 5);
    assert_int_equal(observed.misplaced, 1); // CD is hotter than BD now
    assert_int_equal(observed.repeated, 2);
    assert_int_equal(observed.unencoded, 1);
    assert_int_equal(graph_edge(&graph, find("DA"))->heat, 6);
    observe_path(&graph, &numbering, path, 5, 4, 3, &observed);
    assert_int_equal(observed.taken, 6);
    graph_cool(&graph);
    assert_int_equal(graph_edge(&graph, find("DA"))->heat, 4);
    uint32_t other[] = {path[0], path[1], path[3]};
    assert_int_equal(paths_share(path, 5, other, 3), 2);
    assert_int_equal(paths_share(path, 1, path, 5), 1);
}

static void test_statistics(void **unused)
{
    (void)unused;
    add("AB AC BD CD DA");
    add_kind("DE", EDGE_TAIL);
    add_kind("CF", EDGE_INDIRECT);
    encode();
    add("AF");
    cover();
    struct encoding_statistics statistics;
    encoding_count(&statistics, &numbering);
    assert_int_equal(statistics.stamp, 1);
    assert_int_equal(statistics.functions, 6);
    assert_int_equal(statistics.edges, 8);
    assert_int_equal(statistics.sites, 8);
    assert_int_equal(statistics.encoded, 6);
    assert_int_equal(statistics.zero, 5);
    assert_int_equal(statistics.back, 1);
    assert_int_equal(statistics.fresh, 1);
    assert_int_equal(statistics.plain, 4); // not the indirect one
    assert_int_equal(statistics.max_id, 1);
    dictionary_count(&statistics, numbering.dictionary);
    assert_int_equal(statistics.functions, 6);
    assert_int_equal(statistics.edges, 7);
    assert_int_equal(statistics.encoded, 6);
    assert_int_equal(statistics.zero, 5);
    assert_int_equal(statistics.max_id, 1);
    struct depth_statistics depths = {0};
    depth_count(&depths, 0, 0);
    depth_count(&depths, 5, 1);
    depth_count(&depths, UINT32_MAX, 2);
    assert_int_equal(depths.contexts, 3);
    assert_int_equal(depths.path_class[0], 1);
    assert_int_equal(depths.path_class[3], 1);
    assert_int_equal(depths.path_class[DEPTH_CLASSES - 1], 1);
    assert_int_equal(depths.stack_sum, 3);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_silent_jump),   TEST(test_silent_jumps),     TEST(test_silent_to_many),
        TEST(test_silent_circle), TEST(test_silent_call),      TEST(test_silent_met_late),
        TEST(test_hot_edges),     TEST(test_overflow),         TEST(test_called_root),
        TEST(test_resync),        TEST(test_damaged_contexts), TEST(test_no_room),
        TEST(test_no_memory),     TEST(test_policy),           TEST(test_observation),
        TEST(test_statistics),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
