// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_CALLS_BURSTS_BURST_PACE_H
#define CAIRN_TRACK_CALLS_BURSTS_BURST_PACE_H

// The course of a burst in one thread, and the weight of each call that is followed there.
//
// Following slows code that calls a lot more than code that calls seldom: of 2 ms in which calls
// are followed, the first gets a quarter of its work done, the other nearly all. And it slows code
// whose contexts are new a hundred times more than code that goes around in a few. Counted as they
// come, calls of some would be too few. The measure is *native* time: the time that the same work
// takes if nobody follows it. It cannot be measured while calls are followed. So a burst follows a
// number of calls, which does not depend on the time that following takes:
//
//   entries off │ calls pass          │ calls are followed       │ entries off
//   ────────────┴───────┬─────────────┴──────────────────────────┴─────────► CPU time
//               a tick  T             the window opens           so many calls
//
// While calls *pass*, relays count them, which takes next to nothing. At every so many the time is
// noted, which makes *laps* of the same number of calls. T is a moment that has nothing to do with
// what the program does: it comes so much native time after the tick. The window opens at the end
// of one of the next LAPS laps, by chance. So a window opens at the end of a lap if T was within
// the LAPS laps before, which is the more probable the longer these took, all of them while calls
// passed. A call is within a window if that opened at one of so many laps before it. So it counts
// for the time since the last burst, over that of as many calls at the speed of these laps.
//
// Where fewer calls pass until the next tick than make these laps, following hardly slows them.
// There the window opens at that tick, and is a span of time. If they have not been made when T
// comes, but then, the tick is T. For the sake of what lies between, all windows are both:
// each call fills them by a step, which is much more than what following adds, and so does the time
// beside calls.
//
// The weight of a call is the same as long as the window is open. The length of a window does not
// depend on the code where it opens. Time that a burst stands for too little or too much is *owed*
// by the next one, so that in the end all time is accounted for once.
//
// A relay counts down, in a cell of the thread. Below nought, it lets calls through to the hook.
//
//   0 and more   calls pass, until it is used up
//   negative     calls are followed; at the lowest number of all, a slice is used up
//
// The state is the thread's alone: its ticks and hooks come here, one at a time. Signal-safe.

#include <stdbool.h>
#include <stdint.h>

#define PACE_ARMED 0        // the next call of a burst joins it
#define PACE_PASS INT64_MAX // this thread has done its part

#define PACE_LAPS 16
#define PACE_KEPT_LAPS 32

struct pace_options {
    uint64_t interval_ns, length_ns; // of a burst, followed
    uint64_t passing_ps;             // added to a call by a counting relay
    uint64_t turning_ns;             // the time to get here by a call
    uint64_t tick_ps;                // 1024 ticks of the clock of laps
};

struct pace_lap {
    uint64_t end;    // in ticks
    uint64_t passed; // calls, with it
};

// LEADING: laps are counted down to the one that the window opens after.
enum pace_state { PACE_RESTING, PACE_PASSING, PACE_LEADING, PACE_FOLLOWING };

// Times are the thread's CPU time, in nanoseconds if nothing else is said.
struct pace {
    enum pace_state state;
    uint32_t burst;                      // the last one that the thread took part in
    uint32_t begun;                      // the last one that it has begun
    uint32_t learnt;                     // how often following_ps was
    uint64_t since;                      // when the state, or the slice, began
    uint64_t accounted;                  // all time before is accounted for,
    int64_t owed;                        // but this; negative: too much is
    uint64_t lost;                       // time since then that was not the program's
    uint64_t next;                       // when it is time for a burst
    uint64_t alarm;                      // until the clock ticks then; 0: that is not known
    uint64_t due_tick;                   // when the clock ticks next while calls are followed
    uint64_t lap_calls;                  // in a lap
    uint64_t laps;                       // that have passed
    uint64_t lap_ticked;                 // the one in which the clock ticked
    bool ticked;                         // it did
    uint64_t to_moment;                  // that is left until T: native ticks
    uint64_t call_ticks;                 // added to a call by a relay: parts of 1024
    uint64_t lap_end_ticks;              // and telling of a lap to that
    uint64_t lap_left;                   // until the window opens
    struct pace_lap lap[PACE_KEPT_LAPS]; // the last ones
    uint64_t first_lap_end;
    uint64_t passed; // calls, in whole laps
    uint64_t chance;
    uint64_t before_ps;    // native time between calls, when they passed; 0: not known
    uint64_t following_ps; // added to a call by following
    uint64_t between_ps;   // native time between calls, over some bursts
    uint64_t due, window;  // of this burst: the time that it stands for, and what is looked at
    uint64_t seen;         // of the window
    uint64_t calls, spent; // that were followed, and the time it took
    uint64_t slice;        // calls
    uint64_t step_ps;      // of the window, by a call
    uint64_t rate;         // of the window, by native time: parts of 1024
    uint64_t factor;       // adaptive bursts: all calls count so often
    uint64_t share;        // the weight of a call, without the factor
    uint64_t amount;       // and with it
};

// A thread begins to run now, so long after the last burst: the next one comes when that has become
// the interval.
void pace_open(struct pace *pace, uint64_t interval_ns, uint64_t owed_ns, uint64_t now);

// The time that no call stands for yet.
uint64_t pace_owed(const struct pace *pace, uint64_t now);

// No burst is running: settles one that was cut short, and makes the cell ready for the next.
void pace_rest(struct pace *pace, uint64_t now, int64_t *cell);

// A burst was let pass: the time up to now is accounted for.
void pace_skip(struct pace *pace, uint64_t now);

// The thread begins a burst. When its clock is to tick.
uint64_t pace_begin(struct pace *pace, const struct pace_options *options, uint32_t burst,
                    uint64_t now, int64_t *cell);

// The relay has let a call through while others pass: a lap has ended. False if it is the last one:
// pace_meet() is next. The cell may be changed by a tick meanwhile.
bool pace_lap(struct pace *pace, uint64_t ticks, int64_t *cell);

// The relay has let a call through, and the thread has not been following. True if it follows from
// this call on. Else it does not count; the thread has done its part if it is RESTING.
bool pace_meet(struct pace *pace, const struct pace_options *options, uint32_t burst, uint64_t now,
               int64_t *cell);

// The thread follows now: the time to get there was not the program's.
void pace_follow(struct pace *pace, uint64_t now);

// A slice is used up. True if there is another, and this call is its first.
bool pace_turn(struct pace *pace, const struct pace_options *options, uint64_t now, int64_t *cell);

// The clock ticks in a burst that the thread takes part in. When to tick again; 0: the thread has
// done its part.
uint64_t pace_tick(struct pace *pace, const struct pace_options *options, uint64_t now,
                   int64_t *cell);

#endif
