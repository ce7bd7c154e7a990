// SPDX-License-Identifier: MIT

// Two versions of a program: lined up, named, split and told from noise.

#include "analyze/diff/diff_show.h"
#include "analyze/diff/gate.h"
#include "analyze/diff/noise.h"
#include "base/memory.h"
#include "compare_fixture.h"
#include "make_profile.h"
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { MAIN = 0x100, PERIOD = 1000, MOST_RUNS = 8 };

static const struct diff_judgement usual = {.confidence = 99, .spread = 0.03};

// A context: the function `name` (its number) below another one of the table, with what it cost by
// itself, in samples, and its calls. Ends with the name 0.
struct made {
    unsigned below, name;
    double samples;
    uint64_t calls;
};

static struct profile *profile_of(const struct made *contexts, const char *path)
{
    struct profile *profile = make_profile("cpu", "ns", PERIOD);
    make_text(&profile->tracker, "walk+calls");
    profile->metrics = memory_checked(realloc(profile->metrics, 2 * sizeof *profile->metrics));
    profile->metrics[profile->metric_count++] =
        (struct profile_metric){.name = memory_text("calls"),
                                .unit = memory_text(PROFILE_CALLS),
                                .source = memory_text("calls"),
                                .period = 1};
    const unsigned exe = make_module(profile, path);
    const unsigned tree = make_tree(profile, make_process(profile, 1, 0, "app"), 0);
    uint32_t nodes[64] = {0};
    for (unsigned i = 0; contexts[i].name; i++) {
        const struct made *made = &contexts[i];
        const uint32_t parent = i == 0 ? 0 : nodes[made->below];
        const place_t function = place_make(exe, made->name * 256u);
        const place_t site =
            i == 0 ? 0 : place_make(exe, contexts[made->below].name * 256u + made->name + 1);
        nodes[i] = make_frame(profile, tree, parent, site, function);
        profile->trees[tree].values[(size_t)nodes[i] * 2 + 1] = made->calls;
        profile->trees[tree].values[(size_t)nodes[i] * 2] = 0;
        if (made->samples > 0) {
            const uint32_t statement = make_statement(profile, tree, nodes[i], function + 1,
                                                      (uint64_t)(made->samples * PERIOD));
            profile->trees[tree].values[(size_t)statement * 2] = (uint64_t)(made->samples * PERIOD);
        }
    }
    profile->trees[tree].stats.samples = 0; // the period says what a sample is
    return profile;
}

// Opened profiles; the old ones first.
struct opened {
    struct analysis *analyses[MOST_RUNS];
    struct diff_input inputs[MOST_RUNS];
    unsigned count;
    struct diff diff;
    struct diff_rows rows;
};

static void add(struct opened *opened, struct profile *profile, enum diff_side side)
{
    struct analysis *analysis = memory_array(1, sizeof *analysis);
    opened->analyses[opened->count] = analysis;
    *analysis = (struct analysis){.profile = profile, .symbols = symbols_new(profile, NULL)};
    analysis->functions = functions_new(profile, analysis->symbols);
    opened->inputs[opened->count++] = (struct diff_input){
        .analysis = analysis, .path = side == DIFF_OLD ? "old.out" : "new.out", .side = side};
}

static void judge(struct opened *opened, const struct diff_options *options,
                  const struct diff_judgement *judgement)
{
    char *error = NULL;
    if (diff_open(&opened->diff, opened->inputs, opened->count, options, &error) < 0)
        fail_msg("%s", error);
    opened->rows = diff_rows(&opened->diff, judgement);
}

static void close_opened(struct opened *opened)
{
    diff_rows_free(&opened->rows);
    if (opened->diff.runs)
        diff_close(&opened->diff);
    for (unsigned i = 0; i < opened->count; i++) {
        analysis_close(opened->analyses[i]);
        free(opened->analyses[i]);
    }
}

static struct opened compared(const struct made *old, const struct made *new,
                              struct diff_options options)
{
    struct opened opened = {0};
    add(&opened, profile_of(old, "/bin/app"), DIFF_OLD);
    add(&opened, profile_of(new, "/bin/app"), DIFF_NEW);
    judge(&opened, &options, &usual);
    return opened;
}

