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
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(number_of(plain[i]), 0);
    walk("ACDF");
    assert_int_equal(state.id, 1);
    assert_context("ACDF");
    restart();
    walk("ABDF");
    assert_int_equal(state.id, 0);
    assert_context("ABDF");
}

static void test_figure_2(void **unused)
{
    (void)unused;
    add("AC CD");
    encode();
    assert_int_equal(numbering.dictionary->max_id, 0);
    walk("AD");
    assert_int_equal(state.id, 1);
    assert_int_equal(state.depth, 1);
    assert_entry(0, 0, "AD", 0);
    assert_context("AD");
    leave("AD");
    assert_int_equal(state.id, 0);
    assert_int_equal(state.depth, 0);
    walk("ACD");
    assert_int_equal(state.id, 0);
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
    assert_int_equal(state.id, base);
    assert_int_equal(state.depth, 2);
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
    assert_int_equal(state.id, 7);
    assert_int_equal(state.depth, 1);
    assert_entry(0, 0, "CE", 0);
    assert_context("ACEI");
    // Encoded anew, the target has a number of its own, and needs no stack.
    encode();
    restart();
    walk("ACEI");
    assert_int_equal(state.depth, 0);
    assert_context("ACEI");
}

// An indirect call has a number per target: its site compares, and then adds.
static void test_figure_4(void **unused)
{
    (void)unused;
    uint32_t caller = function_of('A'), edges[7];
    const place_t site = site_of('A', 'A');
    for (unsigned i = 0; i < 7; i++)
        edges[i] =
            graph_add_edge(&graph, site, caller, function_of((char)('B' + i)), EDGE_INDIRECT);
    add("BH CH DH");
    encode();
    for (unsigned i = 0; i < 7; i++) {
        assert_int_equal(graph_edge(&graph, edges[i])->site, graph_edge(&graph, edges[0])->site);
        encoded_call(&state, &numbering, edges[i]);
        assert_path((char)('B' + i), 1, &edges[i]);
        if (i < 3) {
            const uint32_t path[] = {edges[i], find((const char *[]){"BH", "CH", "DH"}[i])};
            encoded_call(&state, &numbering, path[1]);
            assert_path('H', 2, path);
            encoded_return(&state, &numbering, path[1]);
        }
        encoded_return(&state, &numbering, edges[i]);
        assert_int_equal(state.id, 0);
    }
    assert_int_equal(state.depth, 0);
}

static void test_figure_5(void **unused)
{
    (void)unused;
    add("AC CD");
    encode();
    walk("ADACDAD");
    assert_int_equal(state.id, 1);
    assert_int_equal(state.depth, 4);
    assert_entry(0, 0, "AD", 0);
    assert_entry(1, 1, "DA", 0);
    assert_entry(2, 1, "DA", 0);
    assert_entry(3, 1, "AD", 0);
    assert_context("ADACDAD");
    // Now the recursive call is known for one: it stays without a number, and is counted.
    encode();
    assert_int_equal(numbering.back, 1);
    assert_true(numbering_word(&numbering, find("DA")) & WORD_REPEATS);
    assert_true(numbering_word(&numbering, find("AD")) >= 0);
    restart();
    walk("ACDACDACDACD");
    assert_int_equal(state.depth, 2);
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
    assert_int_equal(state.depth, 3);
    assert_entry(0, 0, "AD", 0);
    assert_entry(1, 1, "DA", 1);
    assert_entry(2, 1, "AD", 0);
    assert_context("ADACDAD");
    leave("AD");
    leave("DA");
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
    struct encoded_context then = encoded_context_of(&state, function_of('D'));
    const struct dictionary *old = numbering.dictionary;
    assert_int_equal(then.id, 1);
    restart();
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
    assert_int_equal(state.id, 1);
    assert_context("AD");
    assert_decodes(old, &then, "ACD");
}

// "Assume the invocation order is ACDFABDF", CD being a tail call: nothing has to be saved, since
// the jump changes nothing.
static void test_figure_7(void **unused)
{
    (void)unused;
    add("AB AC BD");
    add_kind("CD", EDGE_SILENT_JUMP);
    add("DF");
    encode();
    walk("AC");
    const uint32_t jumped[] = {find("AC"), find("CD"), find("DF")};
    assert_path('D', 2, jumped);
    walk("DF");
    assert_path('F', 3, jumped);
    leave("DF");
    leave("AC"); // D returns to A
    assert_int_equal(state.id, 0);
    walk("ABDF");
    assert_int_equal(state.depth, 0);
    assert_context("ABDF");
}

// A call decodes to the function that its site is in, so a site is never in two.
static void test_a_site_has_one_caller(void **unused)
{
    (void)unused;
    const uint32_t callers[] = {function_of('B'), function_of('C')};
    const place_t site = site_of('B', 'D');
    add("AB AC BD");
    assert_int_equal(graph_add_edge(&graph, site, callers[0], function_of('D'), EDGE_CALL),
                     find("BD"));
    for (const char *callee = "DE"; *callee; callee++)
        assert_int_equal(graph_add_edge(&graph, site, callers[1], function_of(*callee), EDGE_CALL),
                         GRAPH_NONE);
    add("CD");
    encode();
    walk("ACD");
    assert_context("ACD");
    restart();
    walk("ABD");
    assert_context("ABD");
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
        TEST(test_a_site_has_one_caller),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
