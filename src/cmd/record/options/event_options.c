// SPDX-License-Identifier: MIT
#include "cmd/record/options/event_options.h"
#include "cmd/events/counter_names.h"
#include "cmd/line/numbers.h"
#include "cmd/line/options.h"
#include "cmd/line/other_profilers.h"
#include "event/event.h"
#include "live/option_rules.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_S UINT64_C(1000000000)

#define MISUSE(...) misuse(&command_record, "record: " __VA_ARGS__)

int set_period(struct parsing *parsing, const char *text)
{
    const double ns = parse_time(text);
    if (ns <= 0)
        return MISUSE("'%s' is not a period: give ns, or a number with us, ms or s", text);
    if (ns < (double)NS_PER_S / RULE_MOST_RATE || ns > (double)NS_PER_S)
        return MISUSE("a period of %s is not possible: give 100us (10000 samples a second) to 1s",
                      text);
    if (parsing->period_given)
        return MISUSE("the period is given twice");
    parsing->period_given = true;
    parsing->options->period_ns = (uint64_t)(ns + 0.5);
    return PROCEED;
}

int set_frequency(struct parsing *parsing, const char *text)
{
    double rate = 0;
    const char *rest = "";
    if (!strcmp(text, "max"))
        return MISUSE("-F takes samples per second, 1 to %d: use -F %d", RULE_MOST_RATE,
                      RULE_MOST_RATE);
    if (!parse_number(text, &rate, &rest) || *rest)
        return MISUSE("'%s' is not a rate: -F takes samples a second, 1 to %d", text,
                      RULE_MOST_RATE);
    if (rate < 1 || rate > RULE_MOST_RATE)
        return MISUSE("%s samples a second are not possible: -F takes 1 to %d", text,
                      RULE_MOST_RATE);
    parsing->frequency_given = true;
    parsing->options->period_ns = (uint64_t)((double)NS_PER_S / rate + 0.5);
    return PROCEED;
}

// A stack sample at every N-th call.
static int set_trigger(struct record_options *options, enum live_trigger trigger, const char *text)
{
    double period = 0;
    if (!parse_whole_number(text, &period) || period < 1 || period > 1e9)
        return MISUSE("'%s' is not a number of calls: give a whole number from 1 on, as calls:59",
                      text);
    options->trigger = trigger;
    options->call_period = (uint64_t)period;
    return PROCEED;
}

// A sample of blocks every so many bytes. Of 1 byte: all of them.
static int set_alloc_period(struct record_options *options, const char *text)
{
    double bytes = 0;
    if (!parse_size(text, &bytes) || bytes < 1 || bytes > RULE_MOST_ALLOC_PERIOD)
        return MISUSE("'%s' is no distance of samples: give 1 byte to 1G, as in alloc:512k; -e "
                      "alloc alone counts every block",
                      text);
    options->alloc_period = bytes > 1 ? (uint64_t)bytes : 0;
    return PROCEED;
}

// INTERVAL/LENGTH[,adaptive[:N]]
int set_burst(struct record_options *options, const char *text)
{
    char interval[32] = "", length[32] = "", kind[32] = "";
    double interval_ns = 0, length_ns = 0, one_in = 20;
    if (sscanf(text, "%31[^/]/%31[^,],%31s", interval, length, kind) >= 2) {
        interval_ns = parse_time(interval);
        length_ns = parse_time(length);
    }
    const char *rest = "";
    const bool adaptive = !strncmp(kind, "adaptive", 8);
    if (*kind &&
        (!adaptive || (kind[8] && (kind[8] != ':' || !parse_number(kind + 9, &one_in, &rest) ||
                                   *rest || one_in < 2 || one_in > 1e6))))
        return MISUSE("--burst %s: after the comma goes adaptive or adaptive:N, N from 2 on", text);
    if (length_ns < 1e5 || interval_ns <= length_ns || interval_ns > 1e11)
        return MISUSE(
            "--burst %s: give INTERVAL/LENGTH as in 20ms/2ms, a length of at least 100us and an "
            "interval that is longer",
            text);
    options->burst_interval_ns = (uint64_t)interval_ns;
    options->burst_length_ns = (uint64_t)length_ns;
    options->burst_one_in = adaptive ? (uint32_t)one_in : 0;
    return PROCEED;
}

int set_weights(struct parsing *parsing, const char *text)
{
    static const char *const names[] = {"last", "all-new", NULL};
    const int chosen = option_choice(&command_record, "--weights", text, names);
    if (chosen < 0)
        return STATUS_MISUSE;
    parsing->weights_given = true;
    parsing->options->weights_all_new = chosen == 1;
    return PROCEED;
}

const char *record_event_name(const struct record_options *options, unsigned event)
{
    const struct counter_choice *counter = record_counter(options, event);
    return counter ? counter->name : event_of(options->events[event])->name;
}

static int add_event(struct record_options *options, enum live_event event)
{
    if (event != LIVE_EVENT_COUNTER && record_has(options, event))
        return MISUSE("-e %s is given twice", event_of(event)->name);
    options->events[options->event_count++] = event;
    return PROCEED;
}