// Changes of rows add up to that of the whole, and the parts of each to its own.
static void assert_adds_up(const struct opened *opened)
{
    double sum = 0;
    for (size_t i = 0; i < opened->rows.count; i++) {
        const struct diff_row *row = &opened->rows.rows[i];
        sum += diff_row_change(row);
        if (opened->rows.has_calls)
            assert_near(row->by_calls + row->by_price, diff_row_change(row));
    }
    assert_near(sum, opened->rows.total[DIFF_NEW] - opened->rows.total[DIFF_OLD]);
}

static const struct diff_row *named(const struct opened *opened, unsigned function)
{
    char name[16];
    snprintf(name, sizeof name, "f%x", function);
    for (size_t i = 0; i < opened->rows.count; i++)
        if (opened->rows.rows[i].significant &&
            strcmp(calltree_function(opened->diff.tree, opened->rows.rows[i].node)->name, name) ==
                0)
            return &opened->rows.rows[i];
    return NULL;
}

static const struct made before[] = {
    {0, 1, 20, 1}, {0, 2, 1000, 10}, {1, 3, 500, 100}, {0, 4, 800, 5}, {3, 3, 400, 50}, {0},
};

static void a_change_is_split_and_named_where_it_begins(void **state)
{
    (void)state;
    // f2 takes half as long again; f4 is called twice as often, and calls f3 as often as before.
    static const struct made after[] = {
        {0, 1, 20, 1}, {0, 2, 1500, 10}, {1, 3, 500, 100}, {0, 4, 1600, 10}, {3, 3, 800, 100}, {0},
    };
    struct opened opened = compared(before, after, (struct diff_options){0});
    assert_adds_up(&opened);
    assert_int_equal(opened.rows.significant, 2);
    const struct diff_row *often = named(&opened, 4), *slow = named(&opened, 2);
    assert_non_null(often);
    assert_ptr_equal(often, &opened.rows.rows[0]);
    assert_int_equal(often->contexts, 2);
    assert_near(often->by_calls, 1200 * PERIOD);
    assert_near(often->by_price, 0);
    assert_near(often->calls[DIFF_NEW], 10);
    assert_non_null(slow);
    assert_near(slow->by_calls, 0);
    assert_near(slow->by_price, 500 * PERIOD);
    close_opened(&opened);
}

static void a_callee_that_became_costlier_too_has_its_own_row(void **state)
{
    (void)state;
    static const struct made after[] = {
        {0, 1, 20, 1}, {0, 2, 1000, 10}, {1, 3, 500, 100}, {0, 4, 1600, 10}, {3, 3, 1600, 100}, {0},
    };
    struct opened opened = compared(before, after, (struct diff_options){0});
    assert_adds_up(&opened);
    assert_int_equal(opened.rows.significant, 2);
    const struct diff_row *callee = named(&opened, 3);
    assert_non_null(callee);
    assert_near(callee->by_calls, 400 * PERIOD);
    assert_near(callee->by_price, 800 * PERIOD);
    assert_near(named(&opened, 4)->by_calls, 800 * PERIOD);
    close_opened(&opened);
}

static void calls_name_what_few_samples_do_not(void **state)
{
    (void)state;
    static const struct made old[] = {{0, 1, 900, 1}, {0, 2, 30, 10}, {0}};
    struct made new[] = {{0, 1, 900, 1}, {0, 2, 55, 10}, {0}};
    struct opened opened = compared(old, new, (struct diff_options){0});
    assert_int_equal(opened.rows.significant, 0); // each call may be costlier, or chance
    close_opened(&opened);
    new[1].calls = 20;
    opened = compared(old, new, (struct diff_options){0});
    assert_int_equal(opened.rows.significant, 1);
    assert_near(named(&opened, 2)->by_calls, 30 * PERIOD);
    assert_near(named(&opened, 2)->by_price, -5 * PERIOD);
    assert_adds_up(&opened);
    close_opened(&opened);
    new[1].samples = 31; // twice the calls, and no more cost
    opened = compared(old, new, (struct diff_options){0});
    assert_int_equal(opened.rows.significant, 0);
    close_opened(&opened);
    new[1] = (struct made){0, 2, 33, 11}; // little more than runs differ anyway
    opened = compared(old, new, (struct diff_options){0});
    assert_int_equal(opened.rows.significant, 0);
    close_opened(&opened);
}

