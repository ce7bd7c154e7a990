// SPDX-License-Identifier: MIT

// `cairn list`: the events, and which sources of them work on this machine.

#include "base/text/json.h"
#include "base/text/wrap.h"
#include "cmd/events/counter_check.h"
#include "cmd/events/counter_names.h"
#include "cmd/events/restriction.h"
#include "cmd/events/sources.h"
#include "cmd/line/command.h"
#include "cmd/line/options.h"
#include "cmd/line/terminal.h"
#include "event/event.h"
#include "live/option_rules.h"
#include "profile/profile.h"
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define UNITS "/sys/bus/event_source/devices"
#define COUNTERS_MOST 32
#ifdef HAVE_PFM
#define HAS_MAKERS 1
#else
#define HAS_MAKERS 0
#endif

static const char *const meanings[] = {
    [LIVE_SOURCE_SIGTRAP] = "perf event, delivered at once",
    [LIVE_SOURCE_SIGNAL] = "perf event, delivered by an ordinary signal",
    [LIVE_SOURCE_TIMER] = "timer on CPU time, as coarse as the tick",
};

// The end of a line that has begun already; text that does not fit continues below, from `column`
// on.
static void put_wrapped(const struct text_style *style, unsigned column, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void put_wrapped(const struct text_style *style, unsigned column, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    wrap_print(stdout, style, TEXT_PLAIN, text, column);
}

// Opens it, and closes it again. 0 or -errno.
static int try_counter(const struct counter_name *name, struct counter_refusal *why)
{
    struct live_counter counter = {
        .type = name->type, .config = name->config, .is_rate = 1, .period = RULE_RATE};
    const int error = counter_try(&counter);
    if (error)
        counter_refused(&counter, error, why);
    return error;
}

// Those that work, and then, reason by reason, those that do not.
static void print_counters(const struct text_style *style)
{
    struct counter_refusal why[COUNTERS_MOST] = {{.reason = ""}};
    int errors[COUNTERS_MOST];
    printf("\nperf's events, counted in each thread and sampled:\n");
    for (size_t i = 0; i < counter_name_count && i < COUNTERS_MOST; i++) {
        errors[i] = try_counter(&counter_names[i], &why[i]);
        if (errors[i])
            continue;
        printf("  %-24s ", counter_names[i].name);
        put_wrapped(style, 27, "%s", counter_names[i].meaning);
    }
    for (size_t i = 0; i < counter_name_count && i < COUNTERS_MOST; i++) {
        char names[512] = "";
        size_t length = 0;
        for (size_t k = i; errors[i] && k < counter_name_count && k < COUNTERS_MOST; k++) {
            if (!errors[k] || strcmp(why[k].reason, why[i].reason) != 0)
                continue;
            length += (size_t)snprintf(names + length, sizeof names - length, "%s%s",
                                       length ? ", " : "", counter_names[k].name);
            errors[k] = k > i ? 0 : errors[k];
        }
        if (!errors[i])
            continue;
        printf("  ");
        put_wrapped(style, 4, "not here: %s: %s%s%s", names, why[i].reason,
                    *why[i].remedy ? "; " : "", why[i].remedy);
    }
    printf("  ");
    put_wrapped(style, 4,
                "Also: raw codes (r01c2), units of " UNITS " (cpu/event=0x3c/), caches "
                "(LLC-load-misses)%s. ':N' sets a period, -F a rate.",
                HAS_MAKERS ? ", and names of the processor's maker" : "");
}

static void print_text(void)
{
    const struct text_style style = terminal_style();
    printf("events ('cairn record -e NAME'):\n");
    for (unsigned event = 0; event < LIVE_EVENT_COUNTER; event++) {
        enum live_source best = best_source(event);
        printf("\n  %-6s ", event_of(event)->name);
        put_wrapped(&style, 9, "%s: %s", event_of(event)->meaning,
                    best || !event_of(event)->by_clock ? "works here" : "does not work here");
        for (unsigned source = LIVE_SOURCE_SIGTRAP; source <= LIVE_SOURCE_TIMER; source++) {
            int error = try_source(event, source);
            if (error == -ENOTSUP)
                continue;
            printf("    %-24s ", live_source_name(source));
            put_wrapped(&style, 29, "%s: %s%s", meanings[source],
                        error ? strerror(-error) : "works", source == best ? ", used" : "");
        }
        struct restriction why = {.reason = ""};
        if (!restriction_of(event, &why))
            continue;
        printf("    ");
        wrap_print(stdout, &style, TEXT_PLAIN, why.reason, 4);
        if (!why.remedy[0])
            continue;
        printf(style.unicode ? "    →  " : "    -> ");
        wrap_print(stdout, &style, TEXT_BOLD, why.remedy, 7);
    }
    print_counters(&style);
    printf("\n'cairn doctor' looks at everything else that a recording needs.\n");
}

static void print_source(struct json *json, unsigned event, unsigned source)
{
    int error = try_source(event, source);
    if (error == -ENOTSUP)
        return;
    json_object(json);
    json_put_string(json, "name", live_source_name(source));
    json_put_bool(json, "works", error == 0);
    json_put_string(json, "error", error ? strerror(-error) : NULL);
    json_end_object(json);
}

static void put_counter(struct json *json, const struct counter_name *name)
{
    struct counter_refusal why = {.reason = ""};
    const int error = try_counter(name, &why);
    json_object(json);
    json_put_string(json, "name", name->name);
    json_put_string(json, "unit", name->unit);
    json_put_bool(json, "works", error == 0);
    json_put_string(json, "source", error ? NULL : PROFILE_COUNTER_SOURCE);
    json_put_string(json, "reason", error ? why.reason : NULL);
    json_put_string(json, "remedy", error && *why.remedy ? why.remedy : NULL);
    json_key(json, "sources");
    json_array(json);
    json_object(json);
    json_put_string(json, "name", PROFILE_COUNTER_SOURCE);
    json_put_bool(json, "works", error == 0);
    json_put_string(json, "error", error ? strerror(-error) : NULL);
    json_end_object(json);
    json_end_array(json);
    json_end_object(json);
}

static void print_json(void)
{
    struct json json;
    json_start(&json, stdout);
    json_object(&json);
    json_key(&json, "events");
    json_spread_array(&json);
    for (unsigned event = 0; event < LIVE_EVENT_COUNTER; event++) {
        enum live_source best = best_source(event);
        json_object(&json);
        json_put_string(&json, "name", event_of(event)->name);
        json_put_string(&json, "unit", event_of(event)->unit);
        json_put_bool(&json, "works", best != LIVE_SOURCE_AUTO || !event_of(event)->by_clock);
        json_put_string(&json, "source", best ? live_source_name(best) : NULL);
        json_key(&json, "sources");
        json_array(&json);
        for (unsigned source = LIVE_SOURCE_SIGTRAP; source <= LIVE_SOURCE_TIMER; source++)
            print_source(&json, event, source);
        json_end_array(&json);
        json_end_object(&json);
    }
    for (size_t i = 0; i < counter_name_count; i++)
        put_counter(&json, &counter_names[i]);
    json_end_array(&json);
    json_end_object(&json);
    json_finish(&json);
}

static const struct option_row rows[] = {
    OPTION_TITLE("Options"), {256, "json", NULL, "The same as JSON."}, OPTION_TABLE_END};

static int run_list(int argc, char **argv)
{
    bool as_json = false;
    struct option_scan scan = option_scan(&command_list, argc, argv);
    for (int option; (option = option_next(&scan)) != OPTION_END;) {
        if (option == OPTION_EXIT)
            return scan.status;
        as_json = true;
    }
    if (optind < argc)
        return misuse(&command_list, "list: takes no argument, not '%s'", argv[optind]);
    terminal_use_pager();
    if (as_json)
        print_json();
    else
        print_text();
    return finish_output("list");
}

const struct command command_list = {
    .name = "list",
    .summary = "show what can be sampled, and what works here",
    .usage = "[OPTION...]",
    .help = "Lists the events of 'cairn record -e', and the ways to sample them. Each way is\n"
            "tried here and now; 'cairn record' uses the first that works. Then perf's\n"
            "events, and the reasons why some do not work.\n",
    .options = rows,
    .prints = true,
    .run = run_list,
};
