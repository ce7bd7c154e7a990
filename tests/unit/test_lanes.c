// SPDX-License-Identifier: MIT
// Threads by time: charges are laid over the time that they stand for, in equal parts.

#include "analyze/lanes/lanes.h"
#include "analyze_fixture.h"
#include "base/memory.h"
#include "profile/timeline.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

// Statements of Figure 1, by their order.
enum { IN_MAIN = 6, IN_A, IN_B, IN_C_OF_A, IN_C_OF_B };

struct given {
    uint32_t node;
    uint64_t time, weight;
};

static void put_column(struct bytes *section, const struct bytes columns[3])
{
    for (unsigned i = 0; i < 3; i++)
        bytes_put_varint(section, columns[i].size);
    for (unsigned i = 0; i < 3; i++)
        bytes_put(section, columns[i].data, columns[i].size);
}

// Charges of one thread, as a section of a file.
static void add_charges(uint32_t tid, const struct given *given, unsigned count)
{
    struct profile *profile = fixture_analysis()->profile;
    struct bytes columns[3] = {0}, section = {0};
    uint64_t time = 0;
    uint32_t node = 0;
    for (unsigned i = 0; i < count; i++) {
        bytes_put_varint(&columns[0], given[i].time - time);
        bytes_put_varint(&columns[1], zigzag((int32_t)(given[i].node - node)) << 1);
        bytes_put_varint(&columns[2], given[i].weight + WEIGHT_PLAIN);
        time = given[i].time;
        node = given[i].node;
    }
    bytes_put_varint(&section, tid);
    bytes_put_varint(&section, 0);
    bytes_put_varint(&section, count);
    put_column(&section, columns);
    for (unsigned i = 0; i < 3; i++)
        bytes_free(&columns[i]);
    struct profile_charges *charges = &profile->trees[0].charges;
    charges->sections = memory_checked(realloc(charges->sections, charges->bytes + section.size));
    memcpy(charges->sections + charges->bytes, section.data, section.size);
    charges->bytes += section.size;
    charges->count += count;
    bytes_free(&section);
    profile->timeline = (struct profile_timeline){.recorded = true, .metric_count = 1};
}

static void end(void)
{
    struct profile_charges *charges = &fixture_analysis()->profile->trees[0].charges;
    free(charges->sections);
    *charges = (struct profile_charges){0};
    fixture_end();
}

static struct lanes make(struct time_range range, unsigned parts, uint32_t depth)
{
    static const struct build_options all;
    const struct lanes_options options = {
        .build = &all, .range = range, .parts = parts, .depth = depth};
    return lanes_make(fixture_analysis(), &options);
}

static const char *name_of(const struct lanes *lanes, unsigned lane, unsigned part)
{
    const uint32_t function = lanes->lanes[lane].functions[part];
    return function ? functions_get(fixture_analysis()->functions, function)->name : "";
}

static void assert_lane(const struct lanes *lanes, unsigned lane, const uint64_t *costs,
                        const char *const *names)
{
    for (unsigned i = 0; i < lanes->parts; i++) {
        assert_int_equal(lanes->lanes[lane].costs[i], costs[i]);
        assert_string_equal(name_of(lanes, lane, i), names[i]);
    }
}

static const struct time_range whole = {0, UINT64_MAX};

static void parts_have_what_was_spent_in_them(void **state)
{
    (void)state;
    fixture_start();
    fixture_figure1();
    add_charges(100, (struct given[]){{IN_A, 10, 10}, {IN_C_OF_B, 35, 25}, {IN_MAIN, 60, 5}}, 3);
    struct lanes lanes = make(whole, 6, 0);
    assert_int_equal(lanes.part_ns, 10);
    assert_int_equal(lanes.count, 1);
    assert_int_equal(lanes.lanes[0].total, 40);
    assert_int_equal(lanes.lanes[0].first_ns, 10);
    assert_int_equal(lanes.lanes[0].last_ns, 60);
    assert_lane(&lanes, 0, (uint64_t[]){10, 10, 10, 5, 0, 5},
                (const char *[]){"a", "c", "c", "c", "", "main"});
    assert_int_equal(lanes.function_count, 3);
    assert_int_equal(lanes.functions[0].cost, 25); // c, the costliest
    lanes_free(&lanes);
    // Of a range, what lies in it, and of a long charge its part.
    lanes = make((struct time_range){20, 40}, 2, 0);
    assert_lane(&lanes, 0, (uint64_t[]){10, 5}, (const char *[]){"c", "c"});
    lanes_free(&lanes);
    end();
}

static void threads_of_a_tree_have_lanes_of_their_own(void **state)
{
    (void)state;
    fixture_start();
    fixture_figure1();
    add_charges(102, (struct given[]){{IN_A, 20, 10}}, 1);
    add_charges(101, (struct given[]){{IN_B, 15, 5}, {IN_A, 40, 12}}, 2);
    add_charges(102, (struct given[]){{IN_B, 40, 8}}, 1);
    struct lanes lanes = make(whole, 2, 0);
    assert_int_equal(lanes.count, 2);
    assert_int_equal(lanes.lanes[0].tid, 101); // began first
    assert_lane(&lanes, 0, (uint64_t[]){5, 12}, (const char *[]){"b", "a"});
    assert_lane(&lanes, 1, (uint64_t[]){10, 8}, (const char *[]){"a", "b"});
    lanes_free(&lanes);
    end();
}

static void functions_may_be_those_of_a_depth(void **state)
{
    (void)state;
    fixture_start();
    fixture_figure1();
    add_charges(100, (struct given[]){{IN_C_OF_A, 10, 10}, {IN_C_OF_B, 20, 10}, {IN_MAIN, 30, 10}},
                3);
    struct lanes lanes = make(whole, 3, 1);
    assert_lane(&lanes, 0, (uint64_t[]){10, 10, 10}, (const char *[]){"a", "b", "main"});
    lanes_free(&lanes);
    lanes = make(whole, 3, 2);
    assert_lane(&lanes, 0, (uint64_t[]){10, 10, 10}, (const char *[]){"c", "c", "main"});
    lanes_free(&lanes);
    end();
}

static void text_is_as_wide_as_the_terminal(void **state)
{
    (void)state;
    fixture_start();
    fixture_figure1();
    add_charges(100, (struct given[]){{IN_A, 30000, 15000}, {IN_C_OF_A, 60000, 30000}}, 2);
    const struct text_style style = {.width = 60};
    struct lanes lanes = make(whole, lanes_columns(&style), 0);
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = memory_checked(open_memstream(&text, &bytes));
    lanes_print(out, &style, fixture_analysis(), &lanes);
    fclose(out);
    assert_non_null(strstr(text, "          ##########"
                                 "####################\n"));
    assert_non_null(strstr(text, "          bbbbbbbbbb"
                                 "aaaaaaaaaaaaaaaaaaaa\n"));
    assert_non_null(strstr(text, "  a   66.7 %  c\n  b   33.3 %  a\n"));
    free(text);
    lanes_free(&lanes);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_have_what_was_spent_in_them),
        cmocka_unit_test(threads_of_a_tree_have_lanes_of_their_own),
        cmocka_unit_test(functions_may_be_those_of_a_depth),
        cmocka_unit_test(text_is_as_wide_as_the_terminal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