static void only_one_side_has_it(void **state)
{
    (void)state;
    static const struct made after[] = {
        {0, 1, 20, 1}, {0, 2, 1000, 10}, {1, 3, 500, 100}, {0, 5, 700, 3}, {3, 6, 300, 9}, {0},
    };
    struct opened opened = compared(before, after, (struct diff_options){0});
    assert_adds_up(&opened);
    assert_int_equal(opened.rows.significant, 2);
    const struct diff_row *gone = named(&opened, 4), *new = named(&opened, 5);
    assert_int_equal(gone->presence, DIFF_IS_GONE);
    assert_int_equal(new->presence, DIFF_IS_NEW);
    assert_int_equal(new->contexts, 2);
    assert_near(diff_row_change(gone), -1200 * PERIOD);
    assert_near(diff_row_change(new), 1000 * PERIOD);
    assert_near(new->by_price, 0);
    close_opened(&opened);
}

static void small_changes_go_up_to_where_their_sum_is_large(void **state)
{
    (void)state;
    struct made old[40] = {{0, 1, 1000, 0}, {0, 2, 0, 0}}, new[40];
    for (unsigned i = 2; i < 32; i++)
        old[i] = (struct made){1, 0x10 + i, 8, 0};
    memcpy(new, old, sizeof new);
    for (unsigned i = 2; i < 32; i++)
        new[i].samples = 14;
    struct opened opened = compared(old, new, (struct diff_options){.metric = "cpu"});
    assert_adds_up(&opened);
    assert_int_equal(opened.rows.significant, 1);
    assert_non_null(named(&opened, 2));
    assert_int_equal(named(&opened, 2)->contexts, 31);
    close_opened(&opened);
}

static void builds_are_lined_up_by_names(void **state)
{
    (void)state;
    moved_code[1] = 0x7000;
    struct profile *rebuilt = profile_of(before, "/opt/app-2.1");
    rebuilt->duration_ns = 1;
    for (uint32_t i = 0; i < rebuilt->trees[0].count; i++) {
        struct profile_node *node = &rebuilt->trees[0].nodes[i];
        node->site += node->site ? moved_code[1] : 0;
        node->function += node->function ? moved_code[1] : 0;
    }
    struct opened opened = {0};
    add(&opened, profile_of(before, "/usr/bin/app-2.0"), DIFF_OLD);
    add(&opened, rebuilt, DIFF_NEW);
    judge(&opened, &(struct diff_options){0}, &usual);
    assert_int_equal(opened.diff.rebuilt, 1);
    assert_int_equal(opened.rows.count, 0);
    assert_int_equal(opened.diff.tree->count, 1 + 1 + 5); // the root, interrupts, contexts
    close_opened(&opened);
    moved_code[1] = 0;
}

static void shares_are_compared(void **state)
{
    (void)state;
    struct made twice[6];
    memcpy(twice, before, sizeof twice);
    for (unsigned i = 0; i < 5; i++)
        twice[i].samples *= 2;
    struct opened opened = compared(before, twice, (struct diff_options){0});
    assert_int_equal(opened.rows.significant, 4);
    assert_true(opened.rows.total_significant);
    close_opened(&opened);
    opened = compared(before, twice, (struct diff_options){.normalize = true});
    assert_int_equal(opened.rows.significant, 0);
    assert_near(opened.rows.total[DIFF_OLD], opened.rows.total[DIFF_NEW]);
    close_opened(&opened);
}

static void counts_are_exact(void **state)
{
    (void)state;
    struct made after[6];
    memcpy(after, before, sizeof after);
    after[2].calls++;
    struct opened opened = compared(before, after, (struct diff_options){.metric = "calls"});
    assert_int_equal(opened.rows.significant, 1);
    assert_int_equal(opened.rows.count, 1);
    assert_near(diff_row_change(named(&opened, 3)), 1);
    assert_false(opened.rows.has_calls);
    close_opened(&opened);
}

static void by_function(void **state)
{
    (void)state;
    struct made after[6];
    memcpy(after, before, sizeof after);
    after[2].samples += 150;
    after[4].samples += 150;
    struct opened opened = {0};
    add(&opened, profile_of(before, "/bin/app"), DIFF_OLD);
    add(&opened, profile_of(after, "/bin/app"), DIFF_NEW);
    judge(&opened, &(struct diff_options){0},
          &(struct diff_judgement){.by = DIFF_BY_FUNCTION, .confidence = 99, .spread = 0.03});
    assert_adds_up(&opened);
    assert_int_equal(opened.rows.significant, 1);
    assert_near(diff_row_change(named(&opened, 3)), 300 * PERIOD);
    assert_near(named(&opened, 3)->calls[DIFF_OLD], 150);
    close_opened(&opened);
}

