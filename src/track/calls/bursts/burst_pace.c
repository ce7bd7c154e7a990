// SPDX-License-Identifier: MIT
#include "track/calls/bursts/burst_pace.h"

#define MOMENT_PART 10 // of a burst's length, of native time, from its begin to T
// And to the tick that ends it where few calls pass. Where they are many, all is over by then, and
// that is one tick fewer.
#define PASSING_PART 2
#define LEAST_LAP 4 // calls in a lap, at first;
#define MOST_LAP 256
#define SHORT_LAP 1500    // twice as many, if it took no more ticks
#define LAP_END_NS 20     // the time for noting a lap
#define ADDED_PART 10     // of a burst's length, following may add to the program's time;
#define MOST_ADDED_PART 4 // and so much, if the window had fewer calls than this else:
#define LEAST_CALLS 8000
#define LONGEST 3               // lengths of a burst it may take to fill a window
#define SLICES 8                // of a window
#define STEP 8                  // times what following adds, a call fills of a window
#define LEAST_LESSON 256        // calls of a window that can show that following adds more
#define SELDOM 8                // times that between calls, and it does not tell it
#define FIRST_FOLLOWING_PS 5000 // a guess, until it is known
#define LEAST_FOLLOWING_PS 500
#define MOST_FOLLOWING_PS 1000000
#define FEW_LESSONS 8
#define MOST_NS (UINT64_C(1) << 40) // products with numbers of calls fit
#define MOST_FILLED (16 * 1024)
#define MOST_RATE (UINT64_C(1) << 24) // and parts of a time with this

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

