// SPDX-License-Identifier: MIT

#include "analyze/tree/refine.h"
#include "analyze/views/callers.h"
#include "analyze/views/flat.h"
#include "analyze_fixture.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct calltree *build(const struct build_options *options)
{
    struct analysis *analysis = fixture_analysis();
    build_resolve(analysis->functions, analysis->profile, options);
    struct calltree *tree = build_calltree(analysis->functions, analysis->profile, options);
    calltree_order(tree, 0, ORDER_TOTAL);
    return tree;
}

static uint64_t total(const struct calltree *tree, const char *path)
{
    return calltree_total(tree, fixture_find(tree, path), 0);
}

static uint64_t self(const struct calltree *tree, const char *path)
{
    return calltree_self(tree, fixture_find(tree, path), 0);
}

enum { WIDE = 1000 };

// Children beyond the first few are found in another way, and those of two nodes are kept apart.
static void test_wide_nodes(void **state)
{
    (void)state;
    fixture_start();
    fixture_figure1();
    struct functions *functions = fixture_analysis()->functions;
    struct calltree *tree = calltree_new(functions, 1, "all");
    uint32_t numbers[WIDE][2];
    for (unsigned pass = 0; pass < 2; pass++)
        for (unsigned i = 0; i < WIDE; i++) {
            char name[16];
            snprintf(name, sizeof name, "f%u", i);
            const struct call_edge edge = {
                .function = functions_intern(functions, name, MODULE_NONE), .kind = CALL_FUNCTION};
            const uint32_t child = calltree_child(tree, 0, edge);
            const uint32_t below = calltree_child(tree, 1, edge);
            if (pass == 0) {
                assert_int_equal(tree->nodes[child].parent, 0);
                assert_int_equal(tree->nodes[below].parent, 1);
                numbers[i][0] = child;
                numbers[i][1] = below;
            }
            assert_int_equal(child, numbers[i][0]);
            assert_int_equal(below, numbers[i][1]);
        }
    assert_int_equal(tree->count, 1 + 2 * WIDE);
    calltree_free(tree);
    fixture_end();
}

static void test_the_papers_figure_1_has_its_costs(void **state)
{
    (void)state;
    fixture_start();
    fixture_figure1();
    struct calltree *tree = build(&(struct build_options){0});
    assert_int_equal(calltree_total(tree, 0, 0), 100);
    assert_int_equal(self(tree, "main"), 1);
    assert_int_equal(total(tree, "main;a"), 42);
    assert_int_equal(total(tree, "main;b"), 57);
    assert_int_equal(self(tree, "main;b;c"), 54);
    assert_int_equal(calltree_returns(tree, fixture_find(tree, "main;a;c")), 7);
    assert_int_equal(calltree_returns(tree, fixture_find(tree, "main;b;c")), 70);
    const struct call_node *c = &tree->nodes[fixture_find(tree, "main;b;c")];
    assert_int_equal(c->call_line, 33);
    assert_string_equal(functions_file(tree->functions, c->call_file), "/src/b.c");
    assert_int_equal(calltree_function(tree, fixture_find(tree, "main;b;c"))->line, 40);
    calltree_free(tree);
    fixture_end();
}

static void test_threads_and_processes_merge(void **state)
{
    (void)state;
    fixture_start();
    fixture_figure1();
    place_t worker = fixture_function(PROGRAM, 0x2000, "worker", 100);
    for (uint32_t tid = 101; tid < 103; tid++) {
        uint32_t root = fixture_tree(worker, tid);
        fixture_statement(fixture_frame(root, 0, worker, 0), worker + 8, 10);
    }
    fixture_process(200, "/bin/child");
    uint32_t root = fixture_tree(0, 200);
    fixture_statement(fixture_frame(root, 0, worker, 0), worker + 8, 5);

    struct calltree *tree = build(&(struct build_options){0});
    assert_int_equal(total(tree, "worker"), 25);
    calltree_free(tree);

    tree =
        build(&(struct build_options){.processes = PROCESSES_APART, .threads = THREADS_BY_START});
    assert_int_equal(total(tree, "prog [100];main thread;main"), 100);
    assert_int_equal(total(tree, "prog [100];worker;worker"), 20);
    assert_int_equal(total(tree, "child [200];main thread;worker"), 5);
    calltree_free(tree);

    tree = build(&(struct build_options){.threads = THREADS_APART});
    assert_int_equal(total(tree, "worker [101];worker"), 10);
    calltree_free(tree);

    tree = build(&(struct build_options){.process = 200});
    assert_int_equal(calltree_total(tree, 0, 0), 5);
    calltree_free(tree);
    tree = build(&(struct build_options){.thread = fixture_pattern("^work")});
    assert_int_equal(calltree_total(tree, 0, 0), 20);
    calltree_free(tree);
    tree = build(&(struct build_options){.tid = 102});
    assert_int_equal(calltree_total(tree, 0, 0), 10);
    calltree_free(tree);
    fixture_end();
}

