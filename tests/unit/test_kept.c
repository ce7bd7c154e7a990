// SPDX-License-Identifier: MIT

// Reports of trees that forget: what is hot, how far counts can be trusted, what is not there.

#include "analyze/summary/summary.h"
#include "analyze/views/hot.h"
#include "analyze_fixture.h"
#include "base/memory.h"
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static struct profile_metric metrics[] = {
    {.name = "cpu", .unit = "ns", .period = 1000, .rate_requested = 1000, .source = "test"},
    {.name = "cpu error", .unit = "error", .source = "tree"},
};

// The fixture's program, of which statement costs are main 1, a 2, b 3, c under a 40, c under b 54;
// c under b may have 4 of these by mistake.
static struct analysis *start(char *kind)
{
    struct analysis *analysis = fixture_start();
    fixture_figure1();
    struct profile *profile = analysis->profile;
    profile->metrics = metrics;
    profile->metric_count = 2;
    profile->tree_kind = kind;
    struct profile_tree *tree = &profile->trees[0];
    uint64_t *values = memory_array(tree->count * (size_t)2, sizeof *values);
    for (uint32_t i = 0; i < tree->count; i++) {
        values[i * 2] = tree->values[i];
        if (i == tree->count - 1) // a statement of c under b
            values[i * 2 + 1] = 4;
    }
    free(tree->values);
    tree->values = values;
    return analysis;
}

static void kinds_are_understood(void **state)
{
    (void)state;
    struct profile profile = {.tree_kind = "hot:0.001,0.0002,lossy"};
    struct profile_kind kind = profile_kind(&profile);
    assert_true(kind.hot && !kind.full && !kind.bounded && !kind.functions);
    assert_true(kind.phi == 0.001 && kind.epsilon == 0.0002);
    assert_int_equal(kind.miner, LIVE_MINER_LOSSY);
    profile.tree_kind = "full+bounded:16+hot:0.1,0.02+hot:0.2,0.01";
    kind = profile_kind(&profile);
    assert_true(kind.hot && kind.full && kind.bounded && !kind.functions);
    assert_int_equal(kind.depth, 16);
    assert_true(kind.phi == 0.2 && kind.epsilon == 0.02);
    assert_int_equal(kind.miner, LIVE_MINER_SPACE_SAVING);
    profile.tree_kind = "hot:nan,-7";
    kind = profile_kind(&profile);
    assert_true(kind.hot && kind.phi == 0 && kind.epsilon == 0);
}

static void what_is_cold_is_dropped(void **state)
{
    (void)state;
    struct analysis *analysis = start("full");
    struct profile *profile = analysis->profile;
    assert_int_equal(hot_whole(profile, 0), 100);
    struct hot_cut cut = hot_prune(profile, 0, &(struct hot_choice){.phi = 0.5});
    assert_int_equal(cut.contexts, 1);
    assert_int_equal(hot_whole(profile, 0), 58); // main and b are above a hot one
    struct build_options options = {0};
    build_resolve(analysis->functions, profile, &options);
    struct calltree *tree = build_calltree(analysis->functions, profile, &options);
    assert_true(fixture_has(tree, "main;b;c"));
    assert_false(fixture_has(tree, "main;a"));
    assert_int_equal(calltree_self(tree, fixture_find(tree, "main;b;c"), 0), 54);
    assert_int_equal(calltree_self(tree, fixture_find(tree, "main;b;c"), 1), 4);
    calltree_free(tree);
    fixture_end();
}

// The same context in two threads is one: hot in neither, hot in both together.
static void threads_are_added_up(void **state)
{
    (void)state;
    struct analysis *analysis = fixture_start();
    place_t main = fixture_function(PROGRAM, 0x1000, "main", 10);
    place_t work = fixture_function(PROGRAM, 0x2000, "work", 20);
    place_t rest = fixture_function(PROGRAM, 0x3000, "rest", 30);
    fixture_process(1, "prog");
    for (unsigned i = 0; i < 2; i++) {
        uint32_t root = fixture_tree(i ? main : 0, 100 + i);
        uint32_t frame = fixture_frame(root, 0, main, 0);
        fixture_statement(fixture_frame(frame, main + 8, work, 0), work + 16, 30);
        fixture_statement(fixture_frame(frame, main + 24 + 8 * i, rest, 0), rest + 16, 20);
    }
    struct hot_cut cut = hot_prune(analysis->profile, 0, &(struct hot_choice){.phi = 0.5});
    assert_int_equal(cut.contexts, 1);
    assert_int_equal(hot_whole_tree(analysis->profile, &analysis->profile->trees[0], 0), 30);
    assert_int_equal(hot_whole_tree(analysis->profile, &analysis->profile->trees[1], 0), 30);
    fixture_end();
}

