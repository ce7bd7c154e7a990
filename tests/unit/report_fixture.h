// SPDX-License-Identifier: MIT
#ifndef CAIRN_TESTS_REPORT_FIXTURE_H
#define CAIRN_TESTS_REPORT_FIXTURE_H

// A report of a made profile, compared letter by letter.

#include "analyze_fixture.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
// after those above
#include <cmocka.h>

#define NOTE "Note: no debug file for libc.so.6\n"
#define HEAD                                                                                       \
    "./prog -x: 100 ns of cpu in 6 samples, 1 process, 1 thread\n"                                 \
    "few samples: by chance, what is shown as 50 % may be anything from 19 to 81 %; run longer, "  \
    "add runs up ('cairn merge'), or record with -F 10000\n"

static inline void expect(struct report_options options, struct text_style style,
                          const char *expected)
{
    char *text = fixture_styled_report(options, style);
    assert_non_null(text);
    assert_string_equal(text, expected);
    free(text);
}

// The same, without what is the same below every table.
static inline void expect_table(struct report_options options, struct text_style style,
                                const char *expected)
{
    char *text = fixture_styled_report(options, style);
    assert_non_null(text);
    char *end = strstr(text, "\n\n");
    char *table = end ? end + 2 : text;
    end = strstr(table, "\n\n");
    if (end)
        end[1] = '\0';
    assert_string_equal(table, expected);
    free(text);
}

static const struct text_style plain, drawn = {.unicode = true};

// A recursion 31 deep, then a chain, an inlined function at its end.
static inline void add_chain(void)
{
    place_t deep = fixture_function(LIBRARY, 0x3000, "deep", 300);
    place_t bottom = fixture_function(LIBRARY, 0x3100, "bottom", 310);
    fixture_inline(bottom + 0x20, bottom + 0x60, "swap<int>", 70);
    uint32_t frame = fixture_frame(fixture_tree(deep, 101), 0, deep, 0);
    for (int i = 0; i < 30; i++)
        frame = fixture_frame(frame, deep + 0x11, deep, 0);
    frame = fixture_frame(frame, deep + 0x11, bottom, 9);
    fixture_statement(frame, bottom + 0x30, 90);
    fixture_statement(0, 0, 10);
}

#endif