// r calls itself from two lines; 3 deep.
static void add_recursion(void)
{
    place_t main_ = fixture_function(PROGRAM, 0x1000, "main", 10);
    place_t r = fixture_function(PROGRAM, 0x1100, "r", 20);
    uint32_t frame = fixture_frame(fixture_tree(0, 100), 0, main_, 0);
    frame = fixture_frame(frame, main_ + 0x11, r, 0);
    fixture_statement(frame, r + 0x40, 1);
    uint32_t first = fixture_frame(frame, r + 0x11, r, 0);
    fixture_statement(first, r + 0x40, 10);
    uint32_t second = fixture_frame(frame, r + 0x21, r, 0);
    fixture_statement(second, r + 0x40, 100);
    fixture_statement(fixture_frame(second, r + 0x21, r, 0), r + 0x40, 1000);
}

static const struct flat_row *flat_find(const struct flat *flat, const struct calltree *tree,
                                        const char *name, unsigned line, uint64_t *self_cost,
                                        uint64_t *total_cost)
{
    for (size_t i = 0; i < flat->count; i++) {
        const struct flat_row *row = &flat->rows[i];
        if (strcmp(functions_get(tree->functions, row->function)->name, name) == 0 &&
            row->line == line) {
            *self_cost = flat->self[i];
            *total_cost = flat->total[i];
            return row;
        }
    }
    fail_msg("no row of %s line %u", name, line);
    return NULL;
}

static void test_recursion_counts_once(void **state)
{
    (void)state;
    fixture_start();
    add_recursion();
    struct calltree *tree = build(&(struct build_options){0});
    // Both sites in r are one node.
    assert_int_equal(total(tree, "main;r;r"), 1110);
    assert_int_equal(tree->nodes[fixture_find(tree, "main;r;r")].call_line, LINE_SEVERAL);
    struct flat *flat = flat_new(tree, FLAT_FUNCTION);
    uint64_t self_cost, total_cost;
    flat_find(flat, tree, "r", 0, &self_cost, &total_cost);
    assert_int_equal(self_cost, 1111);
    assert_int_equal(total_cost, 1111);
    flat_find(flat, tree, "main", 0, &self_cost, &total_cost);
    assert_int_equal(self_cost, 0);
    assert_int_equal(total_cost, 1111);
    flat_free(flat);

    struct callers_options options = {.order = ORDER_TOTAL, .depth = 10};
    struct calltree *callers = callers_tree(tree, &options);
    assert_int_equal(total(callers, "r"), 1111);
    assert_int_equal(self(callers, "r"), 1111);
    assert_int_equal(total(callers, "r;main"), 1111);
    assert_int_equal(self(callers, "r;main"), 1);
    assert_int_equal(self(callers, "r;r"), 1110);
    assert_int_equal(total(callers, "r;r"), 0); // those samples were counted at the outermost r
    assert_int_equal(self(callers, "r;r;r;main"), 1000);
    calltree_free(callers);
    calltree_free(tree);
    fixture_end();
}

