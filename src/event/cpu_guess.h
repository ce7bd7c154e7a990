// SPDX-License-Identifier: MIT
#ifndef CAIRN_EVENT_CPU_GUESS_H
#define CAIRN_EVENT_CPU_GUESS_H

// The CPU time of a thread at its ticks, mostly without asking the kernel: that is the most
// expensive part of a sample, since its path is never in the cache. All of it is signal-safe.
//
// Between two ticks that came when they were due lies a period of the thread's CPU time. If hardly
// more has passed by the wall clock, the thread was on the CPU all that time; if more has, it was
// not, and the period is what it had. A tick that came late (the thread was in a system call, and
// the tick had to wait for its end) allows no such guess, and neither does the next one.
//
// The wall clock may still be ahead: a host takes the processor away from a virtual machine, whose
// kernel charges that to no thread. So the kernel is still asked every so often. Where guesses were
// too high, it is asked until the true clock has caught up: that time is charged already.

#include <stdbool.h>
#include <stdint.h>

#define CPU_GUESSES 31            // in a row
#define CPU_GUESS_ASK INT64_C(-1) // no guess: the kernel must be asked

struct cpu_guess {
    uint64_t last_wall; // the time of day at the last tick; 0: it was none of this clock's
    uint32_t in_a_row;  // ticks since the kernel was asked
    uint32_t was_late;  // the last tick had to wait
};

// The next tick asks: more, or less, than what a tick stands for lies before it.
static inline void cpu_guess_ask_next(struct cpu_guess *guess)
{
    guess->in_a_row = CPU_GUESSES;
}

// The CPU time since the last tick, or CPU_GUESS_ASK. `by_cpu`: ticks are a period of it apart.
static inline int64_t cpu_guess_passed(struct cpu_guess *guess, uint64_t wall, uint64_t period,
                                       bool late, bool by_cpu)
{
    const uint64_t passed = wall - guess->last_wall;
    const bool at_once = passed < period + period / 64 && !guess->was_late;
    const bool on_time = !late && !guess->was_late && by_cpu;
    guess->last_wall = wall;
    guess->was_late = late;
    if ((!at_once && !on_time) || guess->in_a_row >= CPU_GUESSES) {
        guess->in_a_row = 0;
        return CPU_GUESS_ASK;
    }
    guess->in_a_row++;
    return (int64_t)(at_once ? passed : period);
}

// The clock's value to use: not below `last`, up to which time is charged.
static inline uint64_t cpu_guess_settle(struct cpu_guess *guess, uint64_t now, uint64_t last)
{
    if ((int64_t)(now - last) >= 0)
        return now;
    cpu_guess_ask_next(guess);
    return last;
}

#endif
