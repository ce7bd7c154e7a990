// SPDX-License-Identifier: MIT

#include "base/memory.h"
#include "base/text/json.h"
#include "base/text/nearest.h"
#include "base/text/text.h"
#include "base/text/wrap.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void test_numbers_are_grouped_and_units_fit(void **state)
{
    (void)state;
    assert_string_equal(text_count(0).text, "0");
    assert_string_equal(text_count(999).text, "999");
    assert_string_equal(text_count(1000).text, "1,000");
    assert_string_equal(text_count(1234567).text, "1,234,567");
    assert_string_equal(text_count(UINT64_MAX).text, "18,446,744,073,709,551,615");
    assert_string_equal(text_duration(0).text, "0 ns");
    assert_string_equal(text_duration(999).text, "999 ns");
    assert_string_equal(text_duration(1500).text, "1.50 us");
    assert_string_equal(text_duration(999600).text, "1.00 ms");
    assert_string_equal(text_duration(99960000).text, "100 ms");
    assert_string_equal(text_duration(2510000000).text, "2.51 s");
    assert_string_equal(text_duration(UINT64_C(1002000000000)).text, "16.7 min");
    assert_string_equal(text_duration(UINT64_C(7200000000000)).text, "2.00 h");
    assert_string_equal(text_bytes(512).text, "512 B");
    assert_string_equal(text_bytes(13200000).text, "13.2 MB");
    assert_string_equal(text_percent(1, 3).text, "33.3 %");
    assert_string_equal(text_percent(1, 0).text, "0.0 %");
    assert_string_equal(text_amount(5000, "calls").text, "5,000");
    assert_string_equal(text_amount(5000, "bytes").text, "5.00 kB");
}

static void test_text_is_cut_by_columns_not_bytes(void **state)
{
    (void)state;
    struct text_style ascii = {0}, drawn = {.unicode = true};
    char *text = text_cut("abcdefghij", 6, &ascii);
    assert_string_equal(text, "abc...");
    free(text);
    text = text_cut("αβγδεζ", 4, &drawn);
    assert_string_equal(text, "αβγ…");
    free(text);
    text = text_cut("αβγδεζ", 6, &drawn);
    assert_string_equal(text, "αβγδεζ");
    free(text);
    assert_int_equal(text_width("αβ c"), 4);
    // Wide letters, marks that combine, and what is no text.
    assert_int_equal(text_width("漢字"), 4);
    assert_int_equal(text_width("e\u0301a"), 2);
    assert_int_equal(text_width("\xff\xfe"), 2);
    text = text_cut("漢字漢字", 6, &drawn);
    assert_string_equal(text, "漢字…");
    free(text);
    text = text_cut("e\u0301a\u0301bcd", 3, &drawn);
    assert_string_equal(text, "e\u0301a\u0301…");
    free(text);
    assert_string_equal(text_skip("漢字ab", 3), "ab");
    text = text_cut("a\033[31mred", 8, &drawn);
    assert_string_equal(text, "a\\x1b[3…");
    free(text);
}

static void test_foreign_text(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"main", "main"},
        {"größe → 漢字 \U0001f600", "größe → 漢字 \U0001f600"},
        {"a\033[2J\a\n\t\x7f", "a\\x1b[2J\\x07\\x0a\\x09\\x7f"},
        {"\xc2\x9b"
         "2J\xc2\x85",
         "\\u009b2J\\u0085"},
        {"\u202eabc\u2066\u200b\ufeff", "\\u202eabc\\u2066\\u200b\\ufeff"},
        {"\u2028\u00ad\U000e0041\ufffe", "\\u2028\\u00ad\\ue0041\\ufffe"},
        {"\x9b\xc3", "\\x9b\\xc3"},                                     // no UTF-8
        {"\xc0\x80\xed\xa0\x80", "\\xc0\\x80\\xed\\xa0\\x80"},          // overlong, surrogate
        {"\xf4\x90\x80\x80\xe2\x82", "\\xf4\\x90\\x80\\x80\\xe2\\x82"}, // beyond, cut off
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(text_safe(cases[i][0]), cases[i][1]);
    const char *same = "harmless";
    assert_ptr_equal(text_safe(same), same);
}

static char *printed(struct text_table *table, struct text_style style)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    text_table_print(table, out, &style);
    fclose(out);
    text_table_free(table);
    return text;
}

