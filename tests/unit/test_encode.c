// SPDX-License-Identifier: MIT
// The encoding, by the examples of the paper (Li, Wang, Wu, Hsu, Xu: Dynamic and Adaptive Calling
// Context Encoding, CGO 2014): its figures give the same numbers here. Functions have letters.

#include "encode/decode.h"
#include "encode/policy.h"
#include "encode/statistics.h"
#include "make_pool.h"
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { DEPTH = 64 };

static struct graph graph;
static struct numbering numbering;
static struct numbering_options options;
static struct machine machine;
static struct cc_entry stack[DEPTH];
static struct tc_entry tail_stack[DEPTH];

static place_t entry_of(char name)
{
    return place_make(MODULE_FIRST_FILE, (uint64_t)name * 0x1000);
}

static uint32_t function_of(char name)
{
    return graph_add_function(&graph, entry_of(name));
}

static place_t site_of(char caller, char callee)
{
    return entry_of(caller) + 5 + (uint64_t)callee * 8;
}

static uint32_t find(const char *edge)
{
    return graph_find_edge(&graph, site_of(edge[0], edge[1]), function_of(edge[1]));
}

static uint32_t add_kind(const char *edge, enum edge_kind kind)
{
    return graph_add_edge(&graph, site_of(edge[0], edge[1]), function_of(edge[0]),
                          function_of(edge[1]), kind);
}

// "AB BC": calls from A to B and from B to C.
static void add(const char *edges)
{
    for (; *edges; edges += edges[2] ? 3 : 2)
        assert_true(add_kind(edges, EDGE_CALL) != GRAPH_NONE);
}

static void cover(void)
{
    enum cover cover;
    assert_int_equal(numbering_cover(&numbering, &cover), 0);
}

static void encode(void)
{
    numbering_free(&numbering);
    options.stamp++;
    assert_int_equal(numbering_make(&numbering, &graph, &options), 0);
}

static int setup(void **unused)
{
    (void)unused;
    graph_init(&graph, &test_pool);
    options = (struct numbering_options){.id_bits = 64, .chain_targets = 4};
    assert_int_equal(numbering_start(&numbering, &graph, &options), 0);
    machine = (struct machine){.stack = stack, .limit = DEPTH, .tail_stack = tail_stack};
    machine.tail_limit = DEPTH;
    machine.root = function_of('A');
    graph_set_root(&graph, machine.root);
    return 0;
}

static int teardown(void **unused)
{
    (void)unused;
    test_pool_fail_after(UINT_MAX);
    test_pool_free();
    return 0;
}

static uint64_t number_of(const char *edge)
{
    const struct code *code = numbering_code(&numbering, find(edge));
    assert_int_equal(code->action, ACTION_ADD);
    return code->add;
}

// Walks along "ACD"; what is not known is met on the way.
static void walk(const char *path)
{
    for (; path[1]; path++) {
        if (find(path) == GRAPH_NONE)
            add_kind(path, EDGE_CALL);
        cover();
        uint32_t edge = find(path);
        if (edge_is_tail(graph_edge(&graph, edge)))
            assert_int_equal(machine_tail(&machine, &numbering, edge), 0);
        else
            assert_int_equal(machine_call(&machine, &numbering, edge), 0);
    }
}

static void assert_decodes(const struct dictionary *dictionary, const struct context *context,
                           const char *expected)
{
    uint32_t path[DEPTH];
    int64_t count = context_decode(&graph, dictionary, context, path, DEPTH);
    assert_int_equal(count, strlen(expected) - 1);
    for (int64_t i = 0; i < count; i++)
        assert_int_equal(path[DEPTH - count + i], find(expected + i));
}

static void assert_context(const char *expected)
{
    struct context context = context_of(&machine, function_of(expected[strlen(expected) - 1]));
    assert_decodes(numbering.dictionary, &context, expected);
}

static void assert_entry(unsigned at, uint64_t id, const char *edge, uint32_t count)
{
    assert_true(at < machine.depth);
    assert_int_equal(stack[at].id, id);
    assert_int_equal(stack[at].edge, find(edge));
    assert_int_equal(stack[at].count, count);
}

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

static void assert_path(char function, unsigned count, const uint32_t *expected)
{
    uint32_t path[DEPTH];
    struct context context = context_of(&machine, function_of(function));
    assert_int_equal(context_decode(&graph, numbering.dictionary, &context, path, DEPTH), count);
    assert_memory_equal(path + DEPTH - count, expected, count * sizeof path[0]);
}

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

// Two of them lead to D: then B and C are always entered by a push, and D's 0 is theirs.
static void test_silent_jumps(void **unused)
{
    (void)unused;
    add("AB AC AD DE");
    add_kind("BD", EDGE_SILENT_JUMP);
    add_kind("CD", EDGE_SILENT_JUMP);
    encode();
    assert_int_equal(numbering_code(&numbering, find("AB"))->action, ACTION_REPEAT);
    assert_int_equal(numbering_code(&numbering, find("AC"))->action, ACTION_REPEAT);
    assert_int_equal(number_of("AD"), 1);
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
        TEST(test_silent_jump),
        TEST(test_silent_jumps),
        TEST(test_silent_call),
        TEST(test_silent_met_late),
        TEST(test_hot_edges),
        TEST(test_overflow),
        TEST(test_called_root),
        TEST(test_resync),
        TEST(test_damaged_contexts),
        TEST(test_no_room),
        TEST(test_no_memory),
        TEST(test_policy),
        TEST(test_observation),
        TEST(test_statistics),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
