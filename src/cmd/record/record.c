// SPDX-License-Identifier: MIT

// `cairn record`: runs a command with the agent in it, and writes down what the agent sees.
//
// Two processes. The front is what the user started: it has the exit status that the shell sees.
// The recorder, its child, owns the shared memory, starts the command and writes the profile. When
// the command has ended but left daemons behind, the front can return while the recorder stays
// with them; the memory's name (/proc/PID/fd/N) stays good, so they may start programs yet.
//
//   shell ── front ── recorder ── command ── ...
//              ▲ pipe: exit status │

#include "cmd/events/counter_check.h"
#include "cmd/events/restriction.h"
#include "cmd/events/sources.h"
#include "cmd/record/attached.h"
#include "cmd/record/from_outside.h"
#include "cmd/record/launch/instrumented.h"
#include "cmd/record/launch/launch.h"
#include "cmd/record/launch/signals.h"
#include "cmd/record/options/record_options.h"
#include "cmd/record/recording.h"
#include "event/event.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

// Waits until the recorder reports the exit status, or is gone. Writes signals for the command to
// `passed`.
static int wait_for_status(pid_t recorder, int signals, int passed, int outcome)
{
    struct pollfd sources[] = {{.fd = signals, .events = POLLIN},
                               {.fd = outcome, .events = POLLIN}};
    struct signalfd_siginfo info;
    int status;
    for (;;) {
        if (poll(sources, 2, -1) < 0 && errno != EINTR)
            break;
        while (sources[0].revents && signals_next(signals, recorder, &info))
            if (info.ssi_signo != SIGCHLD && write(passed, &info, sizeof info) < 0)
                break; // the recorder is gone, as the next turn shows
        if (sources[1].revents)
            break;
    }
    if (read(outcome, &status, sizeof status) == sizeof status) {
        // If it ends now, its time and the command's count as ours (time, getrusage).
        if (!(status & RECORDING_GOES_ON))
            waitpid(recorder, NULL, 0);
        return status & 255;
    }
    int ended = 0;
    waitpid(recorder, &ended, 0);
    complain("the recorder was ended by signal %d: the profile holds what was seen until then, and "
             "the command may still run",
             WIFSIGNALED(ended) ? WTERMSIG(ended) : 0);
    return STATUS_FAILED;
}

// The same of counters.
static int check_counters(struct record_options *options)
{
    for (unsigned i = 0; i < options->counter_count; i++) {
        struct counter_refusal refusal;
        const int error = counter_try(&options->counters[i].counter);
        if (!error)
            continue;
        counter_refused(&options->counters[i].counter, error, &refusal);
        complain("cannot count %s here: %s%s%s", options->counters[i].name, refusal.reason,
                 *refusal.remedy ? "; " : "", refusal.remedy);
        return STATUS_MISUSE;
    }
    return 0;
}

// The agent would find no way to sample: say so before the command runs.
static int check_sources(struct record_options *options)
{
    enum live_source source = options->source;
    struct restriction why = {.reason = ""};
    const int status = check_counters(options);
    if (status)
        return status;
    if (record_has(options, LIVE_EVENT_OFFCPU) && restriction_of(LIVE_EVENT_OFFCPU, &why)) {
        // Timers of real time tell of waits, too, but they would interrupt system calls.
        complain("cannot record offcpu here: %s; %s%sor use -e lock -e io, which see waits in libc",
                 why.reason, why.remedy, *why.remedy ? ", " : "");
        return STATUS_MISUSE;
    }
    if (!event_of(options->event)->by_clock)
        return 0;
    // Where there is wall time there is a clock for CPU time.
    const enum live_event event =
        record_has(options, LIVE_EVENT_WALL) ? LIVE_EVENT_WALL : options->event;
    int error = source == LIVE_SOURCE_AUTO ? -EPERM : try_source(event, source);
    if (source == LIVE_SOURCE_AUTO && best_source(event) != LIVE_SOURCE_AUTO)
        error = 0;
    if (!error)
        return 0;
    if (source != LIVE_SOURCE_AUTO)
        complain("cannot sample %s by %s here: %s; 'cairn list' shows what works",
                 event_of(event)->name, live_source_name(source), strerror(-error));
    else if (restriction_of(event, &why))
        complain("cannot sample %s here: %s; %s%sor use -e cpu", event_of(event)->name, why.reason,
                 why.remedy, *why.remedy ? ", " : "");
    return STATUS_MISUSE;
}

// If one of the first three descriptors is closed, a file of ours would take its number. The
// command finds it closed, as before: our descriptor there closes on exec.
static void fill_standard_descriptors(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR | O_CLOEXEC) < 0)
            return;
}

// The agent of another recording is in this process.
static bool is_recorded(void)
{
    int (*running)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "cairn_running_1");
    return running && running();
}

static const char *agent_name(const struct record_options *options)
{
    const bool allocates = record_has(options, LIVE_EVENT_ALLOC);
    if (record_has(options, LIVE_EVENT_IO) || record_has(options, LIVE_EVENT_LOCK))
        return allocates ? ALLOC_IO_AGENT_NAME : IO_AGENT_NAME;
    return allocates ? ALLOC_AGENT_NAME : AGENT_NAME;
}

