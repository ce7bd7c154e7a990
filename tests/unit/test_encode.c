// SPDX-License-Identifier: MIT
#include "encode_fixture.h"

static void test_figure_1(void **unused)
{
    (void)unused;
    add("AB AC BD CD DE DF");
    encode();
    assert_int_equal(numbering.dictionary->max_id, 1);
    assert_int_equal(number_of("CD"), 1);
    const char *plain[] = {"AB", "AC", "BD", "DE", "DF"};
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(number_of(plain[i]), 0);
        assert_true(numbering_plain(&numbering, graph_edge(&graph, find(plain[i]))->site));
    }
    assert_false(numbering_plain(&numbering, graph_edge(&graph, find("CD"))->site));
    walk("ACDF");
    assert_int_equal(machine.id, 1);
    assert_context("ACDF");
    machine_reset(&machine);
    walk("ABDF");
    assert_int_equal(machine.id, 0);
    assert_context("ABDF");
}

static void test_figure_2(void **unused)
{
    (void)unused;
    add("AC CD");
    encode();
    assert_int_equal(numbering.dictionary->max_id, 0);
    walk("AD");
    assert_int_equal(machine.id, 1);
    assert_int_equal(machine.depth, 1);
    assert_entry(0, 0, "AD", 0);
    assert_context("AD");
    machine_return(&machine, &numbering, find("AD"));
    assert_int_equal(machine.id, 0);
    assert_int_equal(machine.depth, 0);
    walk("ACD");
    assert_int_equal(machine.id, 0);
    assert_context("ACD");
}

// "suppose the full call path is A->B->C->D, in which edge AB and CD are unencoded"
static void test_two_unencoded(void **unused)
{
    (void)unused;
    add("BC AE EC");
    encode();
    uint64_t base = numbering.dictionary->max_id + 1;
    walk("ABCD");
    assert_int_equal(machine.id, base);
    assert_int_equal(machine.depth, 2);
    assert_entry(0, 0, "AB", 0);
    assert_entry(1, base + number_of("BC"), "CD", 0);
    assert_context("ABCD");
}

static void test_figure_3(void **unused)
{
    (void)unused;
    add("AB AC BD CD BG CG DI EI GI");
    encode();
    assert_int_equal(numbering.dictionary->max_id, 4);
    assert_int_equal(number_of("EI"), 2);
    add_kind("CE", EDGE_INDIRECT);
    walk("ACEI");
    assert_int_equal(machine.id, 7);
    assert_int_equal(machine.depth, 1);
    assert_entry(0, 0, "CE", 0);
    assert_context("ACEI");
    // Encoded anew, the target has a number of its own, and needs no stack.
    encode();
    machine_reset(&machine);
    walk("ACEI");
    assert_int_equal(machine.depth, 0);
    assert_context("ACEI");
    // A new target is still found: the site is never left alone.
    assert_false(numbering_plain(&numbering, graph_edge(&graph, find("CE"))->site));
}

// Many targets are looked up in a table, whose way back does not know which one it was.
static void test_figure_4(void **unused)
{
    (void)unused;
    uint32_t caller = function_of('A'), edge = GRAPH_NONE;
    for (char name = 'B'; name <= 'H'; name++)
        edge = graph_add_edge(&graph, site_of('A', 'A'), caller, function_of(name), EDGE_INDIRECT);
    encode();
    assert_int_equal(graph_site(&graph, graph_edge(&graph, edge)->site)->targets, 7);
    assert_true(numbering_code(&numbering, edge)->save);
    assert_int_equal(machine_call(&machine, &numbering, edge), 0);
    assert_int_equal(machine.tail_depth, 1);
    machine_return(&machine, &numbering, edge);
    assert_int_equal(machine.tail_depth, 0);
    options.chain_targets = 7;
    encode();
    assert_false(numbering_code(&numbering, edge)->save);
}

static void test_figure_5(void **unused)
{
    (void)unused;
    add("AC CD");
    encode();
    walk("ADACDAD");
    assert_int_equal(machine.id, 1);
    assert_int_equal(machine.depth, 4);
    assert_entry(0, 0, "AD", 0);
    assert_entry(1, 1, "DA", 0);
    assert_entry(2, 1, "DA", 0);
    assert_entry(3, 1, "AD", 0);
    assert_context("ADACDAD");
    // Now the recursive call is known for one: it stays without a number, and is counted.
    encode();
    assert_int_equal(numbering.back, 1);
    assert_int_equal(numbering_code(&numbering, find("DA"))->action, ACTION_REPEAT);
    assert_int_equal(numbering_code(&numbering, find("AD"))->action, ACTION_ADD);
    machine_reset(&machine);
    walk("ACDACDACDACD");
    assert_int_equal(machine.depth, 2);
    assert_entry(1, numbering.dictionary->max_id + 1, "DA", 1);
    assert_context("ACDACDACDACD");
}

// The same entry may stand for different ways: DA follows D once, and ACD the next time.
static void test_repetition_of_other_paths(void **unused)
{
    (void)unused;
    add("AC CD AD DA");
    graph_edge(&graph, find("AD"))->flags |= EDGE_UNENCODED;
    encode();
    walk("ADACDAD");
    assert_int_equal(machine.depth, 3);
    assert_entry(0, 0, "AD", 0);
    assert_entry(1, 1, "DA", 1);
    assert_entry(2, 1, "AD", 0);
    assert_context("ADACDAD");
    machine_return(&machine, &numbering, find("AD"));
    machine_return(&machine, &numbering, find("DA"));
    assert_context("ADACD");
    assert_entry(1, 1, "DA", 0);
}