static void test_sites_and_lines(void **state)
{
    (void)state;
    fixture_start();
    add_recursion();
    struct calltree *tree = build(&(struct build_options){.sites = true, .lines = true});
    unsigned found = 0;
    for (uint32_t i = 0; i < tree->count; i++)
        if (tree->nodes[i].parent == fixture_find(tree, "main;r")) {
            found++;
            assert_int_equal(calltree_total(tree, i, 0), tree->nodes[i].call_line == 21   ? 10
                                                         : tree->nodes[i].call_line == 22 ? 1100
                                                                                          : 0);
        }
    assert_int_equal(found, 2);
    struct flat *flat = flat_new(tree, FLAT_LINE);
    uint64_t self_cost, total_cost;
    flat_find(flat, tree, "r", 24, &self_cost, &total_cost);
    assert_int_equal(self_cost, 1111);
    assert_int_equal(total_cost, 1111);
    flat_find(flat, tree, "r", 22, &self_cost, &total_cost);
    assert_int_equal(self_cost, 0);
    assert_int_equal(total_cost, 1100); // not 2100: twice on one path
    flat_find(flat, tree, "main", 11, &self_cost, &total_cost);
    assert_int_equal(total_cost, 1111);
    flat_free(flat);
    calltree_free(tree);
    fixture_end();
}

static void test_inlined_frames(void **state)
{
    (void)state;
    fixture_start();
    place_t main_ = fixture_function(PROGRAM, 0x1000, "main", 10);
    place_t leaf = fixture_function(PROGRAM, 0x1100, "leaf", 20);
    fixture_inline(main_ + 0x20, main_ + 0x60, "outer", 70);
    fixture_inline(main_ + 0x40, main_ + 0x60, "inner", 80);
    uint32_t frame = fixture_frame(fixture_tree(0, 100), 0, main_, 0);
    fixture_statement(frame, main_ + 0x30, 1);
    fixture_statement(frame, main_ + 0x50, 2);
    // Returns right behind the inlined part: the call itself lies in it.
    fixture_statement(fixture_frame(frame, main_ + 0x60, leaf, 0), leaf + 4, 4);
    struct calltree *tree = build(&(struct build_options){.sites = true});
    assert_int_equal(self(tree, "main;outer"), 1);
    assert_int_equal(self(tree, "main;outer;inner"), 2);
    assert_int_equal(self(tree, "main;outer;inner;leaf"), 4);
    assert_int_equal(self(tree, "main"), 0);
    assert_int_equal(tree->nodes[fixture_find(tree, "main;outer")].kind, CALL_INLINED);
    assert_int_equal(tree->nodes[fixture_find(tree, "main;outer;inner;leaf")].kind, CALL_FUNCTION);
    assert_int_equal(tree->nodes[fixture_find(tree, "main;outer;inner;leaf")].call_line, 80);
    assert_int_equal(tree->nodes[fixture_find(tree, "main;outer;inner")].call_line, 70);
    calltree_free(tree);

    struct pattern *ignore[] = {fixture_pattern("^outer$")};
    tree = build(&(struct build_options){.ignore = ignore, .ignore_count = 1});
    assert_int_equal(self(tree, "main"), 1);
    assert_int_equal(self(tree, "main;inner;leaf"), 4);
    calltree_free(tree);
    fixture_end();
}

static void test_agent_and_ignored_frames(void **state)
{
    (void)state;
    fixture_start();
    place_t start = fixture_function(LIBRARY, 0x1000, "start_thread", 10);
    place_t hook = fixture_function(AGENT, 0x1000, "thread_hook", 10);
    place_t work = fixture_function(PROGRAM, 0x1000, "work", 20);
    uint32_t frame = fixture_frame(fixture_tree(work, 101), 0, start, 0);
    frame = fixture_frame(frame, start + 0x21, hook, 5);
    fixture_statement(frame, hook + 4, 1);
    frame = fixture_frame(frame, hook + 0x31, work, 6);
    fixture_statement(frame, work + 4, 2);
    struct calltree *tree = build(&(struct build_options){.sites = true});
    assert_int_equal(self(tree, "start_thread"), 1);
    assert_int_equal(self(tree, "start_thread;work"), 2);
    assert_int_equal(tree->nodes[fixture_find(tree, "start_thread;work")].call_line, 12);
    assert_int_equal(calltree_returns(tree, fixture_find(tree, "start_thread;work")), 6);
    calltree_free(tree);
    struct pattern *ignore[] = {fixture_pattern("^start_"), fixture_pattern("^nothing$")};
    tree = build(&(struct build_options){.ignore = ignore, .ignore_count = 2});
    assert_int_equal(total(tree, "work"), 2);
    assert_int_equal(total(tree, NO_PATH), 1); // nobody is left to have called it
    calltree_free(tree);
    fixture_end();
}

