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
    walk("AB");
    assert_context("AB");
    uint32_t expected[] = {find("AB"), find("BC")};
    assert_path('C', 2, expected);
    leave("AB");
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
        restart();
        walk(ways[i]);
        uint32_t expected[] = {find(ways[i]), find(jumps[i]), find("DE")};
        assert_path('D', 2, expected);
        walk("DE");
        assert_path('E', 3, expected);
    }
    restart();
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
        const struct encoded_context context =
            encoded_context_of(&state, graph_edge(&graph, edges[i])->callee);
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
    assert_true(numbering_word(&numbering, find("DC")) & WORD_REPEATS);
    walk("AB");
    uint32_t one[] = {find("AB"), find("BC"), find("CD"), find("DC"), find("CB")};
    assert_path('C', 2, one);
    walk("CD");
    assert_path('D', 3, one);
    walk("DC");
    assert_path('C', 4, one);
    assert_path('B', 5, one);
    restart();
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
    leave("CD");
    assert_context("AB"); // back in B, nothing was done in between
}

// Met when the function that it leads to is encoded already: what it leads to cannot be decoded,
// and is not decoded wrongly, until all is encoded anew.
static void test_silent_met_late(void **unused)
{
    (void)unused;
    add("AD DE");
    encode();
    add_kind("BD", EDGE_SILENT_JUMP);
    add_kind("BC", EDGE_SILENT_JUMP);
    walk("AB");
    uint32_t path[DEPTH], jumped[] = {find("AB"), find("BD"), find("DE")};
    struct encoded_context context = encoded_context_of(&state, function_of('D'));
    assert_int_equal(context_decode(&graph, numbering.dictionary, &context, path, DEPTH), -EBADMSG);
    walk("DE");
    context = encoded_context_of(&state, function_of('E'));
    assert_int_equal(context_decode(&graph, numbering.dictionary, &context, path, DEPTH), -EBADMSG);
    encode();
    restart();
    walk("AB");
    assert_path('D', 2, jumped);
    walk("DE");
    assert_path('E', 3, jumped);
    // Where all is new nothing else has the id.
    add_kind("XY", EDGE_SILENT_JUMP);
    restart();
    walk("AX");
    assert_path('Y', 2, (uint32_t[]){find("AX"), find("XY")});
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
    assert_true(numbering_word(&numbering, find("AC")) & WORD_REPEATS);
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
    assert_true(is_plain_push(cut));
}

// Edges at the end of a long way are hot: cold ones before them are left out, so that they fit.
static void test_overflow_leaves_out_the_coldest(void **unused)
{
    (void)unused;
    char edge[3] = {0};
    for (char name = 'A'; name < 'Z'; name++) {
        edge[0] = name;
        edge[1] = (char)(name + 1);
        add(edge);
        const uint32_t other = graph_add_edge(&graph, site_of(name, edge[1]) + 3, function_of(name),
                                              function_of(edge[1]), EDGE_CALL);
        graph_edge(&graph, find(edge))->heat = graph_edge(&graph, other)->heat =
            name < 'V' ? 1 : 1000;
    }
    encode();
    assert_int_equal(numbering.cold, 0);
    options.id_bits = 16;
    encode();
    assert_in_range(numbering.cold, 2, 1000);
    for (char name = 'V'; name < 'Z'; name++) {
        const uint32_t other = graph_find_edge(&graph, site_of(name, (char)(name + 1)) + 3,
                                               function_of((char)(name + 1)));
        assert_true(numbering_word(&numbering, other) >= 0);
    }
}

// All of them lead silently to one function: each has ids of its own there. What they call takes no
// more ids than there are paths to them.
static void test_silent_edges_of_all(void **unused)
{
    (void)unused;
    const char *path = "ABCDEFGHIJKLMNOPQRSTUVWXY";
    for (const char *edge = path; edge[1]; edge++) {
        const char silent[] = {edge[1], 'Z', 0};
        const char both[] = {edge[0], edge[1], 0};
        add(both);
        add_kind(silent, EDGE_SILENT_JUMP);
    }
    encode();
    assert_int_equal(numbering.dictionary->max_id, strlen(path) - 1);
    walk(path);
    assert_context(path);
    assert_int_equal(state.depth, 0);
    for (const char *edge = path + strlen(path) - 2; edge >= path; edge--)
        leave(edge);
    assert_int_equal(state.id, 0);
}