static char *refusal(struct profile *old, struct profile *new, const char *metric)
{
    struct opened opened = {0};
    add(&opened, old, DIFF_OLD);
    add(&opened, new, DIFF_NEW);
    char *error = NULL;
    assert_int_equal(diff_open(&opened.diff, opened.inputs, opened.count,
                               &(struct diff_options){.metric = metric}, &error),
                     -1);
    close_opened(&opened);
    return error;
}

static void what_cannot_be_compared_is_refused(void **state)
{
    (void)state;
    char *error = refusal(profile_of(before, "/bin/app"), profile_of(before, "/bin/other"), NULL);
    assert_string_equal(error, "these are profiles of different programs: the first ran app, the "
                               "second other");
    free(error);
    struct profile *bytes = profile_of(before, "/bin/app");
    make_text(&bytes->metrics[0].name, "alloc");
    make_text(&bytes->metrics[0].unit, "bytes");
    make_text(&bytes->metrics[1].name, "alloc count");
    error = refusal(profile_of(before, "/bin/app"), bytes, NULL);
    assert_string_equal(error, "these profiles have no metric in common: old.out has cpu (ns), "
                               "calls (calls), and new.out has alloc (bytes), alloc count (calls)");
    free(error);
    error = refusal(profile_of(before, "/bin/app"), profile_of(before, "/bin/app"), "cpus");
    assert_non_null(strstr(error, "did you mean 'cpu'?"));
    free(error);
}

// Folded stacks and the like say neither how they were sampled nor where functions are.
static void profiles_of_other_tools_are_sampled(void **state)
{
    (void)state;
    struct made after[6];
    memcpy(after, before, sizeof after);
    after[1].samples += 30;
    after[3].samples *= 2;
    after[3].calls *= 2;
    struct profile *profiles[] = {profile_of(before, ""), profile_of(after, "")};
    struct opened opened = {0};
    for (enum diff_side side = DIFF_OLD; side < DIFF_SIDES; side++) {
        struct profile_metric *metric = &profiles[side]->metrics[0];
        make_text(&metric->source, "folded");
        metric->period = 0;
        metric->rate_requested = 0;
        add(&opened, profiles[side], side);
    }
    judge(&opened, &(struct diff_options){0}, &usual);
    assert_false(opened.diff.metrics[0].exact);
    assert_near(opened.diff.runs[0].sample[0], 20 * PERIOD);
    assert_int_equal(opened.rows.significant, 1);
    assert_non_null(named(&opened, 4));
    close_opened(&opened);
}

// Limits

static double limited(const char *text, const char *metric)
{
    struct opened opened = compared(before, before, (struct diff_options){0});
    struct gate_limit limit;
    char *error = NULL;
    if (gate_limit_parse(&limit, text, &error) < 0)
        fail_msg("%s", error);
    assert_string_equal(limit.metric, metric);
    const double value =
        gate_limit_value(&opened.diff, &limit, gate_limit_metric(&opened.diff, &limit));
    gate_limit_free(&limit);
    close_opened(&opened);
    return value;
}

static void a_limit_holds_for_a_path(void **state)
{
    (void)state;
    assert_near(limited("f3: 0 calls", "calls"), 150); // in all contexts
    assert_near(limited("f1; f4 ; f3:0 calls", "calls"), 50);
    assert_near(limited("f4;*: 1 calls", "calls"), 50);
    assert_near(limited("f1;f?: 1 calls", "calls"), 10 + 100 + 5 + 50);
    assert_near(limited("f4;f2: 0 calls", "calls"), 0);      // in this order
    assert_near(limited("f4: 0 cpu", "cpu"), 1200 * PERIOD); // with all that it calls
    assert_near(limited("f4;f3: 0 cpu", "cpu"), 400 * PERIOD);
    struct opened opened = compared(before, before, (struct diff_options){0});
    struct gate_limit limit;
    char *error = NULL;
    assert_int_equal(gate_limit_parse(&limit, "f4: 4096 bytes", &error), 0);
    assert_string_equal(limit.metric, "alloc");
    assert_int_equal(gate_limit_metric(&opened.diff, &limit), DIFF_NONE);
    gate_limit_free(&limit);
    close_opened(&opened);
    static const char *const wrong[] = {
        "f4",           "f4: calls",    "f4: 3",         ": 3 calls",
        "f4;: 3 calls", "f4: -1 calls", "f4: nan calls", ""};
    for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(gate_limit_parse(&limit, wrong[i], &error), -1);
        assert_non_null(strstr(error, "is not a limit"));
        free(error);
    }
}