static void test_names_of_odd_frames(void **state)
{
    (void)state;
    fixture_start();
    place_t main_ = fixture_function(PROGRAM, 0x1000, "main", 10);
    place_t restore = fixture_function(LIBRARY, 0x2001, "__restore_rt", 1);
    place_t handler = fixture_function(PROGRAM, 0x1100, "on_signal", 20);
    place_t hidden = fixture_function(PROGRAM, 0x1200, "hidden", 30);
    uint32_t frame = fixture_frame(fixture_tree(0, 100), 0, main_, 0);
    // The unwind entry of the trampoline begins one byte before it.
    uint32_t signal = fixture_frame(frame, main_ + 0x11, restore - 1, 3);
    fixture_statement(fixture_frame(signal, restore + 1, handler, 0), handler + 4, 1);
    // A function whose beginning is not known is named by what lies in it.
    uint32_t odd = fixture_frame(frame, main_ + 0x21, place_make(PROGRAM, PLACE_OFFSET_UNKNOWN), 0);
    fixture_statement(odd, hidden + 0x30, 2);
    // Nothing is known of two addresses, but that they lie in one function.
    uint32_t stripped = fixture_frame(frame, main_ + 0x31, place_make(LIBRARY, 0x9000), 0);
    fixture_statement(stripped, place_make(LIBRARY, 0x9010), 4);
    fixture_statement(stripped, place_make(LIBRARY, 0x9020), 8);
    // Not even a statement.
    uint32_t lost = fixture_frame(frame, 0, place_make(PROGRAM, PLACE_OFFSET_UNKNOWN), 0);
    fixture_statement(lost, 0, 16);
    struct calltree *tree = build(&(struct build_options){0});
    assert_int_equal(total(tree, "main;" SIGNAL_HANDLER ";on_signal"), 1);
    assert_int_equal(calltree_returns(tree, fixture_find(tree, "main;" SIGNAL_HANDLER)), 3);
    assert_int_equal(self(tree, "main;hidden"), 2);
    assert_int_equal(self(tree, "main;m4+0x9000"), 12);
    assert_int_equal(self(tree, "main;<unknown in prog>"), 16);
    calltree_free(tree);
    fixture_end();
}

static void test_through_keeps_what_passes_a_function(void **state)
{
    (void)state;
    fixture_start();
    fixture_figure1();
    struct calltree *tree = build(&(struct build_options){0});
    struct pattern_list none = {.count = 0};
    struct pattern_list c = {{fixture_pattern("^c$")}, 1};
    struct pattern_list c_and_b = {{fixture_pattern("^c$"), fixture_pattern("^b$")}, 2};
    struct calltree *refined = refine_paths(tree, &c, &none);
    assert_int_equal(calltree_total(refined, 0, 0), 94);
    assert_int_equal(self(refined, "main;a"), 0);
    assert_int_equal(total(refined, "main;a;c"), 40);
    calltree_free(refined);
    refined = refine_paths(tree, &c_and_b, &none);
    assert_int_equal(calltree_total(refined, 0, 0), 54);
    assert_false(fixture_has(refined, "main;a"));
    calltree_free(refined);
    refined = refine_paths(tree, &none, &c);
    assert_int_equal(calltree_total(refined, 0, 0), 6);
    assert_false(fixture_has(refined, "main;a;c"));
    assert_int_equal(self(refined, "main;b"), 3);
    calltree_free(refined);
    calltree_free(tree);
    fixture_end();
}

static void test_focus_begins_at_the_outermost_match(void **state)
{
    (void)state;
    fixture_start();
    fixture_figure1();
    struct calltree *tree = build(&(struct build_options){.lines = true});
    struct calltree *refined = refine_focus(tree, fixture_pattern("^(c|a)$"));
    assert_int_equal(total(refined, "a"), 42);
    assert_int_equal(total(refined, "a;c"), 40); // the outermost match is the top
    assert_int_equal(total(refined, "c"), 54);
    assert_int_equal(calltree_total(refined, 0, 0), 96);
    assert_int_equal(refined->line_count, 4);
    calltree_free(refined);
    refined = refine_focus(tree, fixture_pattern("^c$"));
    assert_int_equal(total(refined, "c"), 94);
    assert_int_equal(calltree_returns(refined, fixture_find(refined, "c")), 77);
    calltree_free(refined);
    calltree_free(tree);
    fixture_end();
}

