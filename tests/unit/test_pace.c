// SPDX-License-Identifier: MIT
// Bursts of a program that is made up, with a clock that is made up: what its calls count for must
// come out as the number of calls that it makes, whatever following costs, in all of its phases.

#include "track/calls/bursts/burst_pace.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define PHASES_MOST 3
#define PASSING_PS 1000
#define WALK_NS 3000 // from a call that is let through to when it is followed
#define TURN_NS 1000 // to get to the hook and back
#define TICK_NS 5000 // what a tick costs
#define LAP_NS 15    // to tell of a lap
#define TICK_PS 400  // of the clock that laps are told by

// A stretch of code that calls every so often; 0: never.
struct phase {
    uint64_t each_ps, following_ps, native_ns;
};

struct machine {
    const struct phase *phases;
    unsigned count, phase;
    uint64_t left_ps;  // of the phase, native
    uint64_t call_ps;  // to the next call, native
    uint64_t clock_ps; // CPU time
    uint64_t alarm_ps;
    uint64_t end_ps;    // of the run; 0: who steps looks to that
    uint64_t others_ps; // have the processor for so long, now and then
    uint64_t away_ps;   // all of it, which is not CPU time
    uint64_t random;
    struct pace pace;
    struct pace_options options;
    int64_t cell;
    uint32_t burst;
    bool on;
    uint64_t calls[PHASES_MOST];    // that were made
    uint64_t estimate[PHASES_MOST]; // by bursts
};

static uint64_t now(const struct machine *machine)
{
    return machine->clock_ps / 1000;
}

static void enter_phase(struct machine *machine, unsigned phase)
{
    machine->phase = phase % machine->count;
    const struct phase *entered = &machine->phases[machine->phase];
    machine->left_ps = entered->native_ns * 1000;
    machine->call_ps = entered->each_ps ? entered->each_ps : UINT64_MAX;
}

static uint64_t next_random(struct machine *machine, uint64_t bound)
{
    machine->random = machine->random * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (machine->random >> 33) % bound;
}

static uint64_t next_interval(struct machine *machine)
{
    const uint64_t interval = machine->options.interval_ns;
    return interval - interval / 4 + next_random(machine, interval / 2);
}

static void tick(struct machine *machine)
{
    struct pace *pace = &machine->pace;
    machine->clock_ps += TICK_NS * 1000;
    uint64_t wait = 0;
    if (machine->on)
        wait = pace_tick(pace, &machine->options, now(machine), &machine->cell);
    machine->on = wait != 0;
    if (!machine->on)
        pace_rest(pace, now(machine), &machine->cell);
    if (!machine->on && now(machine) < pace->next)
        wait = pace->next - now(machine);
    if (!wait) {
        machine->on = true;
        pace->next = now(machine) + next_interval(machine);
        wait = pace_begin(pace, &machine->options, ++machine->burst, now(machine), &machine->cell);
    }
    machine->alarm_ps = machine->clock_ps + wait * 1000;
}

static void hook(struct machine *machine)
{
    machine->clock_ps += machine->phases[machine->phase].following_ps;
    machine->estimate[machine->phase] += machine->pace.amount;
}

// What relays and hooks do.
static void call(struct machine *machine)
{
    machine->calls[machine->phase]++;
    if (!machine->on)
        return;
    struct pace *pace = &machine->pace;
    machine->clock_ps += PASSING_PS;
    const bool used_up = machine->cell == INT64_MIN;
    machine->cell = used_up ? INT64_MAX : machine->cell - 1;
    if (used_up)
        machine->clock_ps += TURN_NS * 1000;
    if (used_up) {
        if (pace_turn(pace, &machine->options, now(machine), &machine->cell))
            hook(machine);
    } else if (machine->cell < 0 && pace->state != PACE_FOLLOWING) {
        const bool passes = pace->burst == machine->burst && pace->state != PACE_RESTING;
        machine->clock_ps += LAP_NS * 1000;
        if (machine->others_ps && next_random(machine, 16) == 0)
            machine->away_ps += machine->others_ps;
        const uint64_t ticks = (machine->clock_ps + machine->away_ps) / TICK_PS;
        if (passes && pace_lap(pace, ticks, &machine->cell))
            return;
        machine->clock_ps += TURN_NS * 1000;
        if (pace_meet(pace, &machine->options, machine->burst, now(machine), &machine->cell)) {
            machine->clock_ps += WALK_NS * 1000;
            pace_follow(pace, now(machine));
            hook(machine);
        }
    } else if (machine->cell < 0) {
        hook(machine);
    }
    machine->on = pace->state != PACE_RESTING;
}