static int unknown_event(const char *text, int length)
{
    const char *names[LIVE_EVENTS + 3] = {"calls-by-function", "read", "write"};
    char name[64];
    snprintf(name, sizeof name, "%.*s", length, text);
    for (unsigned i = 0; i < LIVE_EVENT_COUNTER; i++) // the rest have names of their own
        names[i + 3] = event_of(i)->name;
    const char *instead = instead_of_event(name), *near = counter_name_near(name, names);
    if (instead)
        return MISUSE("there is no event '%s': %s; 'cairn list' shows all events", name, instead);
    if (near)
        return MISUSE("there is no event '%s': did you mean '%s'? 'cairn list' shows all events",
                      name, near);
    return MISUSE("there is no event '%s': 'cairn list' shows all events", name);
}

// The program causes it itself, and each one is counted.
static bool is_caused(enum live_event event)
{
    return event == LIVE_EVENT_ALLOC || event == LIVE_EVENT_IO || event == LIVE_EVENT_LOCK;
}

static int add_counter(struct record_options *options, const struct counter_choice *choice)
{
    for (unsigned i = 0; i < options->counter_count; i++)
        if (!strcmp(options->counters[i].name, choice->name))
            return MISUSE("-e %s is given twice", choice->name);
    if (options->counter_count == LIVE_COUNTERS)
        return MISUSE("-e %s is one too many: a recording has at most %d of perf's events",
                      choice->name, LIVE_COUNTERS);
    options->counters[options->counter_count++] = *choice;
    return add_event(options, LIVE_EVENT_COUNTER);
}

static int set_counter(struct record_options *options, const char *text)
{
    struct counter_choice choice;
    char *error = NULL;
    switch (counter_parse(text, &choice, &error)) {
    case COUNTER_FOUND:
        return add_counter(options, &choice);
    case COUNTER_WRONG:
        MISUSE("-e %s: %s", text, error);
        free(error);
        return STATUS_MISUSE;
    default:
        return unknown_event(text, (int)strcspn(text, ":"));
    }
}

// -e read, -e write: a part of -e io, and both together the whole.
static int set_io_part(struct record_options *options, enum live_io_part part, const char *name)
{
    if (options->io_part == part)
        return MISUSE("-e %s is given twice", name);
    if (record_has(options, LIVE_EVENT_IO) && options->io_part == LIVE_IO_ALL)
        return MISUSE("-e io has reads and writes: leave out -e %s", name);
    const bool both = options->io_part != LIVE_IO_ALL;
    options->io_part = both ? LIVE_IO_ALL : part;
    return both ? PROCEED : add_event(options, LIVE_EVENT_IO);
}

int set_event(struct parsing *parsing, const char *text)
{
    struct record_options *options = parsing->options;
    if (!strcmp(text, "read") || !strcmp(text, "write"))
        return set_io_part(options, *text == 'r' ? LIVE_IO_READS : LIVE_IO_WRITES, text);
    const size_t length = strcspn(text, ":");
    const bool by_function = !strncmp(text, "calls-by-function:", 18);
    if (by_function || !strncmp(text, "calls:", 6))
        return add_event(options, LIVE_EVENT_CALLS) != PROCEED
                   ? STATUS_MISUSE
                   : set_trigger(options, by_function ? LIVE_TRIGGER_BY_FUNCTION : LIVE_TRIGGER_ALL,
                                 text + (by_function ? 18 : 6));
    unsigned event = 0;
    while (event < LIVE_EVENT_COUNTER && (strlen(event_of(event)->name) != length ||
                                          strncmp(text, event_of(event)->name, length)))
        event++;
    if (!strcmp(text, "calls-by-function"))
        return MISUSE("-e calls-by-function needs a number of calls: calls-by-function:59 takes a "
                      "sample at every 59th call of a function");
    if (event == LIVE_EVENT_COUNTER)
        return set_counter(options, text);
    if (add_event(options, event) != PROCEED)
        return STATUS_MISUSE;
    if (!text[length])
        return PROCEED;
    if (event == LIVE_EVENT_OFFCPU)
        return MISUSE("-e offcpu takes no period: it has all waits, and a sample for each half "
                      "period of -F");
    if (event == LIVE_EVENT_ALLOC)
        return set_alloc_period(options, text + length + 1);
    if (is_caused(event))
        return MISUSE("-e %s counts every %s: it takes no period", event_of(event)->name,
                      event_of(event)->one);
    if (parsing->period_given && options->event_count > 1)
        return MISUSE("the period is given twice: cpu and wall have one clock and one period");
    return set_period(parsing, text + length + 1);
}