// Chance

static double uniform(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return ((double)(*seed >> 11) + 0.5) * 0x1p-53;
}

static double normal(uint64_t *seed)
{
    return sqrt(-2 * log(uniform(seed))) * cos(6.283185307179586 * uniform(seed));
}

static double poisson(uint64_t *seed, double mean)
{
    if (mean > 200)
        return fmax(0, rint(mean + sqrt(mean) * normal(seed)));
    double count = -1, left = mean;
    for (; left >= 0; count++)
        left += log(uniform(seed));
    return count;
}

// A run of the same program: all that it does costs as much more or less, each context does, and
// samples hit by chance.
static struct profile *chance_run(uint64_t *seed, double spread, const double *factors)
{
    struct made contexts[40] = {{0, 1, 0, 0}};
    const double all = exp(spread * normal(seed) / sqrt(2));
    for (unsigned i = 1; i < 32; i++) {
        const double mean = 2000.0 / (i * i) * (factors ? factors[i] : 1);
        const double cost = mean * all * exp(spread * normal(seed) / sqrt(2));
        contexts[i] = (struct made){i > 8 ? i % 8 : 0, 0x10 + i, poisson(seed, cost), 0};
    }
    return profile_of(contexts, "/bin/app");
}

struct chance {
    double spread;  // of the runs
    double assumed; // by the judgement
    unsigned runs;  // a side
    const double *factors;
};

// In how many of so many comparisons a row is named, and context 1 is.
static void name_by_chance(const struct chance *chance, unsigned comparisons, unsigned *any,
                           unsigned *first)
{
    uint64_t seed = 42;
    *any = *first = 0;
    for (unsigned n = 0; n < comparisons; n++) {
        struct opened opened = {0};
        for (enum diff_side side = DIFF_OLD; side < DIFF_SIDES; side++)
            for (unsigned i = 0; i < chance->runs; i++)
                add(&opened,
                    chance_run(&seed, chance->spread, side == DIFF_NEW ? chance->factors : NULL),
                    side);
        judge(&opened, &(struct diff_options){.metric = "cpu"},
              &(struct diff_judgement){.confidence = 99, .spread = chance->assumed});
        *any += opened.rows.significant > 0;
        *first += named(&opened, 0x11) != NULL;
        close_opened(&opened);
    }
}

static void chance_alone_is_not_named(void **state)
{
    (void)state;
    // One comparison in a hundred may be wrong: of 300, more than seven have a chance of 1.2 %.
    static const struct chance chances[] = {
        {.spread = 0, .assumed = 0, .runs = 1},
        {.spread = 0.03, .assumed = 0.03, .runs = 1},
        {.spread = 0.03, .assumed = 0.03, .runs = 3},
        {.spread = 0.1, .assumed = 0.03, .runs = 4}, // the runs themselves say so
    };
    for (unsigned i = 0; i < sizeof chances / sizeof *chances; i++) {
        unsigned any, first;
        name_by_chance(&chances[i], 300, &any, &first);
        if (any > 7)
            fail_msg("case %u: a row was named in %u of 300 comparisons", i, any);
    }
}

// The processor was away for 400 periods, and one sample stands for all of them.
static void late_samples_are_not_named(void **state)
{
    (void)state;
    struct made late[6];
    memcpy(late, before, sizeof late);
    late[1].samples += 400;
    struct profile *profiles[] = {profile_of(before, "/bin/app"), profile_of(late, "/bin/app")};
    struct opened opened = {0};
    for (enum diff_side side = DIFF_OLD; side < DIFF_SIDES; side++) {
        profiles[side]->trees[0].stats.samples = 20 + 1000 + 500 + 800 + 400;
        add(&opened, profiles[side], side);
    }
    judge(&opened, &(struct diff_options){0}, &usual);
    assert_int_equal(opened.rows.significant, 0);
    close_opened(&opened);
}