// main 1 ── sort 2 ── less 3, sort 4 ── less 5, walk 6 ── sort 7 ── main 8
static void test_folded_recursion_keeps_all_costs(void **state)
{
    (void)state;
    fixture_start();
    place_t program = fixture_function(PROGRAM, 0x100, "main", 10);
    place_t sort = fixture_function(PROGRAM, 0x200, "sort", 20);
    place_t less = fixture_function(PROGRAM, 0x300, "less", 30);
    place_t walk = fixture_function(PROGRAM, 0x400, "walk", 40);
    fixture_process(1, "./prog");
    uint32_t at = fixture_frame(fixture_tree(0, 1), 0, program, 0);
    fixture_statement(at, program + 16, 1);
    at = fixture_frame(at, program + 32, sort, 1);
    fixture_statement(at, sort + 16, 2);
    fixture_statement(fixture_frame(at, sort + 32, less, 0), less + 16, 3);
    at = fixture_frame(at, sort + 48, sort, 10);
    fixture_statement(at, sort + 16, 4);
    fixture_statement(fixture_frame(at, sort + 32, less, 0), less + 16, 5);
    at = fixture_frame(at, sort + 64, walk, 0);
    fixture_statement(at, walk + 16, 6);
    at = fixture_frame(at, walk + 32, sort, 100);
    fixture_statement(at, sort + 16, 7);
    fixture_statement(fixture_frame(at, sort + 80, program, 0), program + 16, 8);
    for (int sites = 0; sites < 2; sites++) {
        struct calltree *tree = build(&(struct build_options){.lines = true, .sites = sites == 1});
        struct calltree *folded = refine_recursion(tree);
        assert_int_equal(folded->count, 5); // with the root
        assert_int_equal(calltree_total(folded, 0, 0), 36);
        assert_int_equal(self(folded, "main"), 1 + 8);
        assert_int_equal(self(folded, "main;sort"), 2 + 4 + 7);
        assert_int_equal(total(folded, "main;sort"), 27);
        assert_int_equal(self(folded, "main;sort;less"), 3 + 5);
        assert_int_equal(self(folded, "main;sort;walk"), 6);
        const uint32_t sort = fixture_find(folded, "main;sort");
        assert_int_equal(calltree_returns(folded, sort), 111);
        assert_int_equal(folded->nodes[sort].call_line, 11); // outside of the recursion
        assert_int_equal(folded->line_count, 4);
        calltree_free(folded);
        calltree_free(tree);
    }
    fixture_end();
}

static void test_callers_add_up_to_the_function(void **state)
{
    (void)state;
    fixture_start();
    fixture_figure1();
    struct calltree *tree = build(&(struct build_options){0});
    struct callers_options options = {.order = ORDER_SELF, .depth = 10, .least = 45};
    struct calltree *callers = callers_tree(tree, &options);
    assert_int_equal(self(callers, "c"), 94);
    assert_int_equal(self(callers, "c;b"), 54);
    assert_int_equal(self(callers, "c;b;main"), 54);
    assert_int_equal(self(callers, "c;a"), 40);
    assert_false(fixture_has(callers, "c;a;main")); // not worth following
    calltree_free(callers);
    options = (struct callers_options){
        .order = ORDER_TOTAL, .depth = 1, .focus = fixture_pattern("^[ab]$")};
    uint64_t cut = 0;
    options.cut = &cut;
    callers = callers_tree(tree, &options);
    assert_int_equal(cut, 0); // main is the end of both
    assert_int_equal(total(callers, "a;main"), 42);
    assert_int_equal(total(callers, "b"), 57);
    assert_false(fixture_has(callers, "c"));
    calltree_free(callers);
    options.focus = NULL;
    calltree_free(callers_tree(tree, &options));
    assert_int_equal(cut, 2); // c from a, c from b
    calltree_free(tree);
    fixture_end();
}

