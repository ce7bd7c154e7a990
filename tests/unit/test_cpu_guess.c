// SPDX-License-Identifier: MIT
// A thread that is made up, with a clock that is made up: what its ticks charge must come out as
// the CPU time that it has had, whoever else has the processor, and the kernel is seldom asked.

#include "../random.h"
#include "event/cpu_guess.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define PERIOD 1000000u
#define TICKS 2000u

// What happens between two ticks that are due, in nanoseconds.
struct life {
    uint64_t away;    // the thread waits, or another one runs: at most so long, any time
    uint64_t stolen;  // the host takes the processor: the clock of ticks runs on, that of CPU time
                      // does not
    uint64_t in_call; // a system call is under way: the tick waits for its end, at most so long
};

struct outcome {
    uint64_t cpu, charged, most_ahead;
    unsigned asked;
};

static uint64_t up_to(uint64_t most)
{
    return most ? next_random() % (most + 1) : 0;
}

// Ticks are due when another period has passed on the CPU. What runs before a late one is charged
// with it.
static struct outcome run(const struct life *life)
{
    struct cpu_guess guess = {0};
    struct outcome outcome = {0};
    uint64_t wall = UINT64_C(1) << 40, late_by = 0;
    for (unsigned tick = 0; tick < TICKS; tick++) {
        const uint64_t late = up_to(life->in_call);
        const uint64_t on_cpu = PERIOD - late_by + late;
        wall += on_cpu + up_to(life->away);
        outcome.cpu += on_cpu - life->stolen;
        late_by = late;
        const int64_t passed = cpu_guess_passed(&guess, wall, PERIOD, late > 0, true);
        outcome.asked += passed == CPU_GUESS_ASK;
        const uint64_t now =
            passed == CPU_GUESS_ASK ? outcome.cpu : outcome.charged + (uint64_t)passed;
        outcome.charged = cpu_guess_settle(&guess, now, outcome.charged);
        if (outcome.charged > outcome.cpu && outcome.charged - outcome.cpu > outcome.most_ahead)
            outcome.most_ahead = outcome.charged - outcome.cpu;
    }
    return outcome;
}

static void assert_within(const struct outcome *outcome, uint64_t ns)
{
    const int64_t error = (int64_t)(outcome->charged - outcome->cpu);
    assert_in_range((uint64_t)(error < 0 ? -error : error), 0, ns);
    assert_in_range(outcome->most_ahead, 0, ns);
}

static void alone_it_is_exact_and_seldom_asked(void **state)
{
    (void)state;
    const struct outcome outcome = run(&(struct life){0});
    assert_within(&outcome, 0);
    assert_in_range(outcome.asked, 1, TICKS / CPU_GUESSES + 2);
}

static void time_away_from_the_processor_does_not_count(void **state)
{
    (void)state;
    const struct outcome outcome = run(&(struct life){.away = 5 * PERIOD});
    assert_within(&outcome, PERIOD / 2); // up to a 64th of a period may seem to be on the CPU
    assert_in_range(outcome.asked, 1, TICKS / CPU_GUESSES + 2);
}

// Guesses are too high all the time, and what one question finds out must be made good before the
// next guess.
static void what_the_host_takes_does_not_add_up(void **state)
{
    (void)state;
    for (uint64_t share = 1; share <= 40; share += 3) {
        const uint64_t stolen = PERIOD * share / 100;
        const struct outcome outcome = run(&(struct life){.stolen = stolen});
        assert_within(&outcome, (CPU_GUESSES + 1) * stolen);
    }
}

// A tick that was late makes room for a moment away that the wall clock does not show.
static void moments_away_do_not_hide_behind_late_ticks(void **state)
{
    (void)state;
    const struct outcome outcome = run(&(struct life){.in_call = PERIOD / 2, .away = PERIOD / 2});
    assert_within(&outcome, PERIOD / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alone_it_is_exact_and_seldom_asked),
        cmocka_unit_test(time_away_from_the_processor_does_not_count),
        cmocka_unit_test(what_the_host_takes_does_not_add_up),
        cmocka_unit_test(moments_away_do_not_hide_behind_late_ticks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