static void a_change_is_found(void **state)
{
    (void)state;
    double factors[40];
    for (unsigned i = 0; i < 40; i++)
        factors[i] = i == 1 ? 1.3 : 1;
    unsigned any, first;
    name_by_chance(&(struct chance){0.02, 0.03, 1, factors}, 100, &any, &first);
    assert_true(first >= 95);
    factors[1] = 1.15;
    name_by_chance(&(struct chance){0.01, 0.03, 4, factors}, 100, &any, &first);
    assert_true(first >= 90);
}

static void tests_are_those_of_the_books(void **state)
{
    (void)state;
    const double old[] = {10, 12}, new[] = {20, 22};
    // Welch: t = 10 / sqrt(2), with two degrees of freedom.
    struct noise_side counts[2] = {{old, 2, 0, 0, 0}, {new, 2, 0, 0, 0}};
    const struct noise_model none = {0};
    assert_near(noise_probability(&none, counts), 0.0194193243);
    counts[1].error = 11; // a bound of errors is taken off
    assert_near(noise_probability(&none, counts), 1);
    // Two Poisson numbers, 100 and 150: z = 50 / sqrt(250).
    const double few[] = {100}, many[] = {150};
    struct noise_side samples[2] = {{few, 1, 1, 0, 0}, {many, 1, 1, 0, 0}};
    assert_near(noise_probability(&none, samples), erfc(50 / sqrt(250) / sqrt(2)));
    // Rows that are alike are never named.
    samples[1] = samples[0];
    assert_near(noise_probability(&none, samples), 1);
    // Of 20 samples all are on one side with a probability of 2^-19; of 3, with a quarter.
    double sizes[] = {3, 20, 5, 40};
    assert_int_equal(noise_testable(sizes, 4, 0.01), 2);
}

// Text

static char *printed(struct opened *opened, unsigned width)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = memory_checked(open_memstream(&text, &bytes));
    const struct text_style style = {.unicode = true, .width = width};
    const struct diff_shown shown = {
        .diff = &opened->diff, .rows = &opened->rows, .confidence = 99};
    diff_print(out, &style, &shown);
    fclose(out);
    return text;
}

static void the_text_says_why(void **state)
{
    (void)state;
    static const struct made after[] = {
        {0, 1, 20, 1}, {0, 2, 1010, 10}, {1, 3, 500, 100}, {0, 4, 1600, 10}, {3, 3, 800, 100}, {0},
    };
    struct opened opened = compared(before, after, (struct diff_options){0});
    char *text = printed(&opened, 0);
    assert_non_null(strstr(text, "cpu rose from 2.72 ms to 3.93 ms (+44 %)."));
    char *flat = memory_text(text);
    for (char *at = flat; *at; at++)
        *at = *at == '\n' ? ' ' : *at;
    assert_non_null(strstr(flat, "f4 costs 1.20 ms more (+100 %): +1.20 ms from more calls (5, "
                                 "then 10), 0 ns from costlier ones; the path is f1 → f4."));
    assert_non_null(strstr(text, "\n    f1 → f4, with 1 context below\n"));
    free(flat);
    free(text);
    text = printed(&opened, 80);
    for (char *rest = text, *line; (line = strsep(&rest, "\n"));)
        assert_true(text_width(line) <= 80);
    free(text);
    close_opened(&opened);
    opened = compared(before, before, (struct diff_options){0});
    text = printed(&opened, 80);
    assert_string_equal(text, "cpu stayed at 2.72 ms.\n");
    free(text);
    close_opened(&opened);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_change_is_split_and_named_where_it_begins),
        cmocka_unit_test(a_callee_that_became_costlier_too_has_its_own_row),
        cmocka_unit_test(calls_name_what_few_samples_do_not),
        cmocka_unit_test(only_one_side_has_it),
        cmocka_unit_test(small_changes_go_up_to_where_their_sum_is_large),
        cmocka_unit_test(builds_are_lined_up_by_names),
        cmocka_unit_test(shares_are_compared),
        cmocka_unit_test(counts_are_exact),
        cmocka_unit_test(by_function),
        cmocka_unit_test(what_cannot_be_compared_is_refused),
        cmocka_unit_test(profiles_of_other_tools_are_sampled),
        cmocka_unit_test(a_limit_holds_for_a_path),
        cmocka_unit_test(chance_alone_is_not_named),
        cmocka_unit_test(late_samples_are_not_named),
        cmocka_unit_test(a_change_is_found),
        cmocka_unit_test(tests_are_those_of_the_books),
        cmocka_unit_test(the_text_says_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
