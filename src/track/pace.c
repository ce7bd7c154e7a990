// SPDX-License-Identifier: MIT
#include "track/pace.h"

#define PASSING_PART 8 // of a burst's length, calls pass before its window opens
#define SLICES 4       // of a window
#define LIGHT_NS 2400  // of an interval, a call passes after a slice
#define LEAST_LIGHT 256
#define MOST_LIGHT (1 << 17)
#define LEAST_SLICE 256
#define ADDED_PART 4            // of a burst's length, following may add to the program's time
#define LONGEST 3               // lengths of a burst it may take to fill a window
#define FIRST_FOLLOWING_PS 5000 // a guess, until it is known
#define LEAST_FOLLOWING_PS 500
#define MOST_FOLLOWING_PS 1000000
#define SELDOM 8 // who takes so many times that between calls is hardly slowed: it tells nothing
#define FEW_LESSONS 6
#define MOST_SLOWNESS (16 * 1024)
#define MOST_NS (UINT64_C(1) << 40)  // products with numbers of calls fit
#define UNCOUNTED (INT64_C(1) << 40) // more calls than pass before the clock ticks

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t light_calls(const struct pace_options *options)
{
    return least(most(options->interval_ns / LIGHT_NS, LEAST_LIGHT), MOST_LIGHT);
}

void pace_open(struct pace *pace, uint64_t now)
{
    *pace = (struct pace){
        .accounted = now, .following_ps = FIRST_FOLLOWING_PS, .factor = 1, .amount = 1};
}

static int64_t balance(const struct pace *pace, uint64_t now)
{
    return (int64_t)(now - pace->accounted - pace->lost) + pace->owed;
}

uint64_t pace_owed(const struct pace *pace, uint64_t now)
{
    const int64_t owed = balance(pace, now);
    return owed > 0 ? least((uint64_t)owed, MOST_NS) : 0;
}

void pace_skip(struct pace *pace, uint64_t now)
{
    pace->accounted = now;
    pace->owed = 0;
    pace->lost = 0;
}

static void pass(struct pace *pace, enum pace_state state, uint64_t now, uint64_t calls,
                 int64_t *cell)
{
    pace->state = state;
    pace->since = now;
    pace->passing = calls;
    pace->alarm = 0;
    *cell = (int64_t)calls;
}

// How many have passed since the state began, and the native time that took; the rest is lost.
static uint64_t count_passed(struct pace *pace, const struct pace_options *options, uint64_t now,
                             int64_t cell, uint64_t *native)
{
    const uint64_t left = cell > 0 ? (uint64_t)cell : 0,
                   calls = pace->passing - least(left, pace->passing), whole = now - pace->since,
                   // What is more is the clock's own.
        passed = pace->alarm ? least(whole, pace->alarm) : whole,
                   added =
                       calls * options->passing_ps / 1000 + (pace->alarm ? 0 : options->turning_ns);
    // Not all that a relay does comes on top.
    *native = passed - least(added, passed - passed / 8);
    pace->lost += whole - *native;
    return calls;
}

// ---- while calls are followed

static void set_slice(struct pace *pace, uint64_t calls, uint64_t now, int64_t *cell)
{
    pace->slice = calls;
    pace->since = now;
    *cell = (int64_t)((uint64_t)INT64_MIN + calls);
}

// Calls of the slice that were followed so far.
static uint64_t followed(const struct pace *pace, int64_t cell)
{
    const uint64_t left = cell < 0 ? (uint64_t)cell - (uint64_t)INT64_MIN : 0;
    return pace->slice - least(left, pace->slice);
}

static bool agree(uint64_t one, uint64_t other)
{
    return 2 * one < 3 * other && 2 * other < 3 * one;
}

// What following adds to each call.
static void learn(struct pace *pace, uint64_t sample)
{
    // Step by step: the program may have done something else in between.
    const uint64_t old = pace->following_ps, part = pace->learnt < FEW_LESSONS ? 2 : 8,
                   fresh = sample > old ? old + least((sample - old) / 2, old / part)
                                        : old - least((old - sample) / 2, old / part);
    pace->learnt++;
    pace->following_ps = least(most(fresh, LEAST_FOLLOWING_PS), MOST_FOLLOWING_PS);
}