static void test_modules_have_the_costs_of_their_functions(void **state)
{
    (void)state;
    fixture_start();
    place_t main_ = fixture_function(PROGRAM, 0x1000, "main", 10);
    place_t sort = fixture_function(LIBRARY, 0x1000, "qsort", 10);
    place_t compare = fixture_function(PROGRAM, 0x1100, "compare", 20);
    uint32_t frame = fixture_frame(fixture_tree(0, 100), 0, main_, 0);
    fixture_statement(frame, main_ + 4, 1);
    frame = fixture_frame(frame, main_ + 0x11, sort, 0);
    fixture_statement(frame, sort + 4, 2);
    fixture_statement(fixture_frame(frame, sort + 0x11, compare, 0), compare + 4, 4);
    struct calltree *tree = build(&(struct build_options){0});
    struct flat *flat = flat_new(tree, FLAT_MODULE);
    assert_int_equal(flat->count, 2);
    for (size_t i = 0; i < 2; i++) {
        bool program = flat->rows[i].module == PROGRAM;
        assert_int_equal(flat->self[i], program ? 5 : 2);
        assert_int_equal(flat->total[i], program ? 7 : 6);
    }
    flat_free(flat);
    calltree_free(tree);
    fixture_end();
}

// The reader refuses most of this; what it lets through must not hurt.
static void test_odd_shapes(void **state)
{
    (void)state;
    fixture_start();
    place_t main_ = fixture_function(PROGRAM, 0x1000, "main", 10);
    uint32_t root = fixture_tree(0, 100);
    fixture_statement(root, main_ + 4, 1);                                   // node 1
    fixture_statement(fixture_frame(1, main_ + 5, main_, 0), main_ + 8, 2);  // below a statement
    fixture_statement(fixture_frame(77, main_ + 5, main_, 0), main_ + 8, 4); // a root of its own
    fixture_statement(root, place_make(MODULE_LIMIT, 1), 8);                 // no such module
    fixture_frame(root, place_make(MODULE_LIMIT, 0), place_make(900, 5), 3); // only returns
    fixture_analysis()->profile->trees[0].process = 9;
    struct calltree *tree = build(&(struct build_options){.processes = PROCESSES_APART});
    assert_int_equal(calltree_total(tree, 0, 0), 15);
    calltree_free(tree);
    fixture_end();
}

