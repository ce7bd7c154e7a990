// SPDX-License-Identifier: MIT
#ifndef CAIRN_EVENT_CLOCK_H
#define CAIRN_EVENT_CLOCK_H

// The clock of a thread: a signal each period of the thread's CPU time; with the wall event also
// one after each time that the thread was off the CPU. Three sources, from good to last resort:
//
//   perf, SIGTRAP   exact up to tens of kHz, never interrupts a system call: the signal comes when
//                   the thread returns to user mode. The only one that can see waiting.
//   perf, signal    exact, but costs more; a system call without restart may see EINTR
//   POSIX timer     no faster than the kernel's tick
//
#include "event/mapped_event.h"
#include "live/live.h"
#include <signal.h>
#include <stdbool.h>
#include <time.h>

// The signal of the last two sources. Nothing on Linux sends it, it does not queue (so it cannot
// overflow into SIGIO), and programs that profile themselves with SIGPROF keep that.
#define CLOCK_SIGNAL SIGSTKFLT

// Set where opening one would be the end of the program.
extern bool clock_forbidden;

struct thread_clock {
    enum live_source source; // LIVE_SOURCE_AUTO: not open
    struct mapped_event events[2];
    timer_t timer;
    bool has_timer;
    uint64_t first;  // until the first tick
    uint64_t period; // between those that follow
    bool exclude_kernel;
    bool shortened; // the first tick comes early: clock_resume() when it came
    pid_t thread;   // its owner; 0: the one that opened it
    pid_t process;  // that has it: none that is forked from that does
};

// Opens the clock of the calling thread; it stands until clock_go(), and the first tick comes
// `first` later (at most a period). 0 or -errno, and there is no clock. Not signal-safe.
int clock_open(struct thread_clock *clock, const struct live_options *options, uint64_t first);

// The same for another thread of the process.
int clock_open_for(struct thread_clock *clock, pid_t thread, const struct live_options *options,
                   uint64_t first);

// Lets it run. Call this right before the program's own code: all that runs in between is sampled
// as the program's.
void clock_go(struct thread_clock *clock, const struct live_options *options);

// After a first tick that came early: ticks at the full period from now on. Signal-safe.
void clock_resume(struct thread_clock *clock, const struct live_options *options);

// Opens the calling thread's clock again that was closed, with the source that it had, and lets it
// run. Signal-safe.
void clock_reopen(struct thread_clock *clock, const struct live_options *options,
                  enum live_source source);

// Another period for the calling thread's clock, which is a perf event; if that fails, the one that
// was asked for. Signal-safe.
void clock_change_period(struct thread_clock *clock, const struct live_options *options,
                         uint64_t period);

// The clock of the calling thread ticks once, so much later, and not before it is set again.
// Signal-safe.
void clock_set(struct thread_clock *clock, const struct live_options *options, uint64_t later);

// Its ticks are a period of the thread's CPU time apart, in the kernel too. Signal-safe.
static inline bool clock_ticks_by_cpu(const struct thread_clock *clock)
{
    return (clock->source == LIVE_SOURCE_SIGTRAP || clock->source == LIVE_SOURCE_SIGNAL) &&
           !clock->exclude_kernel && !clock->shortened;
}

// The ring (ring.h) of the calling thread's clock; NULL: it has none. Signal-safe.
void *clock_ring(const struct thread_clock *clock);

// In another process than it was opened in, forked by whatever means, it is forgotten: that has
// neither the event nor its page, and something else may be there by now. Signal-safe.
void clock_close(struct thread_clock *clock);

// From another thread: no tick from now on. Its owner may close it as usual.
void clock_take_away(struct thread_clock *clock);

// True if this signal is a tick of ours rather than the program's business. Signal-safe.
bool clock_is_tick(int signal, const siginfo_t *info);

// Of a tick: the thread has waited, rather than run for a period. Signal-safe.
bool clock_follows_wait(const siginfo_t *info);

// A tick by hand, for a thread that waits and will not get one by itself: the process is about to
// end.
int clock_send_last_tick(pid_t process, pid_t thread);
bool clock_is_last_tick(const siginfo_t *info);

// The value of the event now, for the calling thread: its CPU time, or the time of day.
// Signal-safe.
uint64_t clock_now(enum live_event event);

// The CPU time of another thread of this process; 0 if it is gone.
uint64_t clock_cpu_of(pid_t thread);

#endif