// The hottest caller's ids begin with another number than 0. It adds nothing, and the other less.
static void test_numbers_below_zero(void **unused)
{
    (void)unused;
    add("AB AC BD CD DE");
    add_kind("BZ", EDGE_SILENT_JUMP);
    add_kind("CZ", EDGE_SILENT_JUMP);
    graph_edge(&graph, find("CD"))->heat = 9;
    graph_edge(&graph, find("AB"))->heat = 5;
    encode();
    assert_int_equal(number_of("AC"), 1);
    assert_int_equal(number_of("CD"), 0);
    assert_int_equal(number_of("BD"), 2);
    graph_edge(&graph, find("CD"))->heat = 0;
    graph_edge(&graph, find("AC"))->heat = 7;
    graph_edge(&graph, find("AB"))->heat = 0;
    encode();
    const char *paths[] = {"ABDE", "ACDE"};
    for (unsigned i = 0; i < 2; i++) {
        restart();
        walk(paths[i]);
        assert_context(paths[i]);
    }
}

// A start routine that somebody calls, too: the root of the thread tells the two apart.
static void test_called_root(void **unused)
{
    (void)unused;
    add("AW WX");
    encode();
    walk("AWX");
    assert_context("AWX");
    state.root = function_of('W');
    restart();
    walk("WX");
    assert_context("WX");
}

static struct encoded_context context_at(uint64_t id, const struct cc_entry *stack, uint32_t depth,
                                         uint32_t root, uint32_t function)
{
    return (struct encoded_context){
        .id = id, .stack = stack, .depth = depth, .root = root, .function = function};
}

// Ids in open functions are told apart from all others; what is reached from one unseen has an id
// that it never has otherwise.
static void test_open_functions(void **unused)
{
    (void)unused;
    add("AB BC CB");
    encode();
    uint32_t path[DEPTH];
    uint8_t open[8] = {0};
    const uint32_t a = function_of('A'), b = function_of('B'), c = function_of('C');
    open[b] = 1;
    const struct cc_entry entries[] = {{0, find("CB"), 0}};
    const uint64_t base = dictionary_base(numbering.dictionary);
    const struct {
        uint64_t id;
        uint32_t depth, function;
        int64_t frames;
    } cases[] = {
        {ID_OPEN, 0, b, 1},
        {0, 0, b, -EBADMSG},
        {0, 0, c, 2},
        {UINT64_C(1) << 63, 0, c, 2}, // what is carried out of it
        {ID_OPEN, 0, c, -EBADMSG},    // reached from B, unseen
        {2 * ID_OPEN, 0, b, -EBADMSG},
        {ID_OUTSIDE, 0, c, -EBADMSG}, // called back
        {ID_OUTSIDE + ID_OPEN, 0, b, -EBADMSG},
        {base + ID_OPEN, 1, b, 3},
        {base, 1, b, -EBADMSG},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct encoded_context context =
            context_at(cases[i].id, entries, cases[i].depth, a, cases[i].function);
        context.open = open;
        context.open_count = sizeof open;
        assert_int_equal(context_decode(&graph, numbering.dictionary, &context, path, DEPTH),
                         cases[i].frames);
    }
}

static void test_damaged_contexts(void **unused)
{
    (void)unused;
    add("AB AC BD CD DA");
    encode();
    uint32_t path[DEPTH];
    struct cc_entry entries[] = {{0, find("CD"), 0}, {1, find("DA"), 3}};
    struct encoded_context context = context_at(1, entries, 0, function_of('A'), function_of('D'));
    assert_int_equal(context_decode(&graph, numbering.dictionary, &context, path, DEPTH), 2);
    assert_int_equal(context_decode(&graph, numbering.dictionary, &context, path, 1), -ENOSPC);
    struct encoded_context bad[] = {
        context_at(2, entries, 0, function_of('A'),
                   function_of('D')), // above max_id, nothing pushed
        context_at(1, entries, 1, function_of('A'),
                   function_of('D')), // below, though something was
        context_at(1, entries, 0, function_of('A'), function_of('B')), // more than B has contexts
        context_at(0, entries, 0, function_of('C'), function_of('B')), // C does not lead to B
        context_at(0, entries, 0, function_of('A'), 1000),             // no such function
        context_at(3, entries, 1, function_of('A'), function_of('D')), // D was not entered by that
        context_at(2, entries, 2, function_of('A'),
                   function_of('A')), // the repetition does not fit
        context_at(UINT64_MAX, entries, 2, function_of('A'), function_of('A')),
    };
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(context_decode(&graph, numbering.dictionary, &bad[i], path, DEPTH),
                         -EBADMSG);
    entries[0].edge = 999;
    context = context_at(2, entries, 1, function_of('A'), function_of('D'));
    assert_int_equal(context_decode(&graph, numbering.dictionary, &context, path, DEPTH), -EBADMSG);
}