static struct text_table *small_table(void)
{
    static const enum text_align align[] = {TEXT_RIGHT, TEXT_RIGHT, TEXT_FLEX, TEXT_LEFT};
    static const char *const head[] = {"cost", "empty", "name", "where"};
    struct text_table *table = text_table_new(4, align, head);
    static const char *const cells[] = {
        "1", "", "first", "a.c:1", "20", "", "the second of them all", ""};
    for (unsigned i = 0; i < 8; i++)
        text_table_cell(table, i == 2 ? TEXT_HOT : TEXT_PLAIN, cells[i]);
    return table;
}

static void test_columns_line_up_whatever_the_style(void **state)
{
    (void)state;
    char *text = printed(small_table(), (struct text_style){0});
    assert_string_equal(text, "cost  name                    where\n"
                              "   1  first                   a.c:1\n"
                              "  20  the second of them all\n");
    free(text);
    text = printed(small_table(), (struct text_style){.width = 31, .colour = true});
    assert_string_equal(text, "\033[2mcost\033[0m  \033[2mname\033[0m                "
                              "\033[2mwhere\033[0m\n"
                              "   1  \033[1;31mfirst\033[0m               a.c:1\n"
                              "  20  the second of t...\n");
    free(text);
}

static char *wrapped(const char *words, unsigned width, unsigned indent)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    wrap_print(out, &(struct text_style){.width = width}, TEXT_PLAIN, words, indent);
    fclose(out);
    return text;
}

static void test_lines_break_between_words(void **state)
{
    (void)state;
    static const struct {
        const char *words, *expected;
        unsigned width, indent;
    } cases[] = {
        {"to be or not", "to be or\n  not\n", 10, 2},
        {"to be or not", "to be or not\n", 14, 2}, // the last column is used
        {"to be or not", "to be or\n  not\n", 13, 2},
        {"an unbreakable word", "an\n    unbreakable\n    word\n", 8, 4},
        {"\033[1m", "\\x1b[1m\n", 0, 0}, // foreign text
        {"", "\n", 20, 2},
        {"it costs 0.7 %, or", "it costs\n0.7 %, or\n", 12, 0}, // a number and its sign
        {"% alone", "% alone\n", 12, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text = wrapped(cases[i].words, cases[i].width, cases[i].indent);
        assert_string_equal(text, cases[i].expected);
        free(text);
    }
}

static char *json_text(void (*write)(struct json *json))
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    struct json json;
    json_start(&json, out);
    write(&json);
    json_finish(&json);
    fclose(out);
    return text;
}

static void write_values(struct json *json)
{
    json_array(json);
    json_unsigned(json, 0);
    json_unsigned(json, UINT64_MAX);
    json_real(json, 0.1);
    json_real(json, NAN);
    json_real(json, 1e300 * 1e300);
    json_bool(json, true);
    json_string(json, NULL);
    json_string(json, "tab\t quote\" back\\ \x01 \x7f ü \xff \xed\xa0\x80 \xc0\x80");
    json_object(json);
    json_end_object(json);
    json_array(json);
    json_end_array(json);
    json_end_array(json);
}

static char *long_text(void)
{
    char *text = malloc(3 * JSON_BUFFER);
    memset(text, 'x', 3 * JSON_BUFFER - 1);
    text[3 * JSON_BUFFER - 1] = '\0';
    return text;
}

static void write_long_text(struct json *json)
{
    char *text = long_text();
    json_array(json);
    json_string(json, "ab");
    json_string(json, text);
    json_end_array(json);
    free(text);
}

// Longer than the writer's buffer.
static void test_json_long_text(void **state)
{
    (void)state;
    char *text = json_text(write_long_text), *expected = NULL, *inner = long_text();
    assert_true(asprintf(&expected, "[\"ab\", \"%s\"]\n", inner) > 0);
    assert_string_equal(text, expected);
    free(text);
    free(expected);
    free(inner);
}

static void test_json_values(void **state)
{
    (void)state;
    char *text = json_text(write_values);
    assert_string_equal(
        text, "[0, 18446744073709551615, 0.1, null, null, true, null, "
              "\"tab\\t quote\\\" back\\\\ \\u0001 \\u007f ü \xef\xbf\xbd "
              "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd \xef\xbf\xbd\xef\xbf\xbd\", {}, []]\n");
    free(text);
}