// A slice of so many calls is through, and how often calls passed afterwards; 0: that is not known.
static void take_slice(struct pace *pace, uint64_t calls, uint64_t passed, uint64_t after_ps)
{
    const uint64_t added = calls * pace->following_ps / 1000;
    uint64_t native = passed - least(added, passed - passed / 16);
    // If it called as often afterwards as before, it did so in between, whatever following took.
    if (calls >= LEAST_SLICE && agree(pace->before_ps, after_ps)) {
        const uint64_t each = (pace->before_ps + after_ps) / 2, both = passed * 1000 / calls;
        native = least(calls * each / 1000, passed);
        learn(pace, both > each ? both - each : 0);
    }
    pace->seen += native;
    pace->lost += passed - native;
    pace->calls += calls;
    pace->spent += passed;
}

static bool is_full(const struct pace *pace, const struct pace_options *options)
{
    return pace->seen + pace->window / 32 >= pace->window ||
           pace->spent >= LONGEST * options->length_ns;
}

// So many that the window is filled by them, or a part of it, if the program goes on as it did.
static uint64_t next_slice(const struct pace *pace)
{
    const uint64_t part = pace->window / SLICES,
                   left = pace->window - least(pace->seen, pace->window),
                   time = 2 * left < 3 * part ? left : part,
                   each = pace->calls ? pace->seen * 1000 / pace->calls : pace->before_ps;
    return each ? most(time * 1000 / each, 1) : LEAST_SLICE;
}

// The window is closed.
static void close_window(struct pace *pace)
{
    pace->owed += (int64_t)pace->due - (int64_t)least(pace->seen * pace->share, MOST_NS);
    pace->window = 0;
    pace->state = PACE_RESTING;
}

static void open_window(struct pace *pace, const struct pace_options *options, uint64_t due,
                        uint64_t now)
{
    // Followed for the length of a burst, unless that adds more than a quarter of it.
    const uint64_t parts = most(1024 + pace->slowness, ADDED_PART * pace->slowness),
                   wished = most(options->length_ns * 1024 / parts, 1);
    pace_skip(pace, now);
    pace->due = due;
    pace->share = most((due + wished / 2) / wished, 1);
    pace->window = most(due / pace->share, 1);
    pace->amount = pace->share * pace->factor;
    pace->seen = pace->calls = pace->spent = 0;
    pace->state = PACE_FOLLOWING;
}

// What following adds to native time where calls have passed just now.
static uint64_t slowness(const struct pace *pace)
{
    return pace->before_ps ? least(pace->following_ps * 1024 / pace->before_ps, MOST_SLOWNESS) : 0;
}

// Calls have passed for a while: now they are followed. False if there is nothing to stand for.
static bool follow(struct pace *pace, const struct pace_options *options, uint64_t now,
                   int64_t *cell)
{
    uint64_t native;
    const uint64_t calls = count_passed(pace, options, now, *cell, &native);
    const int64_t due = balance(pace, now);
    pace->before_ps = calls ? most(native * 1000 / calls, 1) : 0;
    pace->slowness = pace->slowness ? (7 * pace->slowness + slowness(pace)) / 8 : slowness(pace);
    if (due < (int64_t)options->length_ns / 2) { // the last one has seen too much
        pace->state = PACE_RESTING;
        *cell = PACE_PASS;
        return false;
    }
    open_window(pace, options, least((uint64_t)due, MOST_NS), now);
    set_slice(pace, next_slice(pace), now, cell);
    return true;
}

void pace_follow(struct pace *pace, uint64_t now)
{
    if (pace->state != PACE_FOLLOWING)
        return;
    pace->lost += now - pace->since;
    pace->since = now;
}

// Goes on following, if the window is not full.
static bool fill_window(struct pace *pace, const struct pace_options *options, uint64_t now,
                        int64_t *cell)
{
    *cell = PACE_PASS;
    if (is_full(pace, options)) {
        close_window(pace);
        return false;
    }
    pace->state = PACE_FOLLOWING;
    set_slice(pace, next_slice(pace), now, cell);
    return true;
}

