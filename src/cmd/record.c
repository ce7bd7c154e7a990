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

#include "cmd/record/instrumented.h"
#include "cmd/record/launch.h"
#include "cmd/record/record_options.h"
#include "cmd/record/recording.h"
#include "cmd/record/restriction.h"
#include "cmd/record/signals.h"
#include "cmd/record/sources.h"
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

// The agent would find no way to sample: say so before the command runs.
static int check_sources(const struct record_options *options)
{
    enum live_source source = options->source;
    struct restriction why;
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

static bool needs_hooks(const struct record_options *options)
{
    return options->tracker == LIVE_TRACKER_CALLS || options->trigger;
}

static int run_record(int argc, char **argv)
{
    struct record_options options;
    struct launch launch = {.through_shell = false};
    fill_standard_descriptors();
    int status = parse_record_options(argc, argv, &options);
    if (status != PROCEED)
        return status;
    if ((status = launch_check(&launch, options.command)) ||
        (needs_hooks(&options) && (status = choose_calls(launch.path, &options))) ||
        (status = launch_find_agent(
             &launch, record_has(&options, LIVE_EVENT_ALLOC) ? ALLOC_AGENT_NAME : AGENT_NAME)) ||
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
        run_recording(&options, &launch, &inherited, signals, passed[0], outcome[1]);
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