static void bounds_are_shown(void **state)
{
    (void)state;
    start("hot:0.1,0.02");
    struct report_options options = fixture_options();
    options.least = 0;
    char *text = fixture_report(options);
    assert_non_null(text);
    assert_non_null(strstr(text, "54.0 % +-4.0"));
    assert_null(strstr(text, "40.0 % +-"));
    assert_non_null(strstr(text, "Hot: 2 contexts with at least 10 % of the total"));
    assert_non_null(strstr(text, "; 0.0 % lies outside"));
    assert_non_null(strstr(text, "It is never too small"));
    free(text);
    fixture_end();
    // More may be left out than was recorded.
    start("hot:0.1,0.02");
    options.phi = 0.5;
    text = fixture_report(options);
    assert_non_null(strstr(text, "Hot: 1 context with at least 50 %"));
    assert_non_null(strstr(text, "; 42.0 % lies outside"));
    assert_non_null(strstr(text, "58.0 %")); // of all there was, not of what is left
    free(text);
    fixture_end();
    // Of counts that may be too small, those that may be hot are shown: 40 % is within 11 % of it.
    start("hot:0.5,0.11,sticky");
    options.phi = 0;
    text = fixture_report(options);
    assert_non_null(strstr(text, "Hot: 2 contexts with at least 50 %"));
    assert_non_null(strstr(text, "may be too small by 11 %"));
    free(text);
    fixture_end();
    // But not less.
    start("hot:0.1,0.02");
    options.phi = 0.01;
    assert_null(fixture_report(options));
    assert_non_null(strstr(fixture_error, "--phi takes 0.1 and more"));
    fixture_end();
    // Nothing is that hot.
    start("full");
    options.phi = 0.9;
    text = fixture_report(options);
    assert_non_null(strstr(text, "Hot: no context has 90 % of the total, the hottest has 54 %: a"));
    free(text);
    fixture_end();
}

static void json_tells_errors_apart(void **state)
{
    (void)state;
    start("hot:0.1,0.02");
    struct report_options options = fixture_options();
    options.json = true;
    char *text = fixture_report(options);
    assert_non_null(strstr(text, "\"metrics\": [{\"name\": \"cpu\", \"unit\": \"ns\"}]"));
    assert_non_null(strstr(text, "\"self\": [54], \"total\": [54]"));
    assert_non_null(strstr(text, "\"error\": [4]"));
    assert_non_null(strstr(text, "\"error\": [0]"));
    assert_non_null(strstr(text, "\"phi\": 0.1"));
    assert_non_null(strstr(text, "\"outside\": 0"));
    free(text);
    fixture_end();
    fixture_start();
    fixture_figure1();
    text = fixture_report(options);
    assert_non_null(strstr(text, "\"error\": null"));
    assert_non_null(strstr(text, "\"phi\": null"));
    free(text);
    fixture_end();
}

static void what_was_purged_counts(void **state)
{
    (void)state;
    struct analysis *analysis = start("hot:0.1,0.02,lossy");
    analysis->profile->trees[0].stats.purged = 90;
    analysis->profile->trees[0].hot.made_up = -10;
    struct report_options options = fixture_options();
    options.least = 0;
    char *text = fixture_report(options);
    assert_non_null(strstr(text, "50.0 % of the total was purged"));
    assert_non_null(strstr(text, "27.0 % +-2.0"));
    free(text);
    fixture_end();
    // Counts that are too large in all: shares are of what there was.
    analysis = start("hot:0.1,0.02");
    analysis->profile->trees[0].hot.made_up = 20;
    text = fixture_report(options);
    assert_null(strstr(text, "purged"));
    assert_non_null(strstr(text, "67.5 % +-5.0")); // 54 of 80
    free(text);
    fixture_end();
}

// Of a full tree that ran out of memory, counts that are mostly errors are left out.
static void what_is_unsure_is_left_out(void **state)
{
    (void)state;
    struct analysis *analysis = start("full");
    struct profile_tree *tree = &analysis->profile->trees[0];
    tree->values[(tree->count - 1) * (size_t)2 + 1] = 40; // of 54
    tree->hot = (struct profile_hot){UINT32_MAX, 40, 30};
    struct report_options options = fixture_options();
    options.least = 0;
    char *text = fixture_report(options);
    assert_non_null(strstr(text, "Not shown: 1 context met after the memory was used up"));
    assert_null(strstr(text, "54 ns"));
    assert_non_null(strstr(text, "70 ns of cpu")); // 100 less what is made up
    assert_non_null(strstr(text, "57.1 %"));       // 40 of 70
    free(text);
    fixture_end();
}