// Calls that find no room on ccStack are counted; what was there before is there again.
static void test_no_room(void **unused)
{
    (void)unused;
    state.limit = 2;
    walk("ABCDE");
    assert_int_equal(state.depth, 2);
    assert_int_equal(state.over, 2);
    leave("DE");
    leave("CD");
    assert_int_equal(state.over, 0);
    assert_context("ABC");
    leave("BC");
    leave("AB");
    assert_int_equal(state.depth, 0);
    assert_int_equal(state.id, 0);
    leave("AB"); // more returns than calls: there is nothing below the stack
    assert_int_equal(state.depth, 0);
    encode();
    state.limit = 0;
    walk("ABCDE");
    assert_int_equal(state.over, 0);
    assert_context("ABCDE");
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
    struct reencode_policy policy = POLICY_DEFAULT;
    struct policy_counters counters = {.edges = 15, .nanoseconds = 1000};
    assert_int_equal(reencode_policy_decide(&policy, &counters), REENCODE_NOT);
    counters.edges = 16;
    assert_int_equal(reencode_policy_decide(&policy, &counters), REENCODE_EDGES);
    // Not before the last one has paid off.
    counters.last_cost = 21;
    assert_int_equal(reencode_policy_decide(&policy, &counters), REENCODE_NOT);
    counters.nanoseconds = 21 * 50;
    assert_int_equal(reencode_policy_decide(&policy, &counters), REENCODE_EDGES);
    // A large graph wants more new edges.
    counters.edges_encoded = 8000;
    counters.edges = 8999;
    assert_int_equal(reencode_policy_decide(&policy, &counters), REENCODE_NOT);
    counters.edges = 9000;
    assert_int_equal(reencode_policy_decide(&policy, &counters), REENCODE_EDGES);
    counters.edges = 8001;
    counters.observed = (struct observed){.samples = 31, .taken = 100, .unencoded = 90};
    assert_int_equal(reencode_policy_decide(&policy, &counters), REENCODE_NOT);
    counters.observed.samples = 32;
    assert_int_equal(reencode_policy_decide(&policy, &counters), REENCODE_STACK);
    counters.observed.unencoded = 4;
    assert_int_equal(reencode_policy_decide(&policy, &counters), REENCODE_NOT);
    counters.observed.misplaced = 10;
    assert_int_equal(reencode_policy_decide(&policy, &counters), REENCODE_HOT);
    // Recursion stays: the same reason again and again is heard less and less.
    counters.observed = (struct observed){.samples = 32, .taken = 100, .repeated = 50};
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(reencode_policy_decide(&policy, &counters), REENCODE_STACK);
        reencode_policy_encoded(&policy, REENCODE_STACK, &counters);
        counters.observed.samples = i ? counters.observed.samples * 2 - 1 : 32;
        if (i > 0)
            assert_int_equal(reencode_policy_decide(&policy, &counters), REENCODE_NOT);
        counters.observed.samples = UINT64_C(32) << i;
    }
    // It helped: then the next is heard at once.
    counters.observed.repeated = 10;
    reencode_policy_encoded(&policy, REENCODE_STACK, &counters);
    assert_int_equal(policy.patience[REENCODE_STACK], 0);
}