// Checks the options that go with the events that count calls.
static int combine_calls(const struct parsing *parsing)
{
    struct record_options *options = parsing->options;
    if (options->trigger) {
        if (parsing->tracker_given && options->tracker != LIVE_TRACKER_WALK)
            return MISUSE("-e calls:N takes stack samples: it goes with --track walk");
        enum live_event caused = LIVE_EVENTS;
        for (unsigned event = 0; event < LIVE_EVENTS; event++)
            if (is_caused(event) && record_has(options, event))
                caused = event;
        if (caused < LIVE_EVENTS)
            return MISUSE("-e calls:N and -e %s each walk the stack by themselves: use -e calls "
                          "-e %s, which counts every call",
                          event_of(caused)->name, event_of(caused)->name);
        return options->burst_interval_ns ? MISUSE("--burst goes with -e calls, not with calls:N")
                                          : PROCEED;
    }
    if (parsing->tracker_given && options->tracker != LIVE_TRACKER_CALLS)
        return MISUSE("-e calls counts calls as they are followed: it goes with --track calls");
    options->tracker = LIVE_TRACKER_CALLS;
    if (options->burst_interval_ns)
        options->period_ns = options->burst_interval_ns; // of the clock that begins bursts
    return PROCEED;
}

// A delay and a duration, which hooks are switched by, if calls are followed.
static int combine_window(struct record_options *options)
{
    const char *name = options->delay_ns ? "delay" : "duration";
    if (options->trigger)
        return MISUSE("--%s goes with -e calls, not with calls:N", name);
    if (options->tracker != LIVE_TRACKER_CALLS)
        return PROCEED;
    if (options->burst_interval_ns)
        return MISUSE("--%s and --burst exclude each other", name);
    if (options->calls_by != LIVE_BY_ENTRIES)
        return MISUSE("--%s goes with programs built with 'cairn cc', not with --calls-by", name);
    options->calls_window = true;
    return PROCEED;
}

// The event that trees are made for: that of a clock, if there is one; the others lie beside it.
// Calls lie in frames, where there is always a place for them.
static void choose_main_event(struct record_options *options)
{
    static const enum live_event order[] = {LIVE_EVENT_CPU,    LIVE_EVENT_WALL,  LIVE_EVENT_COUNTER,
                                            LIVE_EVENT_OFFCPU, LIVE_EVENT_ALLOC, LIVE_EVENT_IO,
                                            LIVE_EVENT_LOCK,   LIVE_EVENT_CALLS};
    unsigned first = 0;
    while (!record_has(options, order[first]))
        first++;
    options->event = order[first];
    options->event_name = options->event == LIVE_EVENT_COUNTER ? options->counters[0].name
                                                               : event_of(options->event)->name;
    for (unsigned i = first + 1; i < sizeof order / sizeof *order; i++)
        if (record_has(options, order[i]))
            options->also |= UINT32_C(1) << order[i];
}

// Counters without a period have the rate of the clock.
static void set_rates(struct record_options *options)
{
    for (unsigned i = 0; i < options->counter_count; i++) {
        struct live_counter *counter = &options->counters[i].counter;
        if (counter->period)
            continue;
        counter->is_rate = 1;
        counter->period = (NS_PER_S + options->period_ns / 2) / options->period_ns;
    }
}

// Whether there is a counter that -F is for.
static bool has_rate(const struct record_options *options)
{
    for (unsigned i = 0; i < options->counter_count; i++)
        if (options->counters[i].counter.is_rate)
            return true;
    return false;
}

int combine_events(struct parsing *parsing)
{
    struct record_options *options = parsing->options;
    if (parsing->frequency_given && parsing->period_given)
        return MISUSE("-F and a period exclude each other: give one of them");
    if (options->event_count == 0)
        add_event(options,
                  options->tracker == LIVE_TRACKER_CALLS ? LIVE_EVENT_CALLS : LIVE_EVENT_CPU);
    choose_main_event(options);
    set_rates(options);
    const bool is_timed = event_of(options->event)->by_clock || has_rate(options) ||
                          options->event == LIVE_EVENT_OFFCPU;
    if (parsing->frequency_given && !is_timed && options->event == LIVE_EVENT_COUNTER)
        return MISUSE("-F and a period exclude each other: give one of them");
    if ((parsing->frequency_given || parsing->period_given) && !is_timed)
        return MISUSE("%s goes with events that are sampled by time; -e %s counts every %s",
                      parsing->frequency_given ? "-F" : "a period", options->event_name,
                      event_of(options->event)->one);
    if ((parsing->weights_given || options->randomised) && !options->trigger)
        return MISUSE("--%s goes with samples at calls: -e calls:N",
                      parsing->weights_given ? "weights" : "random-periods");
    if (options->burst_interval_ns && options->event != LIVE_EVENT_CALLS)
        return MISUSE("--burst goes with -e calls alone: it says when calls are followed");
    if (record_has(options, LIVE_EVENT_CALLS) && combine_calls(parsing) != PROCEED)
        return STATUS_MISUSE;
    if (options->fold_recursion && options->tracker != LIVE_TRACKER_CALLS)
        return MISUSE("--fold-recursion goes with --track calls; of other profiles, 'cairn report "
                      "--fold-recursion' folds it");
    return options->delay_ns || options->duration_ns ? combine_window(options) : PROCEED;
}