// A frame below the root is cut off if who called it is not known. What nobody called is not,
// whatever its name: a thread may begin in the loader, and programs may have no symbols.
static void detached_roots(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 2; round++) {
        struct analysis *analysis = fixture_start();
        place_t begin = fixture_function(PROGRAM, 0x1000, "prog+0x1000", 10);
        place_t work = fixture_function(PROGRAM, 0x2000, "work", 20);
        place_t leaf = fixture_function(PROGRAM, 0x3000, "leaf", 30);
        place_t loader = fixture_function(LIBRARY, 0x1000, "_dl_start_user", 40);
        fixture_process(1, "prog");
        uint32_t root = fixture_tree(0, 1);
        uint32_t top = fixture_frame(root, 0, begin, 0);
        fixture_statement(fixture_frame(top, begin + 8, work, 0), work + 16, 30);
        uint32_t cut = fixture_frame(root, PLACE_UNKNOWN, work, 0);
        fixture_statement(fixture_frame(cut, work + 8, leaf, 0), leaf + 16, 70);
        fixture_statement(fixture_frame(root, PLACE_UNKNOWN, begin, 0), begin + 16, 20);
        fixture_statement(fixture_frame(root, 0, loader, 0), loader + 16, 5);
        analysis->profile->tree_kind = round ? "bounded:16" : "full";
        struct report_options options = fixture_options();
        options.least = 0;
        options.fold = false;
        char *text = fixture_report(options);
        assert_int_equal(strstr(text, "(detached)") != NULL, round);
        assert_int_equal(strstr(text, "walked 16 frames") != NULL, round);
        free(text);
        struct build_options build = {0};
        struct calltree *tree = build_calltree(analysis->functions, analysis->profile, &build);
        assert_true(fixture_has(tree, "prog+0x1000;work"));
        assert_true(fixture_has(tree, round ? "(detached);work;leaf" : "work;leaf"));
        assert_int_equal(fixture_has(tree, "(detached);prog+0x1000"), round);
        assert_true(fixture_has(tree, "_dl_start_user"));
        calltree_free(tree);
        fixture_end();
    }
}

// As text, and as JSON; to be freed.
static char *summary_of(const struct analysis *analysis)
{
    struct profile_totals totals;
    profile_sum(analysis->profile, &totals);
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    struct text_style style = {0};
    summary_print(out, &style, analysis, &totals);
    summary_print_json(out, analysis, &totals);
    fclose(out);
    return text;
}

static void info_tells_what_was_kept(void **state)
{
    (void)state;
    struct analysis *analysis = start("hot:0.1,0.02");
    analysis->profile->trees[0].hot = (struct profile_hot){50, 3, 20};
    struct hot_use use = hot_use(analysis->profile);
    assert_int_equal(use.contexts, 5);
    assert_int_equal(use.whole, 80);
    assert_int_equal(use.counters, 50);
    assert_int_equal(use.floor, 3);
    assert_int_equal(use.largest_error, 4);
    char *text = summary_of(analysis);
    assert_non_null(strstr(text, "at least 10 % of the total, to an error of 2 % at most"));
    assert_non_null(
        strstr(text, "5 of 50 counters in use; a context that has none had at most 3 ns, 3.8 %"));
    assert_non_null(strstr(text, "largest error of a count is 4 ns, 5.0 %"));
    assert_non_null(strstr(text, "nodes of 32 bytes"));
    assert_non_null(strstr(text, "\"counters\": 50"));
    assert_non_null(strstr(text, "\"error_bound\": 1"));
    assert_non_null(strstr(text, "\"largest_error\": 4"));
    assert_null(strstr(text, "cpu error"));
    free(text);
    fixture_end();
}

// Lossy Counting may have more contexts than 1/epsilon: no number of counters is its limit.
static void lossy_counting_has_no_limit(void **state)
{
    (void)state;
    struct analysis *analysis = start("hot:0.1,0.02,lossy");
    analysis->profile->trees[0].hot = (struct profile_hot){3, 3, 20};
    char *text = summary_of(analysis);
    assert_non_null(strstr(text, " 5 counters in use; a context that has none had at most 3 ns"));
    free(text);
    fixture_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds_are_understood),       cmocka_unit_test(what_is_cold_is_dropped),
        cmocka_unit_test(threads_are_added_up),       cmocka_unit_test(bounds_are_shown),
        cmocka_unit_test(json_tells_errors_apart),    cmocka_unit_test(what_was_purged_counts),
        cmocka_unit_test(what_is_unsure_is_left_out), cmocka_unit_test(detached_roots),
        cmocka_unit_test(info_tells_what_was_kept),   cmocka_unit_test(lossy_counting_has_no_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