// Pushes that an encoding would save: at once if they have cost as much, later if they are fewer,
// and ever later if that saves nothing worth mentioning.
static void test_waste(void **unused)
{
    (void)unused;
    struct reencode_policy policy = POLICY_DEFAULT;
    const uint64_t cost = 200000, soon = cost * policy.cost_parts;
    struct policy_counters counters = {
        .edges = 1000, .edges_encoded = 1000, .last_cost = cost, .nanoseconds = 1, .wasted = cost};
    assert_int_equal(reencode_policy_decide(&policy, &counters), REENCODE_WASTE);
    counters.wasted = cost - 1;
    assert_int_equal(reencode_policy_decide(&policy, &counters), REENCODE_NOT);
    counters.nanoseconds = soon - 1;
    assert_int_equal(reencode_policy_decide(&policy, &counters), REENCODE_NOT);
    counters.nanoseconds = soon;
    assert_int_equal(reencode_policy_decide(&policy, &counters), REENCODE_WASTE);
    counters.wasted = 0;
    counters.nanoseconds = UINT64_MAX;
    assert_int_equal(reencode_policy_decide(&policy, &counters), REENCODE_NOT);
    for (unsigned i = 0; i < 4; i++) {
        counters.wasted = cost / policy.waste_parts - 1;
        counters.nanoseconds = (soon << i) - 1;
        assert_int_equal(reencode_policy_decide(&policy, &counters), REENCODE_NOT);
        counters.nanoseconds++;
        assert_int_equal(reencode_policy_decide(&policy, &counters), REENCODE_WASTE);
        reencode_policy_encoded(&policy, REENCODE_WASTE, &counters);
    }
    // Where it is worth something, it waits no longer than at first.
    counters.wasted = cost / policy.waste_parts;
    counters.nanoseconds = soon;
    assert_int_equal(reencode_policy_decide(&policy, &counters), REENCODE_WASTE);
    reencode_policy_encoded(&policy, REENCODE_WASTE, &counters);
    assert_int_equal(policy.patience[REENCODE_WASTE], 0);
    // A graph that has grown costs more.
    counters.edges = 4000;
    counters.wasted = 4 * cost - 1;
    counters.nanoseconds = 4 * soon - 1;
    assert_false(reencode_policy_is_wasteful(&policy, &counters));
    counters.wasted++;
    assert_true(reencode_policy_is_wasteful(&policy, &counters));
}

static void test_observation(void **unused)
{
    (void)unused;
    add("AB AC BD CD DA");
    encode();
    add("AD");
    uint32_t path[] = {find("AC"), find("CD"), find("DA"), find("AD"), find("DA")};
    struct observed observed = {0};
    observe_path(&graph, &numbering, path, 5, &observed);
    assert_int_equal(observed.samples, 1);
    assert_int_equal(observed.taken, 5);
    assert_int_equal(observed.misplaced, 1); // CD is hotter than BD now
    assert_int_equal(observed.repeated, 2);
    assert_int_equal(observed.unencoded, 1);
    assert_int_equal(graph_edge(&graph, find("DA"))->heat, 2);
    observe_path(&graph, &numbering, path + 4, 1, &observed);
    assert_int_equal(observed.taken, 6);
    graph_cool(&graph);
    assert_int_equal(graph_edge(&graph, find("DA"))->heat, 1);
    uint32_t other[] = {path[0], path[1], path[3]};
    assert_int_equal(paths_share(path, 5, other, 3), 2);
    assert_int_equal(paths_share(path, 1, path, 5), 1);
}

// What becomes of the edges, as the columns of the paper's Table 1 have it.
static void test_counts(void **unused)
{
    (void)unused;
    add("AB AC BD CD DA");
    add_kind("CF", EDGE_INDIRECT);
    add_kind("DE", EDGE_SILENT_JUMP);
    encode();
    add("AF");
    assert_int_equal(numbering.encoded, 5);
    assert_int_equal(numbering.back, 1);
    assert_int_equal(numbering.cut, 0);
    assert_true(is_plain_push(find("AF")));
    assert_int_equal(numbering.dictionary->steps, 5);
    assert_int_equal(numbering.dictionary->edges, 7);
    assert_int_equal(numbering.dictionary->functions, 6);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_silent_jump),
        TEST(test_silent_jumps),
        TEST(test_silent_to_many),
        TEST(test_silent_circle),
        TEST(test_silent_call),
        TEST(test_silent_met_late),
        TEST(test_hot_edges),
        TEST(test_overflow),
        TEST(test_called_root),
        TEST(test_silent_edges_of_all),
        TEST(test_overflow_leaves_out_the_coldest),
        TEST(test_numbers_below_zero),
        TEST(test_damaged_contexts),
        TEST(test_open_functions),
        TEST(test_no_room),
        TEST(test_no_memory),
        TEST(test_policy),
        TEST(test_waste),
        TEST(test_observation),
        TEST(test_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