// Native time up to the next thing that happens, whatever that is.
static void step(struct machine *machine)
{
    const uint64_t alarm_ps =
        machine->alarm_ps > machine->clock_ps ? machine->alarm_ps - machine->clock_ps : 0;
    uint64_t span = machine->left_ps < alarm_ps ? machine->left_ps : alarm_ps;
    if (machine->end_ps > machine->clock_ps && machine->end_ps - machine->clock_ps < span)
        span = machine->end_ps - machine->clock_ps;
    if (!machine->on && machine->call_ps != UINT64_MAX) { // nobody looks at these
        const uint64_t each = machine->phases[machine->phase].each_ps, calls = span / each;
        machine->calls[machine->phase] += calls;
        machine->clock_ps += calls * each;
        machine->left_ps -= calls * each;
        span -= calls * each;
    }
    if (span > machine->call_ps)
        span = machine->call_ps;
    machine->clock_ps += span;
    machine->left_ps -= span;
    if (machine->call_ps != UINT64_MAX)
        machine->call_ps -= span;
    if (!machine->call_ps) {
        machine->call_ps = machine->phases[machine->phase].each_ps;
        call(machine);
    }
    if (!machine->left_ps)
        enter_phase(machine, machine->phase + 1);
    if (machine->alarm_ps <= machine->clock_ps)
        tick(machine);
}

// As if it had begun somewhere between two bursts.
static void start(struct machine *machine)
{
    const uint64_t interval = next_interval(machine), owed = next_random(machine, interval);
    enter_phase(machine, 0);
    pace_open(&machine->pace, interval, owed, now(machine));
    machine->alarm_ps = machine->pace.next * 1000;
    machine->on = false;
}

static void run(struct machine *machine, uint64_t interval_ns, uint64_t length_ns, uint64_t run_ns)
{
    machine->options = (struct pace_options){.interval_ns = interval_ns,
                                             .length_ns = length_ns,
                                             .passing_ps = PASSING_PS,
                                             .turning_ns = TURN_NS,
                                             .tick_ps = TICK_PS * 1024};
    machine->random = 42;
    start(machine);
    while (machine->clock_ps < run_ns * 1000)
        step(machine);
}

// Each within so many percent of the truth.
static void assert_near(const struct machine *machine, uint64_t percent)
{
    for (unsigned i = 0; i < machine->count; i++) {
        const uint64_t truth = machine->calls[i], estimate = machine->estimate[i];
        if (estimate * 100 < truth * (100 - percent) || estimate * 100 > truth * (100 + percent))
            fail_msg("phase %u: %lu calls, estimated %lu", i, truth, estimate);
    }
}

static void test_one_phase(void **state)
{
    (void)state;
    const struct phase phases[] = {{2000, 6000, 1000000}};
    struct machine machine = {.phases = phases, .count = 1};
    run(&machine, 2000000, 200000, 400000000);
    assert_near(&machine, 5);
}

// In which others have the processor now and then: the clock that times laps goes on.
static void test_others_on_the_processor(void **state)
{
    (void)state;
    const struct phase phases[] = {{5000, 6000, 1000000}, {15000, 6000, 1000000}};
    struct machine machine = {.phases = phases, .count = 2, .others_ps = UINT64_C(3000000000)};
    run(&machine, 2000000, 200000, 4000000000);
    assert_true(machine.away_ps > 0);
    assert_near(&machine, 10);
}

// Followed, the first takes four times as long, the second is hardly slowed.
static void test_long_phases(void **state)
{
    (void)state;
    const struct phase phases[] = {{2000, 6000, 50000000}, {1000000, 6000, 50000000}};
    struct machine machine = {.phases = phases, .count = 2};
    run(&machine, 2000000, 200000, 2000000000);
    assert_near(&machine, 10);
}

// As long as bursts.
static void test_short_phases(void **state)
{
    (void)state;
    const struct phase phases[] = {{3000, 5000, 230000}, {40000, 5000, 310000}};
    struct machine machine = {.phases = phases, .count = 2};
    run(&machine, 2000000, 200000, 3000000000);
    assert_near(&machine, 15);
}

// Where calls are dear to follow, as in code whose contexts are new.
static void test_costs_that_differ(void **state)
{
    (void)state;
    const struct phase phases[] = {{5000, 3000, 40000000}, {5000, 15000, 40000000}};
    struct machine machine = {.phases = phases, .count = 2};
    run(&machine, 2000000, 200000, 2000000000);
    assert_near(&machine, 10);
}

// The same where one comes right after the other: what following adds is neither what it was before
// the window opened nor what it is after that, and as different as in a program some of whose
// contexts are new and others not.
static void test_costs_that_change(void **state)
{
    (void)state;
    const struct phase phases[] = {
        {3000, 4000, 300000}, {13000, 150000, 500000}, {30000, 60000, 200000}};
    struct machine machine = {.phases = phases, .count = 3};
    run(&machine, 20000000, 2000000, UINT64_C(20000000000));
    assert_near(&machine, 10);
}