// A context belongs to the dictionary of its time.
static void test_figure_6(void **unused)
{
    (void)unused;
    add("AB AC BD CD");
    encode();
    walk("ACD");
    struct context then = context_of(&machine, function_of('D'));
    const struct dictionary *old = numbering.dictionary;
    assert_int_equal(then.id, 1);
    machine_reset(&machine);
    // Another edge, and other hot ones: the numbers change.
    add("AD");
    graph_edge(&graph, find("AD"))->heat = 5;
    graph_edge(&graph, find("CD"))->heat = 9;
    encode();
    assert_int_equal(numbering.dictionary->stamp, old->stamp + 1);
    assert_int_equal(number_of("CD"), 0);
    assert_int_equal(number_of("AD"), 1);
    assert_int_equal(number_of("BD"), 2);
    walk("AD");
    assert_int_equal(machine.id, 1);
    assert_context("AD");
    assert_decodes(old, &then, "ACD");
}

// "Assume the invocation order is ACDFABDF", CD being a tail call.
static void test_figure_7(void **unused)
{
    (void)unused;
    add("AB AC BD");
    add_kind("CD", EDGE_TAIL);
    add("DF");
    encode();
    assert_int_equal(number_of("BD"), 0);
    assert_int_equal(number_of("CD"), 1);
    assert_true(numbering_code(&numbering, find("AC"))->save);
    assert_false(numbering_code(&numbering, find("AB"))->save);
    walk("ACDF");
    assert_int_equal(machine.id, 1);
    assert_context("ACDF");
    machine_return(&machine, &numbering, find("DF"));
    machine_return(&machine, &numbering, find("AC")); // D returns to A
    assert_int_equal(machine.id, 0);
    assert_int_equal(machine.tail_depth, 0);
    walk("ABDF");
    assert_int_equal(machine.id, 0);
    assert_context("ABDF");
}

// A tail call with the number 0 costs nothing, and its callers need not save.
static void test_plain_tail(void **unused)
{
    (void)unused;
    add("AB");
    add_kind("BC", EDGE_TAIL);
    encode();
    assert_true(numbering_plain(&numbering, graph_edge(&graph, find("BC"))->site));
    assert_false(numbering_code(&numbering, find("AB"))->save);
    graph_function(&graph, function_of('C'))->unseen_tails = 1;
    options.save_unseen_tails = 1;
    encode();
    assert_true(numbering_code(&numbering, find("AB"))->save);
}

// Tail calls in a circle, for ever: the state stays small, and tells the last turn.
static void test_tail_loop(void **unused)
{
    (void)unused;
    add("AB");
    add_kind("BC", EDGE_TAIL);
    add_kind("CB", EDGE_TAIL);
    assert_true(graph_edge(&graph, find("CB"))->flags & EDGE_LOOPS);
    assert_false(graph_edge(&graph, find("BC"))->flags & EDGE_LOOPS);
    for (unsigned encoded = 0; encoded < 2; encoded++) {
        if (encoded)
            encode();
        machine_reset(&machine);
        walk("AB");
        for (unsigned turn = 0; turn < 1000; turn++)
            walk("BCB");
        assert_true(machine.depth <= 2);
        walk("BC");
        uint32_t path[DEPTH], expected[] = {find("AB"), find("CB"), find("BC")};
        struct context context = context_of(&machine, function_of('C'));
        assert_int_equal(context_decode(&graph, numbering.dictionary, &context, path, DEPTH), 3);
        assert_memory_equal(path + DEPTH - 3, expected, sizeof expected);
        machine_return(&machine, &numbering, find("AB"));
        assert_int_equal(machine.id, 0);
        assert_int_equal(machine.depth, 0);
    }
}

// A first tail call in a function that was called by code which does not save.
static void test_tail_met_late(void **unused)
{
    (void)unused;
    add("AB BC");
    encode();
    walk("ABC");
    assert_false(numbering_code(&numbering, find("AB"))->save);
    add_kind("CD", EDGE_TAIL);
    enum cover cover;
    assert_int_equal(numbering_cover(&numbering, &cover), 0);
    assert_int_equal(cover, COVER_SAVES);
    assert_true(numbering_code(&numbering, find("BC"))->save);
    uint32_t path[] = {find("AB"), find("BC")};
    assert_int_equal(machine_replay(&machine, &numbering, path, 2), 0);
    assert_int_equal(machine.tail_depth, 1);
    walk("CD");
    assert_context("ABCD");
    machine_return(&machine, &numbering, find("BC"));
    assert_context("AB");
    assert_int_equal(machine.depth, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_figure_1),
        TEST(test_figure_2),
        TEST(test_two_unencoded),
        TEST(test_figure_3),
        TEST(test_figure_4),
        TEST(test_figure_5),
        TEST(test_repetition_of_other_paths),
        TEST(test_figure_6),
        TEST(test_figure_7),
        TEST(test_plain_tail),
        TEST(test_tail_loop),
        TEST(test_tail_met_late),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
