// SPDX-License-Identifier: MIT
// What other tools' files become, as nodes of a profile: places are known by their names alone,
// values and units are converted, and what makes no sense is refused.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "import/import.h"
#include "import/json_reader.h"
#include "profile/place_names.h"
#include <stdlib.h>
#include <string.h>

static char *import_error;

static struct profile *import_text(const char *text, const char *format)
{
    const struct import_format *chosen = NULL;
    for (size_t i = 0; format && import_formats[i]; i++)
        if (strcmp(import_formats[i]->name, format) == 0)
            chosen = import_formats[i];
    free(import_error);
    import_error = NULL;
    return import_bytes(text, strlen(text), "input", &chosen, &(struct import_options){0},
                        &import_error);
}

static void check_refused(const char *text, const char *format, const char *why)
{
    assert_null(import_text(text, format));
    assert_non_null(strstr(import_error, why));
}

static const char *name_at(const struct profile *profile, place_t place)
{
    const struct profile_place *named = place_names_find(profile, place);
    return named ? named->lines[named->line_count - 1].function : NULL;
}

static void folded_paths_are_a_tree(void **state)
{
    (void)state;
    struct profile *profile = import_text("a;b 2\na 1\na;b;k_[k] 3\na;b 4\n", NULL);
    assert_non_null(profile);
    assert_int_equal(profile->tree_count, 1);
    const struct profile_tree *tree = &profile->trees[0];
    // A root; a, b and k with a statement each.
    assert_int_equal(tree->count, 7);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < tree->count; i++) {
        sum += tree->values[i];
        assert_true(i == 0 || tree->nodes[i].parent < i);
    }
    assert_int_equal(sum, 10);
    assert_string_equal(name_at(profile, tree->nodes[1].function), "a");
    assert_string_equal(profile->metrics[0].unit, "count");
    assert_string_equal(profile->modules[MODULE_FIRST_FILE].path, PLACE_KERNEL);
    profile_free(profile);
}

static void the_same_names_are_the_same_place(void **state)
{
    (void)state;
    struct profile *one = import_text("x 1\nmain;work 1\n", NULL);
    struct profile *other = import_text("main;idle;work 1\n", NULL);
    place_t works[2] = {0};
    for (unsigned side = 0; side < 2; side++) {
        const struct profile *profile = side ? other : one;
        for (uint32_t i = 0; i < profile->trees[0].count; i++) {
            const char *name = name_at(profile, profile->trees[0].nodes[i].function);
            if (name && strcmp(name, "work") == 0)
                works[side] = profile->trees[0].nodes[i].function;
        }
    }
    assert_true(works[0] && works[0] == works[1]);
    profile_free(one);
    profile_free(other);
}

static void units_are_converted(void **state)
{
    (void)state;
    struct profile *profile = import_text(
        "{\"profiles\":[{\"type\":\"sampled\",\"name\":\"t\",\"unit\":\"microseconds\","
        "\"samples\":[[0],[0]],\"weights\":[1.5,-3]}],\"shared\":{\"frames\":[{\"name\":\"f\"}]}}",
        NULL);
    assert_non_null(profile);
    assert_string_equal(profile->metrics[0].unit, "ns");
    uint64_t sum = 0;
    for (uint32_t i = 0; i < profile->trees[0].count; i++)
        sum += profile->trees[0].values[i];
    assert_int_equal(sum, 1500);
    assert_int_equal(profile->note_count, 1); // what was below 0
    assert_non_null(strstr(profile->notes[0], "below 0"));
    profile_free(profile);
}

static void recursion_shares_no_cost_twice(void **state)
{
    (void)state;
    struct profile *profile = import_text("events: Ir\n\nfn=main\n1 10\ncfn=even\ncalls=1 2\n1 90\n"
                                          "fn=even\n2 30\ncfn=odd\ncalls=5 3\n2 60\n"
                                          "fn=odd\n3 60\ncfn=even\ncalls=4 2\n3 40\n",
                                          "callgrind");
    assert_non_null(profile);
    uint64_t sums[2] = {0};
    for (uint32_t i = 0; i < profile->trees[0].count; i++)
        for (unsigned metric = 0; metric < 2; metric++)
            sums[metric] += profile->trees[0].values[(size_t)i * 2 + metric];
    assert_int_equal(sums[0], 100);
    assert_int_equal(sums[1], 10);
    profile_free(profile);
}

static void what_makes_no_sense_is_refused(void **state)
{
    (void)state;
    check_refused("", NULL, "no format");
    check_refused("a;b 1\na;b\n", "folded", "line 2 ");
    check_refused("events: Ir\nfn=(1)\n", "callgrind", "line 2: a number stands for a name");
    check_refused("events: Ir\n3 4\n", "callgrind", "line 2: a cost before the first function");
    check_refused("{\"profiles\":[{\"type\":\"evented\",\"unit\":\"none\",\"events\":["
                  "{\"type\":\"C\",\"frame\":0,\"at\":1}]}],\"shared\":{\"frames\":[]}}",
                  "speedscope", "frame 0 is left");
    check_refused("\x12\x7f", "pprof", "beyond the end");
    check_refused("\x0a\x02\x08\x01\x12\x03\x0a\x01\x07", "pprof", "0 values instead of 1");
    free(import_error);
    import_error = NULL;
}

static void check_text(const char *json, const char *expected)
{
    struct json_reader reader = json_reader(json, strlen(json));
    char *text = json_text(&reader);
    if (!expected) {
        assert_true(reader.failed || !text);
    } else {
        assert_false(reader.failed);
        assert_string_equal(text, expected);
    }
    free(text);
}

static void texts_of_json(void **state)
{
    (void)state;
    check_text("\"a\\\"\\\\\\/\\n\\u00e9\"", "a\"\\/\n\u00e9");
    check_text("\"\\ud83d\\ude00\"", "\U0001f600");
    check_text("\"\\ud83d\"", "\ufffd");
    check_text("\"\\u0000\"", "\ufffd");
    check_text("\"\\u12\"", NULL);
    check_text("\"\\\"", NULL);
    check_text("\"open", NULL);
    check_text("[]", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folded_paths_are_a_tree),
        cmocka_unit_test(the_same_names_are_the_same_place),
        cmocka_unit_test(units_are_converted),
        cmocka_unit_test(recursion_shares_no_cost_twice),
        cmocka_unit_test(what_makes_no_sense_is_refused),
        cmocka_unit_test(texts_of_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