// Calls that are seldom take a quarter more or less, now and then: that is not what following adds.
// If it were taken for that, windows that open in the other phase would have few calls, each of
// which counted for far too many of this one when they reach into it.
static void test_noise_of_seldom_calls(void **state)
{
    (void)state;
    const struct phase phases[] = {{4000, 20000, 40000000}, {800000, 200000, 40000000}};
    struct machine machine = {.phases = phases, .count = 2};
    run(&machine, 5000000, 500000, 600000000);
    while (machine.phase == 0)
        step(&machine);
    while (machine.phase == 1) // to the end of it
        step(&machine);
    assert_in_range(machine.pace.following_ps, 15000, 30000);
    assert_near(&machine, 30);
}

// What was so dear to follow that windows had few calls becomes cheap, and windows large again.
static void test_costs_that_fall(void **state)
{
    (void)state;
    const struct phase phases[] = {{10000, 1000000, 40000000}, {10000, 20000, 400000000}};
    struct machine machine = {.phases = phases, .count = 2};
    run(&machine, 5000000, 500000, 80000000);
    assert_int_equal(machine.phase, 1);
    while (machine.phase == 1)
        step(&machine);
    assert_in_range(machine.pace.following_ps, 10000, 40000);
    assert_near(&machine, 15);
}

// What comes after a stretch without calls is not seen too often.
static void test_contexts_after_a_silence_are_not_seen_too_often(void **state)
{
    (void)state;
    const struct phase phases[] = {{20000, 5000, 1100000}, {0, 0, 2900000}, {5000, 5000, 1700000}};
    struct machine machine = {.phases = phases, .count = 3};
    run(&machine, 2000000, 200000, 4000000000);
    assert_near(&machine, 15);
}

// What comes first, in a program that runs for less than an interval, is met seldom: then it counts
// for all that it was not met.
static void test_short_runs(void **state)
{
    (void)state;
    const struct phase phases[] = {
        {4000, 5000, 700000}, {4000, 5000, 600000}, {4000, 5000, UINT64_MAX / 2000}};
    struct machine machine = {.phases = phases, .count = 3};
    machine.options = (struct pace_options){.interval_ns = 2000000,
                                            .length_ns = 200000,
                                            .passing_ps = PASSING_PS,
                                            .turning_ns = TURN_NS,
                                            .tick_ps = TICK_PS * 1024};
    machine.random = 42;
    for (unsigned i = 0; i < 2000; i++) {
        start(&machine);
        machine.end_ps = machine.clock_ps + UINT64_C(5000000000);
        while (machine.clock_ps < machine.end_ps)
            step(&machine);
    }
    assert_near(&machine, 15);
}

// Another thread ends bursts whenever it likes: what was not followed is made up for by the next.
static void test_bursts_that_are_cut_short(void **state)
{
    (void)state;
    const struct phase phases[] = {{2000, 6000, 1000000}};
    struct machine machine = {.phases = phases, .count = 1};
    machine.options = (struct pace_options){.interval_ns = 2000000,
                                            .length_ns = 200000,
                                            .passing_ps = PASSING_PS,
                                            .turning_ns = TURN_NS,
                                            .tick_ps = TICK_PS * 1024};
    machine.random = 7;
    enter_phase(&machine, 0);
    pace_open(&machine.pace, 2000000, 0, 0);
    machine.alarm_ps = 1000000000;
    for (uint64_t end_ps = 0; end_ps < UINT64_C(400000000000);) {
        // It joins a burst that another has begun: the next call is let through.
        machine.on = true;
        machine.burst++;
        end_ps = machine.clock_ps + next_interval(&machine) * 100;
        while (machine.clock_ps < end_ps)
            step(&machine);
        machine.on = false;
        machine.alarm_ps = UINT64_MAX;
        end_ps = machine.clock_ps + next_interval(&machine) * 1000;
        while (machine.clock_ps < end_ps)
            step(&machine);
        pace_rest(&machine.pace, now(&machine), &machine.cell);
    }
    assert_near(&machine, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_phase),
        cmocka_unit_test(test_others_on_the_processor),
        cmocka_unit_test(test_long_phases),
        cmocka_unit_test(test_short_phases),
        cmocka_unit_test(test_costs_that_differ),
        cmocka_unit_test(test_costs_that_change),
        cmocka_unit_test(test_noise_of_seldom_calls),
        cmocka_unit_test(test_costs_that_fall),
        cmocka_unit_test(test_contexts_after_a_silence_are_not_seen_too_often),
        cmocka_unit_test(test_short_runs),
        cmocka_unit_test(test_bursts_that_are_cut_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
