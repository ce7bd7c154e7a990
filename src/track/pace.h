// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_PACE_H
#define CAIRN_TRACK_PACE_H

// What a thread does in a burst, and how much each call that it follows there stands for.
//
// Following slows code that calls a lot more than code that calls seldom: of 2 ms in which calls
// are followed, the first gets a quarter of its work done, the other nearly all. Counted as they
// come, calls of the first would be too few. What counts is *native* time, in which the program
// would have done the same if nobody had followed it. A burst sees a *window* of that, and stands
// for all CPU time since the last one: so a call counts for the quotient of the two.
//
//   entries off │ calls pass │ calls are followed       │ calls pass │ entries off
//   ────────────┴────────────┴──────────────────────────┴────────────┴─────────► CPU time
//               a tick       a tick, the window opens   it is full
//
// While calls *pass*, relays count them, which takes next to nothing: that tells how often the
// program calls by itself. Compared with how often it does while it is followed, that is what
// following adds to a call. Native time is time less that, for each call that was followed; when so
// much of it has passed, the window is full.
//
// Three things keep the sums right. What a call counts for is chosen before the window opens, and
// is the same until it is full. The window opens when the clock ticks, and not when something is
// called: else the first calls after a stretch without any would be seen too often. And it is about
// as long from burst to burst, whatever the code where it opens: if windows that begin in some code
// were shorter, what comes after that would be seen less often.
//
// Windows are not filled exactly. What a burst stands for too little or too much is *owed* by the
// next one, so that in the end all time is accounted for once.
//
// A relay counts down, in a cell of the thread. Below nought, it lets calls through to the hook.
//
//   0 and more   calls pass, until it is used up
//   negative     calls are followed; at the lowest number of all, a slice is used up
//
// No state here is anybody else's: ticks and hooks of the thread alone come here, one at a time.
// Signal-safe.

#include <stdbool.h>
#include <stdint.h>

#define PACE_ARMED 0        // the next call of a burst joins it
#define PACE_PASS INT64_MAX // this thread has done its part

struct pace_options {
    uint64_t interval_ns, length_ns; // of a burst, followed
    uint64_t passing_ps;             // what a relay that counts adds to a call
    uint64_t turning_ns;             // what it takes to get here by a call
};

enum pace_state { PACE_RESTING, PACE_PASSING, PACE_FOLLOWING, PACE_CHECKING };

// Times are the thread's CPU time, in nanoseconds if nothing else is said.
struct pace {
    enum pace_state state;
    uint32_t burst;        // the last one that the thread took part in
    uint32_t begun;        // the last one that it has begun
    uint32_t learnt;       // how often following_ps was
    uint64_t since;        // when the state, or the slice, began
    uint64_t accounted;    // all time before is accounted for,
    int64_t owed;          // but this; negative: too much is
    uint64_t lost;         // time since then that was not the program's
    uint64_t next;         // when it is time for a burst
    uint64_t passing;      // calls that pass, at the begin of the state
    uint64_t alarm;        // until the clock ticks then; 0: that is not known
    uint64_t due_tick;     // when the clock ticks next while calls are followed
    uint64_t before_ps;    // native time between calls, when they passed; 0: not known
    uint64_t following_ps; // what following adds to a call
    uint64_t slowness;     // what it adds to native time: parts of 1024, over some bursts
    uint64_t due, window;  // of this burst: the time that it stands for, and the native time
    uint64_t seen;         // of the window
    uint64_t calls, spent; // that were followed, and the time it took
    uint64_t slice, took;  // calls, and the time of them when they are through
    uint64_t factor;       // adaptive bursts: all calls count so often
    uint64_t share;        // what a call counts for, without the factor
    uint64_t amount;       // and with it
};

// A thread begins to run now.
void pace_open(struct pace *pace, uint64_t now);

// The time that no call stands for yet.
uint64_t pace_owed(const struct pace *pace, uint64_t now);

// No burst is running: what was cut short is settled, and the cell made ready for the next.
void pace_rest(struct pace *pace, uint64_t now, int64_t *cell);

// A burst was let pass: the time up to now is accounted for.
void pace_skip(struct pace *pace, uint64_t now);

// The thread begins a burst. When its clock is to tick.
uint64_t pace_begin(struct pace *pace, const struct pace_options *options, uint32_t burst,
                    uint64_t now, int64_t *cell);

// The relay has let a call through, and the thread has not been following. True if it follows from
// this call on. Else it counts for nobody; the thread has done its part if it is RESTING.
bool pace_meet(struct pace *pace, const struct pace_options *options, uint32_t burst, uint64_t now,
               int64_t *cell);

// The thread follows now: what it took to get there was not the program's.
void pace_follow(struct pace *pace, uint64_t now);

// A slice is used up. True if there is another, and this call is its first.
bool pace_turn(struct pace *pace, const struct pace_options *options, uint64_t now, int64_t *cell);

// The clock ticks in a burst that the thread takes part in. When to tick again; 0: the thread has
// done its part.
uint64_t pace_tick(struct pace *pace, const struct pace_options *options, uint64_t now,
                   int64_t *cell);

#endif