static void write_levels(struct json *json)
{
    json_object(json);
    json_key(json, "a\"b");
    json_unsigned(json, 1);
    json_key(json, "rows");
    json_spread_array(json);
    for (unsigned i = 0; i < 2; i++) {
        json_object(json);
        json_key(json, "x");
        json_unsigned(json, i);
        json_key(json, "y");
        json_null(json);
        json_end_object(json);
    }
    json_end_array(json);
    json_end_object(json);
}

static void test_json_levels(void **state)
{
    (void)state;
    char *text = json_text(write_levels);
    assert_string_equal(text, "{\n"
                              "  \"a\\\"b\": 1,\n"
                              "  \"rows\": [\n"
                              "    {\"x\": 0, \"y\": null},\n"
                              "    {\"x\": 1, \"y\": null}\n"
                              "  ]\n"
                              "}\n");
    free(text);
}

static void test_distance_counts_the_fewest_edits(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b;
        unsigned edits;
    } cases[] = {
        {"", "", 0},
        {"", "abc", 3},
        {"focus", "focus", 0},
        {"focus", "fcus", 1},
        {"focus", "foccus", 1},
        {"focus", "fokus", 1},
        {"focus", "fcous", 1} /* swapped */,
        {"view", "veiw", 1},
        {"view", "weiv", 3},
        {"depth", "detph", 1},
        {"kitten", "sitting", 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(word_distance(cases[i].a, cases[i].b), cases[i].edits);
        assert_int_equal(word_distance(cases[i].b, cases[i].a), cases[i].edits);
    }
}

static void test_the_nearest_word_is_the_one_meant(void **state)
{
    (void)state;
    static const char *const words[] = {"record", "report", "info", "export", NULL};
    assert_string_equal(nearest_word("recrod", words), "record");
    assert_string_equal(nearest_word("rep", words), "report");
    assert_string_equal(nearest_word("exprot", words), "export");
    assert_string_equal(nearest_word("rport", words), "report");
    assert_string_equal(nearest_word("infos", words), "info");
    assert_null(nearest_word("inform", (const char *const[]){"record", "export", NULL}));
    assert_string_equal(nearest_word("traks", (const char *const[]){"tree", "track", NULL}),
                        "track");
    assert_null(nearest_word("wall", (const char *const[]){"calls", NULL}));
    assert_null(nearest_word("banana", words));
    assert_null(nearest_word("", words));
    assert_null(nearest_word("an-absurdly-long-word-that-nobody-types", words));
}

// What the environment says of colours and of the width, where nobody watches.
static void test_style_follows_the_environment(void **state)
{
    (void)state;
    FILE *out = tmpfile();
    unsetenv("COLUMNS");
    unsetenv("NO_COLOR");
    unsetenv("CLICOLOR_FORCE");
    assert_int_equal(text_style(out).width, 0);
    assert_false(text_style(out).colour);
    setenv("COLUMNS", "120", 1);
    assert_int_equal(text_style(out).width, 120);
    static const char *const nonsense[] = {"", "wide", "-5", "12", "120x", "0", "99999999999999"};
    for (size_t i = 0; i < sizeof nonsense / sizeof *nonsense; i++) {
        setenv("COLUMNS", nonsense[i], 1);
        assert_int_equal(text_style(out).width, 0);
    }
    setenv("CLICOLOR_FORCE", "1", 1);
    assert_true(text_style(out).colour);
    setenv("NO_COLOR", "1", 1);
    assert_false(text_style(out).colour);
    setenv("NO_COLOR", "", 1); // as if it were not set
    assert_true(text_style(out).colour);
    setenv("CLICOLOR_FORCE", "0", 1);
    assert_false(text_style(out).colour);
    fclose(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_are_grouped_and_units_fit),
        cmocka_unit_test(test_text_is_cut_by_columns_not_bytes),
        cmocka_unit_test(test_foreign_text),
        cmocka_unit_test(test_columns_line_up_whatever_the_style),
        cmocka_unit_test(test_lines_break_between_words),
        cmocka_unit_test(test_json_values),
        cmocka_unit_test(test_json_long_text),
        cmocka_unit_test(test_json_levels),
        cmocka_unit_test(test_distance_counts_the_fewest_edits),
        cmocka_unit_test(test_the_nearest_word_is_the_one_meant),
        cmocka_unit_test(test_style_follows_the_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