// Waits for the recorder of processes that run already. Any signal ends the recording.
static int wait_for_attached(pid_t recorder, int signals, int passed, int outcome)
{
    struct pollfd sources[] = {{.fd = signals, .events = POLLIN},
                               {.fd = outcome, .events = POLLIN}};
    struct signalfd_siginfo info;
    int status = STATUS_FAILED, ended = 0;
    while (!sources[1].revents && (poll(sources, 2, -1) >= 0 || errno == EINTR))
        while (sources[0].revents && read(signals, &info, sizeof info) == sizeof info)
            if (info.ssi_signo != SIGCHLD && write(passed, &info, sizeof info) < 0)
                break;
    const bool told = read(outcome, &status, sizeof status) == sizeof status;
    waitpid(recorder, &ended, 0);
    return told ? status : -1;
}

// Two processes, as for a command: if one of them is killed, the other one leaves the processes as
// they were. The recorder has a session of its own, so that no signal to the group ends both.
static int record_attached(struct record_options *options)
{
    struct launch launch = {.through_shell = false};
    struct inherited inherited;
    sigset_t watched;
    int outcome[2], passed[2];
    // That of programs which they start. The one that enters them lies beside it (inject/injection_target.h).
    int status = launch_find_agent(&launch, agent_name(options));
    if (status || (status = attached_check(options, launch.agent_path)) ||
        (options->everything && (status = from_outside_check_all(options))))
        return status;
    signals_fill(&watched);
    launch_take_over(&inherited, &watched);
    const int signals = signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
    fflush(NULL);
    if (signals < 0 || pipe2(outcome, O_CLOEXEC) || pipe2(passed, O_CLOEXEC | O_NONBLOCK)) {
        complain("cannot start: %s", strerror(errno));
        return STATUS_FAILED;
    }
    const pid_t recorder = fork();
    if (recorder == 0) {
        setsid();
        close(outcome[0]);
        close(passed[1]);
        run_attached_recording(options, launch.agent_path,
                               &(struct recording_ends){
                                   .signals = signals, .passed = passed[0], .outcome = outcome[1]});
        fflush(NULL);
        _exit(0);
    }
    close(outcome[1]);
    close(passed[0]);
    status =
        recorder < 0 ? STATUS_FAILED : wait_for_attached(recorder, signals, passed[1], outcome[0]);
    if (status >= 0)
        return status;
    attached_leave_given(options, launch.agent_path);
    complain("the recorder was killed: the profile holds what was seen until then");
    return STATUS_FAILED;
}

static bool needs_hooks(const struct record_options *options)
{
    return options->tracker == LIVE_TRACKER_CALLS || options->trigger;
}

// A command that the agent cannot enter is sampled from outside.
static int check_command(const struct record_options *options, struct launch *launch)
{
    const int status = launch_examine(launch, options->command);
    if (options->everything && (!status || status == STATUS_MISUSE)) {
        launch->from_outside = true;
        return from_outside_check_all(options);
    }
    if (status == STATUS_MISUSE && launch->from_outside)
        return from_outside_check(options, launch->refusal, 0);
    if (status)
        complain("%s", launch->refusal);
    return status;
}

static int run_record(int argc, char **argv)
{
    struct record_options options;
    struct launch launch = {.through_shell = false};
    fill_standard_descriptors();
    int status = parse_record_options(argc, argv, &options);
    if (status != PROCEED)
        return status;
    if (!options.command)
        return record_attached(&options);
    if ((status = check_command(&options, &launch)) ||
        (needs_hooks(&options) && (status = choose_calls(launch.path, &options))) ||
        (status = launch_find_agent(&launch, agent_name(&options))) ||
        (status = check_sources(&options)))
        return status;
    if (is_recorded() && !options.quiet)
        complain("this 'cairn record' is itself recorded by another one: %s is recorded here, and "
                 "not there",
                 options.command[0]);
    launch.bind_now = options.tracker == LIVE_TRACKER_ENCODE || options.calls_by != LIVE_BY_ENTRIES;

    struct inherited inherited;
    sigset_t watched;
    int outcome[2], passed[2];
    signals_fill(&watched);
    launch_take_over(&inherited, &watched);
    int signals = signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals < 0 || pipe2(outcome, O_CLOEXEC) || pipe2(passed, O_CLOEXEC | O_NONBLOCK)) {
        complain("cannot start: %s", strerror(errno));
        return STATUS_FAILED;
    }
    fflush(NULL);
    pid_t recorder = fork();
    if (recorder < 0) {
        complain("cannot start: fork: %s", strerror(errno));
        return STATUS_FAILED;
    }
    if (recorder == 0) {
        close(outcome[0]);
        close(passed[1]);
        run_recording(&options, &launch, &inherited,
                      &(struct recording_ends){
                          .signals = signals, .passed = passed[0], .outcome = outcome[1]});
        fflush(NULL);
        _exit(0);
    }
    close(outcome[1]);
    close(passed[0]);
    return wait_for_status(recorder, signals, passed[1], outcome[0]);
}

const struct command command_record = {
    .name = "record",
    .summary = "run a command and record its call paths",
    .usage = record_usage,
    .help = record_help,
    .notes = record_notes,
    .options = record_rows,
    .ends_at_word = true,
    .run = run_record,
};
