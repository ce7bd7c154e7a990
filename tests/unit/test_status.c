// SPDX-License-Identifier: MIT

// What `cairn record` says when all is over.

#include "cmd/line/command.h"
#include "cmd/record/status.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
// cmocka wants those above first.
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct command command_record = {.name = "record", .help = "usage"};

// What goes to stderr, to be freed.
static char *summary_of(const struct record_options *options,
                        const struct recording_summary *summary)
{
    char *said = NULL;
    size_t bytes;
    FILE *kept = stderr;
    stderr = open_memstream(&said, &bytes);
    print_summary(options, summary);
    fclose(stderr);
    stderr = kept;
    return said;
}

static void test_time_that_was_not_seen(void **state)
{
    (void)state;
    struct record_options options = {
        .event = LIVE_EVENT_CPU, .event_count = 1, .follow_fork = true};
    struct recording_summary summary = {.totals = {.processes = 1, .cost_ns = 900000000},
                                        .cpu_ns = 1000000000};
    assert_null(unseen_advice(&options, &summary)); // until the agent is in
    summary.cpu_ns = 2000000000;
    char *advice = unseen_advice(&options, &summary);
    assert_non_null(strstr(advice, "1.10 s of the 2.00 s"));
    assert_non_null(strstr(advice, "static"));
    assert_null(strstr(advice, "rewriting"));
    free(advice);
    options.tracker = LIVE_TRACKER_CALLS;
    advice = unseen_advice(&options, &summary);
    assert_non_null(strstr(advice, "rewriting call sites"));
    free(advice);
}

// Why a profile is empty, in words that fit what was asked for.
static void test_why_there_is_nothing(void **state)
{
    (void)state;
    char *command[] = {"prog", NULL};
    const struct {
        struct record_options options;
        const char *says, *does_not_say;
    } cases[] = {
        {{.event = LIVE_EVENT_CPU, .event_name = "cpu", .period_ns = 1000000}, "-e wall", NULL},
        {{.event = LIVE_EVENT_WALL, .event_name = "wall", .period_ns = 1000000}, "-F", "-e wall"},
        {{.event = LIVE_EVENT_ALLOC}, "made none", NULL},
        {{.event = LIVE_EVENT_CALLS}, "--calls-by", "burst"},
        {{.event = LIVE_EVENT_CALLS, .burst_interval_ns = 20000000, .burst_length_ns = 2000000},
         "2.00 ms out of each 20.0 ms",
         "--calls-by"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct record_options options = cases[i].options;
        struct recording_summary summary = {.totals = {.processes = 1}, .started = true};
        options.command = command;
        options.output = "cairn.out";
        options.event_count = 1;
        char *said = summary_of(&options, &summary);
        assert_non_null(strstr(said, cases[i].says));
        assert_true(!cases[i].does_not_say || !strstr(said, cases[i].does_not_say));
        free(said);
    }
}

int main(void)
{
    setenv("CAIRN_CONFIG", "off", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_time_that_was_not_seen),
        cmocka_unit_test(test_why_there_is_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