bool pace_turn(struct pace *pace, const struct pace_options *options, uint64_t now, int64_t *cell)
{
    *cell = PACE_PASS;
    if (pace->state != PACE_FOLLOWING)
        return false;
    // Who calls seldom is hardly slowed. Of others, calls pass for a moment.
    if (pace->before_ps && pace->before_ps < SELDOM * pace->following_ps) {
        pace->took = now - pace->since;
        pass(pace, PACE_CHECKING, now, light_calls(options), cell);
        return false;
    }
    take_slice(pace, pace->slice, now - pace->since, 0);
    if (!fill_window(pace, options, now, cell))
        return false;
    --*cell; // this call is the first
    return true;
}

static bool check(struct pace *pace, const struct pace_options *options, uint64_t now,
                  int64_t *cell)
{
    uint64_t native;
    const uint64_t calls = count_passed(pace, options, now, *cell, &native),
                   after_ps = calls ? most(native * 1000 / calls, 1) : 0;
    take_slice(pace, pace->slice, pace->took, calls < LEAST_LIGHT ? 0 : after_ps);
    pace->before_ps = after_ps;
    return fill_window(pace, options, now, cell);
}

// ---- bursts

void pace_rest(struct pace *pace, uint64_t now, int64_t *cell)
{
    // Another thread has ended the burst, who knows when.
    if (pace->state == PACE_FOLLOWING) {
        const uint64_t calls = followed(pace, *cell),
                       took = calls * (pace->before_ps + pace->following_ps) / 1000;
        take_slice(pace, calls, least(took, now - pace->since), 0);
    } else if (pace->state == PACE_CHECKING) {
        take_slice(pace, pace->slice, pace->took, 0);
    }
    if (pace->state == PACE_FOLLOWING || pace->state == PACE_CHECKING)
        close_window(pace);
    pace->state = PACE_RESTING;
    *cell = PACE_ARMED;
}

uint64_t pace_begin(struct pace *pace, const struct pace_options *options, uint32_t burst,
                    uint64_t now, int64_t *cell)
{
    pace->burst = pace->begun = burst;
    pass(pace, PACE_PASSING, now, UNCOUNTED, cell);
    pace->alarm = options->length_ns / PASSING_PART;
    return pace->alarm;
}

bool pace_meet(struct pace *pace, const struct pace_options *options, uint32_t burst, uint64_t now,
               int64_t *cell)
{
    if (pace->burst != burst) { // another thread has begun it
        pace_rest(pace, now, cell);
        pace->burst = burst;
        if (2 * pace_owed(pace, now) >= options->interval_ns)
            pass(pace, PACE_PASSING, now, light_calls(options), cell);
        else
            *cell = PACE_PASS;
        return false;
    }
    switch (pace->state) {
    case PACE_PASSING:
        return follow(pace, options, now, cell);
    case PACE_FOLLOWING:
        return true;
    case PACE_CHECKING:
        return check(pace, options, now, cell);
    case PACE_RESTING:
        break;
    }
    *cell = PACE_PASS;
    return false;
}

// How long it takes to fill the window at most, if the program goes on as it did: a tick before
// that would only cost.
static uint64_t time_left(struct pace *pace, uint64_t now)
{
    const uint64_t left = pace->window - least(pace->seen, pace->window);
    const uint64_t wait = left + 2 * left * slowness(pace) / 1024;
    pace->due_tick = now + wait;
    return wait;
}

uint64_t pace_tick(struct pace *pace, const struct pace_options *options, uint64_t now,
                   int64_t *cell)
{
    uint64_t calls, late;
    switch (pace->state) {
    case PACE_PASSING:
        return follow(pace, options, now, cell) ? time_left(pace, now) : 0;
    case PACE_FOLLOWING:
        calls = followed(pace, *cell);
        // What comes after the time that was set is the clock's own.
        late = now > pace->due_tick && pace->due_tick > pace->since ? now - pace->due_tick : 0;
        pace->lost += late;
        take_slice(pace, calls, now - late - pace->since, 0);
        if (is_full(pace, options)) {
            close_window(pace);
            *cell = PACE_PASS;
            return 0;
        }
        set_slice(pace, most(pace->slice - calls, 1), now, cell);
        return time_left(pace, now);
    case PACE_CHECKING:
        return check(pace, options, now, cell) ? time_left(pace, now) : 0;
    case PACE_RESTING:
        break;
    }
    return 0;
}