void pace_open(struct pace *pace, uint64_t interval_ns, uint64_t owed_ns, uint64_t now)
{
    *pace = (struct pace){.accounted = now,
                          .owed = (int64_t)owed_ns,
                          .next = now + (interval_ns > owed_ns ? interval_ns - owed_ns : 0),
                          .following_ps = FIRST_FOLLOWING_PS,
                          .chance = now + owed_ns,
                          .factor = 1,
                          .amount = 1};
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

// ---- while calls pass

static uint64_t to_ticks(const struct pace_options *options, uint64_t ps)
{
    return ps * 1024 / options->tick_ps;
}

static void pass(struct pace *pace, const struct pace_options *options, uint64_t now, int64_t *cell)
{
    pace->state = PACE_PASSING;
    pace->since = now;
    pace->alarm = 0;
    pace->laps = 0;
    pace->ticked = false;
    pace->lap_calls = LEAST_LAP;
    pace->passed = 0;
    pace->to_moment = to_ticks(options, options->length_ns / MOMENT_PART * 1000);
    pace->call_ticks = to_ticks(options, options->passing_ps * 1024);
    pace->lap_end_ticks = to_ticks(options, LAP_END_NS * 1000);
    *cell = (int64_t)pace->lap_calls - 1;
}

// The moment has come: laps are counted from here on.
static void lead(struct pace *pace, uint64_t laps)
{
    pace->chance = pace->chance * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    pace->lap_left = laps + (pace->chance >> 33) % PACE_LAPS;
    pace->state = PACE_LEADING;
}

// Of the lap that it falls into, nothing is known.
static void note_tick(struct pace *pace)
{
    pace->ticked = true;
    pace->lap_ticked = pace->laps;
}

// Not all that a relay does comes on top.
static uint64_t less(uint64_t whole, uint64_t added)
{
    return whole - least(added, whole - whole / 8);
}

static void time_lap(struct pace *pace, uint64_t ticks)
{
    const uint64_t added = (pace->lap_calls * pace->call_ticks >> 10) + pace->lap_end_ticks,
                   native = less(ticks, added);
    // If it comes too soon for that, the clock's next tick is the moment.
    if (pace->state == PACE_PASSING && pace->to_moment && pace->to_moment < native &&
        pace->laps > PACE_LAPS)
        lead(pace, 1);
    pace->to_moment -= least(native, pace->to_moment);
    if (ticks < SHORT_LAP && pace->lap_calls < MOST_LAP)
        pace->lap_calls *= 2;
}

bool pace_lap(struct pace *pace, uint64_t ticks, int64_t *cell)
{
    const struct pace_lap *before = &pace->lap[(pace->laps - 1) % PACE_KEPT_LAPS];
    pace->passed += pace->lap_calls;
    pace->lap[pace->laps++ % PACE_KEPT_LAPS] = (struct pace_lap){ticks, pace->passed};
    if (pace->laps > 1)
        time_lap(pace, ticks - before->end);
    else
        pace->first_lap_end = ticks;
    if (pace->state == PACE_LEADING && pace->lap_left-- <= 1)
        return false;
    *cell += (int64_t)pace->lap_calls;
    return true;
}

// The native time between calls that pass, without that of relays and of noting laps.
static uint64_t native_ps(const struct pace_options *options, uint64_t each_ps, uint64_t lap_end_ps)
{
    return most(less(each_ps, options->passing_ps + lap_end_ps), 1);
}

// Laps are timed by a clock that runs on while others have the processor.
static bool was_away(const struct pace *pace, const struct pace_options *options, uint64_t passed)
{
    const uint64_t last = pace->lap[(pace->laps - 1) % PACE_KEPT_LAPS].end,
                   ticks = least(last - pace->first_lap_end, MOST_NS);
    return ticks * options->tick_ps / 1024000 > passed + passed / 8;
}

// That of the last laps, but the one in which the clock ticked. None counts for more than the time
// that calls pass before the clock ticks: where that is silent, no laps are counted.
static uint64_t last_laps_ps(const struct pace *pace, const struct pace_options *options)
{
    const uint64_t longest = options->length_ns / PASSING_PART * 1000;
    uint64_t sum = 0, calls = 0, count = 0;
    for (uint64_t number = pace->laps - least(PACE_LAPS, pace->laps - 1); number < pace->laps;
         number++) {
        const struct pace_lap *lap = &pace->lap[number % PACE_KEPT_LAPS],
                              *before = &pace->lap[(number - 1) % PACE_KEPT_LAPS];
        if (pace->ticked && number == pace->lap_ticked)
            continue;
        sum += least(least(lap->end - before->end, MOST_NS) * options->tick_ps / 1024, longest);
        calls += lap->passed - before->passed;
        count++;
    }
    return calls ? native_ps(options, sum / calls, count * LAP_END_NS * 1000 / calls) : 0;
}

// The native time of each call that has passed; 0: none. The rest of the time was not the
// program's.
static uint64_t all_laps_ps(struct pace *pace, const struct pace_options *options, uint64_t now,
                            int64_t cell)
{
    const uint64_t left = cell > 0 ? (uint64_t)cell + 1 : 0,
                   calls = pace->passed + pace->lap_calls - least(left, pace->lap_calls),
                   whole = now - pace->since,
                   // The time beyond is the clock's own.
        passed = pace->alarm && pace->state == PACE_PASSING ? least(whole, pace->alarm) : whole,
                   each = calls ? native_ps(options, passed * 1000 / calls,
                                            pace->laps * LAP_END_NS * 1000 / calls)
                                : 0;
    pace->lost += whole - least(calls ? each * calls / 1000 : passed, whole);
    return each;
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

// Learns how much following adds to each call.
static void learn(struct pace *pace, uint64_t sample)
{
    const uint64_t part = pace->learnt < FEW_LESSONS ? 2 : 8,
                   fresh = pace->following_ps + least(sample, MOST_FOLLOWING_PS) / part -
                           pace->following_ps / part;
    pace->learnt++;
    pace->following_ps = most(fresh, LEAST_FOLLOWING_PS);
}

// Where calls are seldom, the cost of following is lost in the variation of the time between them.
// A few calls can show that it is less, but not that it is more: an estimate that is too high may
// be why they are so few.
static bool tells(const struct pace *pace, uint64_t sample)
{
    return (pace->calls >= LEAST_LESSON || (pace->calls && sample < pace->following_ps)) &&
           pace->before_ps && pace->before_ps <= most(SELDOM * pace->following_ps, sample);
}

// So many calls were followed. Each fills the window by the same step, and the native time beside
// them fills it, too. The time of following is known on average only, so twice the average is
// subtracted. Where calls are frequent, they alone count, and where they are seldom it hardly
// matters.
static void take_slice(struct pace *pace, uint64_t calls, uint64_t passed)
{
    const uint64_t known = 2 * calls * pace->following_ps / 1000;
    pace->seen += calls * pace->step_ps / 1000 + passed - least(known, passed);
    pace->calls += calls;
    pace->spent += passed;
}

static bool is_full(const struct pace *pace, const struct pace_options *options)
{
    return pace->seen + pace->window / 32 >= pace->window ||
           pace->spent >= LONGEST * options->length_ns;
}

// By how much the window is filled by a call and the native time to the next, if it is this long.
static uint64_t advance_ps(const struct pace *pace, uint64_t between_ps)
{
    return pace->step_ps + between_ps - least(pace->following_ps, between_ps);
}

// So many that a part of the window is filled by them, or all of it if that is not much any more.
static uint64_t next_slice(const struct pace *pace)
{
    const uint64_t left = pace->window - least(pace->seen, pace->window),
                   part = pace->window / SLICES, distance = 2 * left < 3 * part ? left : part,
                   each = pace->calls ? pace->seen * 1000 / pace->calls
                                      : advance_ps(pace, pace->before_ps);
    return most(distance * 1000 / most(each, 1), 1);
}

// The window is closed.
static void close_window(struct pace *pace)
{
    // The native time, at the speed before the window.
    const uint64_t native = least(pace->seen * 1024 / pace->rate, pace->spent);
    pace->lost += pace->spent - native;
    const uint64_t filled = least(pace->seen, MOST_NS / 1024) * 1024 / pace->window;
    pace->owed += (int64_t)pace->due - (int64_t)(pace->due / 1024 * least(filled, MOST_FILLED));
    const uint64_t both = pace->spent * 1000 / most(pace->calls, 1),
                   sample = both - least(pace->before_ps, both);
    if (tells(pace, sample))
        learn(pace, sample);
    pace->window = 0;
    pace->state = PACE_RESTING;
}

// How many calls a window should have. Followed for the length of a burst, unless that adds more
// than a tenth of it. That is what shows on the spot; the program is slower by as much again
// afterwards, with caches and branch predictors that have seen something else (which was not
// measured by itself).
static uint64_t wished_calls(const struct pace *pace, const struct pace_options *options)
{
    const uint64_t length = options->length_ns * 1000,
                   whole = length / (pace->between_ps + pace->following_ps),
                   light = length / (ADDED_PART * pace->following_ps),
                   heavy = length / (MOST_ADDED_PART * pace->following_ps);
    return most(least(whole, most(light, least(heavy, LEAST_CALLS))), 1);
}

static void open_window(struct pace *pace, const struct pace_options *options, uint64_t due,
                        uint64_t now)
{
    pace_skip(pace, now);
    pace->due = due;
    pace->step_ps = STEP * pace->following_ps;
    pace->rate = pace->before_ps
                     ? least(advance_ps(pace, pace->before_ps) * 1024 / pace->before_ps, MOST_RATE)
                     : 1024;
    // All the native time that it stands for fills this much; a part of it is looked at.
    const uint64_t whole = due / 1024 * pace->rate,
                   wished = most(
                       wished_calls(pace, options) * advance_ps(pace, pace->between_ps) / 1000, 1);
    pace->share = most((whole + wished / 2) / wished, 1);
    pace->window = most(whole / pace->share, 1);
    pace->amount = pace->share * pace->factor;
    pace->seen = pace->calls = pace->spent = 0;
    pace->state = PACE_FOLLOWING;
}

// Calls have passed for a while: now they are followed. False if there is nothing to stand for.
static bool follow(struct pace *pace, const struct pace_options *options, uint64_t now,
                   int64_t *cell)
{
    const uint64_t all = all_laps_ps(pace, options, now, *cell),
                   last = pace->state == PACE_LEADING && !was_away(pace, options, now - pace->since)
                              ? last_laps_ps(pace, options)
                              : 0;
    const int64_t due = balance(pace, now);
    pace->before_ps = last ? last : all;
    if (due < (int64_t)options->length_ns / 2) { // the last one has seen too much
        pace->state = PACE_RESTING;
        *cell = PACE_PASS;
        return false;
    }
    if (last && !pace->between_ps)
        pace->between_ps = last;
    open_window(pace, options, least((uint64_t)due, MOST_NS), now);
    if (last)
        pace->between_ps = (7 * pace->between_ps + last) / 8;
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

bool pace_turn(struct pace *pace, const struct pace_options *options, uint64_t now, int64_t *cell)
{
    *cell = PACE_PASS;
    if (pace->state != PACE_FOLLOWING)
        return false;
    const uint64_t passed = now - pace->since, turning = least(options->turning_ns, passed);
    pace->lost += turning;
    take_slice(pace, pace->slice, passed - turning);
    if (is_full(pace, options)) {
        close_window(pace);
        return false;
    }
    set_slice(pace, next_slice(pace), now, cell);
    --*cell; // this call is the first
    return true;
}

// ---- bursts

void pace_rest(struct pace *pace, uint64_t now, int64_t *cell)
{
    // Another thread has ended the burst, at an unknown time.
    if (pace->state == PACE_FOLLOWING) {
        const uint64_t calls = followed(pace, *cell),
                       took = calls * (pace->before_ps + pace->following_ps) / 1000;
        take_slice(pace, calls, least(took, now - pace->since));
        close_window(pace);
    }
    pace->state = PACE_RESTING;
    *cell = PACE_ARMED;
}

uint64_t pace_begin(struct pace *pace, const struct pace_options *options, uint32_t burst,
                    uint64_t now, int64_t *cell)
{
    pace->burst = pace->begun = burst;
    pass(pace, options, now, cell);
    pace->alarm = options->length_ns / PASSING_PART;
    pace->due_tick = now + pace->alarm;
    return pace->alarm;
}

bool pace_meet(struct pace *pace, const struct pace_options *options, uint32_t burst, uint64_t now,
               int64_t *cell)
{
    if (pace->burst != burst) { // another thread has begun it
        pace_rest(pace, now, cell);
        pace->burst = burst;
        *cell = PACE_PASS;
        if (2 * pace_owed(pace, now) >= options->interval_ns) {
            pass(pace, options, now, cell);
            lead(pace, PACE_LAPS);
        }
        return false;
    }
    switch (pace->state) {
    case PACE_PASSING:
    case PACE_LEADING:
        return follow(pace, options, now, cell);
    case PACE_FOLLOWING:
        return true;
    case PACE_RESTING:
        break;
    }
    *cell = PACE_PASS;
    return false;
}

// How long it takes to fill the window at most: if the program calls, that comes sooner.
static uint64_t time_left(struct pace *pace, uint64_t now)
{
    const uint64_t wait = pace->window - least(pace->seen, pace->window);
    pace->due_tick = now + wait;
    return wait;
}

static uint64_t tick_following(struct pace *pace, const struct pace_options *options, uint64_t now,
                               int64_t *cell)
{
    const uint64_t calls = followed(pace, *cell),
                   // The time after the moment that was set is the clock's own.
        late = now > pace->due_tick && pace->due_tick > pace->since ? now - pace->due_tick : 0;
    pace->lost += late;
    take_slice(pace, calls, now - late - pace->since);
    if (is_full(pace, options)) {
        close_window(pace);
        *cell = PACE_PASS;
        return 0;
    }
    set_slice(pace, most(pace->slice - calls, 1), now, cell);
    return time_left(pace, now);
}

uint64_t pace_tick(struct pace *pace, const struct pace_options *options, uint64_t now,
                   int64_t *cell)
{
    switch (pace->state) {
    case PACE_PASSING:
        if (pace->laps > PACE_LAPS) {
            lead(pace, 1);
            note_tick(pace);
            return options->length_ns;
        }
        return follow(pace, options, now, cell) ? time_left(pace, now) : 0;
    case PACE_LEADING:
        note_tick(pace);
        return now - pace->since < options->interval_ns ? options->length_ns : 0;
    case PACE_FOLLOWING:
        return tick_following(pace, options, now, cell);
    case PACE_RESTING:
        break;
    }
    return 0;
}