// Trees of threads hang below the calls that created these: of two creators, of a thread of a
// thread, and without one that is known.
static void test_threads_below_their_creators(void **state)
{
    (void)state;
    struct analysis *analysis = fixture_start();
    struct profile *profile = analysis->profile;
    place_t main = fixture_function(PROGRAM, 0x1000, "main", 10),
            left = fixture_function(PROGRAM, 0x1100, "left", 30),
            right = fixture_function(PROGRAM, 0x1200, "right", 50),
            worker = fixture_function(PROGRAM, 0x1300, "worker", 70),
            clone = fixture_function(LIBRARY, 0x2000, "clone3", 1);
    fixture_inline(right + 0x40, right + 0x60, "spawn", 90);
    uint32_t root = fixture_tree(0, 100);
    uint32_t frame = fixture_frame(root, 0, main, 0);
    fixture_statement(frame, main + 8, 1);
    fixture_statement(fixture_frame(frame, main + 0x20, left, 0), left + 8, 2);

    // main › left › call;  main › right › spawn [inlined] › call;  ... › clone3 › worker › call
    struct {
        uint32_t left, right, worker;
    } call;
    uint32_t step = fixture_creation(PROFILE_NO_PARENT, 0, main), began = step;
    step = fixture_creation(step, main + 0x20, left);
    call.left = fixture_creation(step, left + 0x30, 0) + 1;
    step = fixture_creation(began, main + 0x40, right);
    call.right = fixture_creation(step, right + 0x50, 0) + 1;
    step = fixture_creation(call.left - 1, 0, clone);
    step = fixture_creation(step, clone + 0x10, worker);
    call.worker = fixture_creation(step, worker + 0x30, 0) + 1;
    const uint32_t creators[] = {call.left, call.right, call.worker, 0};
    for (unsigned i = 0; i < 4; i++) {
        root = fixture_tree(worker, 101 + i);
        profile->trees[profile->tree_count - 1].creator = creators[i];
        frame = fixture_frame(fixture_frame(root, 0, clone, 0), clone + 0x10, worker, 0);
        fixture_statement(frame, worker + 8, 10u << i);
        fixture_statement(root, 0, 1000u << i); // as it began
    }

    struct calltree *tree = build(&(struct build_options){0});
    assert_int_equal(total(tree, "clone3;worker"), 150);
    assert_int_equal(total(tree, "main"), 3);
    calltree_free(tree);

    tree = build(&(struct build_options){.across_threads = true, .sites = true});
    assert_int_equal(calltree_total(tree, 0, 0), 15153);
    assert_int_equal(self(tree, "main"), 1);
    assert_int_equal(total(tree, "main"), 73 + 7000);
    assert_int_equal(self(tree, "main;left"), 2);
    assert_int_equal(self(tree, "main;left;clone3;worker"), 10);
    assert_int_equal(self(tree, "main;left;<no call path>"), 1000);
    assert_int_equal(self(tree, "main;right"), 0);
    assert_int_equal(self(tree, "main;right;spawn;clone3;worker"), 20);
    assert_int_equal(self(tree, "main;left;clone3;worker;clone3;worker"), 40);
    assert_int_equal(total(tree, "main;left;clone3;worker"), 50 + 4000);
    assert_int_equal(total(tree, "clone3;worker"), 80);
    // Where a thread begins is told, and which line has created it.
    const struct call_node *begins = &tree->nodes[fixture_find(tree, "main;left;clone3")];
    assert_int_equal(begins->kind, CALL_STARTED);
    assert_int_equal(begins->call_line, 32);
    assert_int_equal(tree->nodes[fixture_find(tree, "clone3")].kind, CALL_FUNCTION);
    calltree_free(tree);

    // A thread of a thread stays below its creator where recursion is folded: clone3 does not call
    // itself, but the worker is there again.
    tree = build(&(struct build_options){.across_threads = true});
    struct calltree *folded = refine_recursion(tree);
    assert_int_equal(self(folded, "main;left;clone3;worker"), 10 + 40);
    assert_int_equal(self(folded, "main;left;clone3;worker;<no call path>"), 4000);
    assert_int_equal(folded->nodes[fixture_find(folded, "main;left;clone3;worker")].recursion, 2);
    assert_int_equal(folded->nodes[fixture_find(folded, "main;left;clone3")].recursion, 0);
    calltree_free(folded);
    calltree_free(tree);

    // A choice of threads has what is above them, without its cost.
    tree = build(&(struct build_options){.across_threads = true, .tid = 103});
    assert_int_equal(calltree_total(tree, 0, 0), 4040);
    assert_int_equal(self(tree, "main;left;clone3;worker"), 0);
    assert_int_equal(total(tree, "main;left;clone3;worker;clone3;worker"), 40);
    assert_false(fixture_has(tree, "main;right"));
    calltree_free(tree);

    // Where calls were followed, so were not all functions.
    profile->tracker = "calls";
    tree = build(&(struct build_options){.across_threads = true});
    assert_int_equal(total(tree, "main;clone3;worker"), 20);
    calltree_free(tree);
    fixture_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_papers_figure_1_has_its_costs),
        cmocka_unit_test(test_threads_and_processes_merge),
        cmocka_unit_test(test_threads_below_their_creators),
        cmocka_unit_test(test_recursion_counts_once),
        cmocka_unit_test(test_sites_and_lines),
        cmocka_unit_test(test_inlined_frames),
        cmocka_unit_test(test_agent_and_ignored_frames),
        cmocka_unit_test(test_names_of_odd_frames),
        cmocka_unit_test(test_through_keeps_what_passes_a_function),
        cmocka_unit_test(test_focus_begins_at_the_outermost_match),
        cmocka_unit_test(test_folded_recursion_keeps_all_costs),
        cmocka_unit_test(test_callers_add_up_to_the_function),
        cmocka_unit_test(test_wide_nodes),
        cmocka_unit_test(test_modules_have_the_costs_of_their_functions),
        cmocka_unit_test(test_odd_shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
