// SPDX-License-Identifier: MIT

#include "cmd/record/recording.h"
#include "base/new_file.h"
#include "base/now.h"
#include "base/text/text.h"
#include "cmd/continuous/continuous.h"
#include "cmd/record/attached.h"
#include "cmd/record/from_outside.h"
#include "cmd/record/launch/descendants.h"
#include "cmd/record/launch/signals.h"
#include "cmd/record/overhead.h"
#include "cmd/record/session.h"
#include "cmd/record/status.h"
#include "event/event.h"
#include "live/choices.h"
#include "profile/chunks/output.h"
#include "profile/recorder/recorder.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S UINT64_C(1000000000)
#define UPDATE_NS NS_PER_S // at most this much is lost if the recorder is killed
// But large trees take long to read: that is for one part of the command's time, and not more.
#define UPDATE_PART 100
#define LEAST_PAUSE_NS (NS_PER_S / 10) // small ones take next to nothing
#define LONGEST_UPDATE_NS (10 * NS_PER_S)
#define LONGEST_TIMED_NS (2 * NS_PER_S) // with a timeline, whose rings hold twice as much
#define NEVER UINT64_MAX
#define STARTUP_NS (3 * NS_PER_S) // where the agent has not come by then, it never will
#define ATTACHED_LOOK_MS 100      // whether the processes still run
#define LONG_NS NS_PER_S          // long enough for a measurement afterwards

struct recording {
    const struct record_options *options;
    struct session session;
    struct startup_sampler startup;
    struct outside *outside; // NULL: nothing is sampled from outside
    struct recorder *recorder;
    struct session_sources sources;
    struct continuous *continuous; // NULL: there are no intervals
    uint64_t start_ns;             // monotonic clock, as all that follow
    uint64_t update_ns;            // when to read the memory next
    uint64_t updated_ns;           // when it was read last,
    uint64_t pause_ns;             // for how long to leave it alone then,
    uint64_t used_ns;              // and what the command had used of the processor
    uint64_t reading_ns;           // the CPU time that it took
    uint64_t on_ns, off_ns;        // when to switch sampling; NEVER: not, or done
    struct recording_ends ends;
    struct group_signals group;
    pid_t command;
    bool ended;          // the command, not necessarily all that it started
    int command_status;  // from wait4()
    uint64_t cpu_ns;     // of the command and all it waited for, by the kernel's count
    int write_error;     // of the last update, 0: the file has all that was seen,
    uint64_t written_ns; // and else what was seen until then
    bool write_failed;   // said once
    bool stop;           // asked to end while waiting for left-over processes
};

static uint64_t time_ns(struct timeval time)
{
    return (uint64_t)time.tv_sec * NS_PER_S + (uint64_t)time.tv_usec * 1000;
}

static uint64_t earliest(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t file_bytes(const char *path)
{
    struct stat status;
    return stat(path, &status) ? 0 : (uint64_t)status.st_size;
}

static const char *why_not_written(int error)
{
    switch (error) {
    case -ENOSPC:
        return "the disk is full";
    case -EDQUOT:
        return "the disk quota is used up";
    case -EFBIG:
        return "the file size limit (ulimit -f) is reached";
    case -ENOENT:
        return "its folder is gone";
    case -ESTALE:
        return "another file has its name now";
    default:
        return new_file_error(error);
    }
}

static void update(struct recording *recording)
{
    const uint64_t now = now_ns(CLOCK_MONOTONIC);
    const int error = recording->write_error = recorder_update(recording->recorder);
    if (!error)
        recording->written_ns = now;
    else if (!recording->write_failed && !recording->options->json) {
        complain("cannot write %s: %s; trying again each second", recording->options->output,
                 why_not_written(error));
    }
    recording->write_failed |= error != 0;
    session_read_sources(&recording->session, &recording->sources);
}

// The CPU time of the command, which may share the processor with many. If it has processes of its
// own, or has ended, that is not known: then it is all the time there was.
static uint64_t command_ns(const struct recording *recording)
{
    struct recorder_totals totals;
    clockid_t clock;
    recorder_totals(recording->recorder, &totals);
    if (recording->ended || totals.processes > 1 || clock_getcpuclockid(recording->command, &clock))
        return now_ns(CLOCK_MONOTONIC);
    const uint64_t used = now_ns(clock);
    return used ? used : now_ns(CLOCK_MONOTONIC);
}

static bool was_read_lately(const struct recording *recording, uint64_t now)
{
    const uint64_t longest = recording->options->timeline ? LONGEST_TIMED_NS : LONGEST_UPDATE_NS;
    return now - recording->updated_ns < longest &&
           command_ns(recording) - recording->used_ns < recording->pause_ns;
}

static void update_if_worthwhile(struct recording *recording, uint64_t now)
{
    recording->update_ns = now + UPDATE_NS;
    if (was_read_lately(recording, now))
        return;
    const uint64_t start = now_ns(CLOCK_PROCESS_CPUTIME_ID);
    update(recording);
    // Work that is done once, as to read the names of the kernel's functions, does not count.
    const uint64_t cost = now_ns(CLOCK_PROCESS_CPUTIME_ID) - start;
    const uint64_t pause =
        (cost < recording->reading_ns ? cost : recording->reading_ns) * UPDATE_PART;
    recording->reading_ns = cost;
    recording->updated_ns = now;
    recording->pause_ns = pause < LEAST_PAUSE_NS ? 0 : pause;
    recording->used_ns = command_ns(recording);
    if (now - recording->start_ns >= STARTUP_NS)
        startup_sampler_close(&recording->startup);
}

// The profile is read once more where an interval ends.
static void end_interval(struct recording *recording, uint64_t now)
{
    const bool ends = continuous_wants_profile(recording->continuous, now);
    if (ends)
        update(recording);
    continuous_turn(recording->continuous, now, !recording->write_error);
}

// Does what is due: sampling on or off, reading the memory, intervals.
static void do_what_is_due(struct recording *recording)
{
    uint64_t now = now_ns(CLOCK_MONOTONIC);
    if (now >= recording->on_ns) {
        session_set_recording(&recording->session, true);
        recording->on_ns = NEVER;
    }
    if (now >= recording->off_ns) {
        session_set_recording(&recording->session, false);
        recording->off_ns = NEVER;
    }
    if (now >= recording->update_ns)
        update_if_worthwhile(recording, now);
    if (recording->continuous)
        end_interval(recording, now);
}

static uint64_t when_due(const struct recording *recording)
{
    uint64_t due = earliest(recording->update_ns, earliest(recording->on_ns, recording->off_ns));
    return recording->continuous ? earliest(due, continuous_due(recording->continuous)) : due;
}

// Before it is waited for: its CPU time is known until then.
static void read_ended_command(const struct recording *recording)
{
    siginfo_t info = {.si_pid = 0};
    if (recording->outside && !recording->ended &&
        !waitid(P_PID, (id_t)recording->command, &info, WEXITED | WNOHANG | WNOWAIT) && info.si_pid)
        outside_read(recording->outside);
}

static void collect_command(struct recording *recording)
{
    struct rusage usage;
    read_ended_command(recording);
    if (recording->ended || wait4(recording->command, &recording->command_status, WNOHANG,
                                  &usage) != recording->command)
        return;
    recording->ended = true;
    recording->cpu_ns = time_ns(usage.ru_utime) + time_ns(usage.ru_stime);
    recorder_command_ended(recording->recorder, (uint32_t)recording->command, recording->cpu_ns);
}

static bool asks_to_end(uint32_t signal)
{
    return signal == SIGINT || signal == SIGQUIT || signal == SIGTERM || signal == SIGHUP;
}

static void take_signals(struct recording *recording)
{
    struct signalfd_siginfo info;
    while (signals_next(recording->ends.signals, recording->command, &info)) {
        if (info.ssi_signo == SIGCHLD) {
            collect_command(recording);
            continue;
        }
        signals_note_group(&recording->group, &info);
        recording->stop |= recording->ended && asks_to_end(info.ssi_signo);
    }
}

static void forward_signals(struct recording *recording)
{
    struct signalfd_siginfo info;
    ssize_t bytes;
    while ((bytes = read(recording->ends.passed, &info, sizeof info)) == sizeof info) {
        take_signals(recording);
        if (signals_came_to_group(&recording->group, &info))
            continue;
        if (!recording->ended)
            signals_pass_on(recording->command, &info);
        recording->stop |= recording->ended && asks_to_end(info.ssi_signo);
    }
    if (bytes == 0) { // the front is gone, and poll() would tell of that again and again
        close(recording->ends.passed);
        recording->ends.passed = -1;
    }
    take_signals(recording);
}

// Sleeps until a signal comes (SIGCHLD is one) or something is due.
static void wait_a_while(struct recording *recording)
{
    struct pollfd sources[] = {{.fd = recording->ends.signals, .events = POLLIN},
                               {.fd = recording->ends.passed, .events = POLLIN}};
    uint64_t due = when_due(recording);
    uint64_t now = now_ns(CLOCK_MONOTONIC);
    struct timespec pause = {0};
    if (due > now) {
        pause.tv_sec = (time_t)((due - now) / NS_PER_S);
        pause.tv_nsec = (long)((due - now) % NS_PER_S);
    }
    if (ppoll(sources, 2, &pause, NULL) > 0)
        forward_signals(recording);
}

static int wait_for_command(struct recording *recording)
{
    while (!recording->ended) {
        wait_a_while(recording);
        do_what_is_due(recording);
    }
    int status = recording->command_status;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static unsigned live_processes(struct recording *recording)
{
    struct recorder_totals totals;
    update(recording);
    recorder_totals(recording->recorder, &totals);
    return totals.live_processes;
}

// Processes that outlive the command. One that is ending looks alive for a moment, and one that has
// been forked just now is not registered yet: an answer counts when it has not changed for a while.
static unsigned left_over_processes(struct recording *recording)
{
    bool follow = recording->options->follow_fork;
    unsigned live = live_processes(recording);
    for (int tries = 0; tries < 20; tries++) {
        if (!live && !(follow && descendants_run(recording->command, recording->session.path)))
            return 0;
        struct timespec pause = {.tv_nsec = 5 * 1000 * 1000};
        nanosleep(&pause, NULL);
        unsigned before = live;
        live = live_processes(recording);
        if (live && before && tries >= 10)
            break;
    }
    return live;
}

static void summarise(struct recording *recording, unsigned running,
                      struct recording_summary *summary)
{
    *summary = (struct recording_summary){
        .sources = recording->sources,
        .elapsed_ns = now_ns(CLOCK_MONOTONIC) - recording->start_ns,
        .cpu_ns = recording->cpu_ns,
        .running = running,
        .refused = session_refused(&recording->session),
        .started = recording->options->delay_ns == 0 || recording->on_ns == NEVER,
    };
    recorder_totals(recording->recorder, &summary->totals);
    const char *note;
    for (unsigned i = 0; (note = recorder_noted(recording->recorder, i)); i++)
        if (i < SUMMARY_NOTES)
            summary->notes[i] = strdup(note);
        else
            summary->more_notes++;
}

// Leaves the terminal, and closes all descriptors that another process may wait for. All of our own
// close on exec; the others were inherited.
static void detach(void)
{
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    DIR *folder = opendir("/proc/self/fd");
    struct dirent *entry;
    setsid();
    for (int fd = 0; fd <= 2 && nothing >= 0; fd++)
        dup2(nothing, fd);
    while (folder && (entry = readdir(folder))) {
        int fd = atoi(entry->d_name);
        if (fd > 2 && !(fcntl(fd, F_GETFD) & FD_CLOEXEC))
            close(fd);
    }
    if (folder)
        closedir(folder);
    if (nothing > 2)
        close(nothing);
}

static void wait_for_left_over(struct recording *recording)
{
    while (!recording->stop) {
        wait_a_while(recording);
        uint64_t due = recording->update_ns;
        do_what_is_due(recording);
        if (recording->update_ns != due && !left_over_processes(recording))
            break;
    }
}

static void tell(int outcome, int status)
{
    ssize_t written = write(outcome, &status, sizeof status);
    (void)written; // the front may be gone
    close(outcome);
}

static void end_outside(struct recording *recording)
{
    if (!recording->outside)
        return;
    char *note = from_outside_note(recording->outside);
    if (note)
        recorder_note(recording->recorder, note);
    free(note);
    outside_close(recording->outside);
    recording->outside = NULL;
    update(recording);
}

// The end of each recording: completes the profile, prints the summary, reports the status.
static void finish(struct recording *recording, int status)
{
    const struct record_options *options = recording->options;
    struct recording_summary summary;
    const bool to_the_end = !options->pids && !options->everything;
    unsigned running = to_the_end ? left_over_processes(recording) : 0;
    if (!to_the_end)
        update(recording);
    if (!running)
        end_outside(recording);
    if (!options->quiet && !options->json && isatty(STDERR_FILENO) && status == 128 + SIGINT)
        fputc('\n', stderr); // after the "^C" that the terminal wrote
    summarise(recording, running, &summary);
    if (recording->sources.by[LIVE_SOURCE_SIGTRAP] && event_of(options->event)->by_clock &&
        summary.elapsed_ns >= LONG_NS)
        summary.overhead = measure_overhead(record_has(options, LIVE_EVENT_WALL) ? LIVE_EVENT_WALL
                                                                                 : options->event,
                                            options->period_ns);
    recorder_overhead(recording->recorder, &summary.overhead);
    char *advice = source_advice(options, &summary);
    char *unseen = unseen_advice(options, &summary);
    char *refused = refused_advice(options, &summary);
    if (running) {
        summary.file_bytes = file_bytes(options->output);
        print_summary(options, &summary);
        detach();
        if (recording->write_error && options->strict)
            status = STATUS_MISUSE;
        tell(recording->ends.outcome, status | RECORDING_GOES_ON);
        wait_for_left_over(recording);
        end_outside(recording);
    }
    if (advice)
        recorder_note(recording->recorder, advice);
    if (unseen)
        recorder_note(recording->recorder, unseen);
    if (refused)
        recorder_note(recording->recorder, refused);
    free(advice);
    free(unseen);
    free(refused);
    int error = recorder_close(recording->recorder);
    if (recording->continuous) {
        summary.has_intervals = true;
        continuous_close(recording->continuous, &summary.intervals);
    }
    if (running)
        return;
    if (error) {
        summary.incomplete = why_not_written(error);
        summary.written_ns = recording->written_ns - recording->start_ns;
        summary.is_elsewhere = error == -ENOENT || error == -ESTALE;
        if (options->strict)
            status = STATUS_MISUSE;
    }
    summary.file_bytes = file_bytes(options->output);
    print_summary(options, &summary);
    for (unsigned i = 0; i < SUMMARY_NOTES; i++)
        free(summary.notes[i]);
    tell(recording->ends.outcome, status);
}

static struct recorder_event describe_event(const struct record_options *options,
                                            enum live_event event)
{
    const bool counts = !event_of(event)->by_clock;
    return (struct recorder_event){
        .name = event_of(event)->name,
        .unit = event_of(event)->unit,
        .period = !counts                                              ? options->period_ns
                  : event == LIVE_EVENT_CALLS && options->trigger      ? options->call_period
                  : event == LIVE_EVENT_ALLOC && options->alloc_period ? options->alloc_period
                                                                       : 1,
        .rate_requested = counts ? 0 : (double)NS_PER_S / (double)options->period_ns,
    };
}

static struct recorder_event describe_counter(const struct counter_choice *choice)
{
    const struct live_counter *counter = &choice->counter;
    return (struct recorder_event){
        .name = choice->name,
        .unit = choice->unit,
        .period = counter->is_rate ? 0 : counter->period,
        .rate_requested = counter->is_rate ? (double)counter->period : 0,
        .is_counter = true,
    };
}

// With intervals, the profile of the whole recording lies where they go. 0, or the exit status.
static int open_intervals(struct recording *recording, struct record_options *options,
                          char *const *command)
{
    char *error = NULL;
    if (!options->continuous.every_ns)
        return 0;
    destination_name_program(&options->continuous.destination, command[0]);
    recording->continuous =
        continuous_open(&options->continuous, options->quiet || options->json, &error);
    if (!recording->continuous) {
        complain("%s", error ? error : "out of memory");
        free(error);
        return STATUS_MISUSE;
    }
    options->output = continuous_profile(recording->continuous);
    return 0;
}

// The shared memory, and the profile that is written from it. 0, or the exit status.
static int open_profile(struct recording *recording, char *const *command, const char *agent_path)
{
    const struct record_options *options = recording->options;
    const struct tree_name kind = tree_name(&options->trees);
    struct recorder_description description = {
        .path = options->output,
        .command = command,
        .event_count = options->event_count,
        .tracker = live_word(LIVE_TRACKERS, options->tracker),
        .tree_kind = kind.text,
    };
    for (unsigned i = 0; i < options->event_count; i++) {
        const struct counter_choice *counter = record_counter(options, i);
        description.events[i] =
            counter ? describe_counter(counter) : describe_event(options, options->events[i]);
    }
    char *why = NULL;
    int error = session_create(&recording->session, options, agent_path);
    if (error == -EFBIG) {
        complain("the file size limit (ulimit -f) leaves no room for the shared memory, %s for "
                 "each process: raise it, or lower --memory",
                 text_bytes(options->memory).text);
        return STATUS_MISUSE;
    }
    if (error) {
        complain("cannot make the shared memory: %s", strerror(-error));
        return STATUS_FAILED;
    }
    if (options->pids && (error = attached_prepare(options, &recording->session)))
        return error;
    output_keep_previous(options->output);
    recording->recorder =
        recorder_open(&description, recording->session.fd, recording->session.shared, &why);
    if (!recording->recorder) {
        complain("%s", why ? why : "cannot write the profile");
        free(why);
        return STATUS_MISUSE;
    }
    recorder_note(recording->recorder, recording->session.note);
    if (*recording->session.kernel)
        recorder_kernel(recording->recorder, recording->session.kernel);
    return 0;
}

static void start_time(struct recording *recording)
{
    const struct record_options *options = recording->options;
    recording->start_ns = recording->written_ns = now_ns(CLOCK_MONOTONIC);
    recording->update_ns = recording->start_ns + UPDATE_NS;
    uint64_t on_ns = recording->start_ns + options->delay_ns;
    recording->on_ns = options->delay_ns ? on_ns : NEVER;
    recording->off_ns = options->duration_ns ? on_ns + options->duration_ns : NEVER;
}

static int prepare_outside(void *context, pid_t pid)
{
    struct recording *recording = context;
    return outside_add(recording->outside, pid, OUTSIDE_FROM_EXEC);
}

static int prepare_nothing(void *context, pid_t pid)
{
    (void)context;
    (void)pid;
    return 0;
}

// The kernel ends events on a process that gains rights by exec: these come afterwards.
static pid_t start_outside(struct recording *recording, const struct launch *launch,
                           const struct inherited *inherited)
{
    recording->outside = from_outside_open(recording->options, &recording->session);
    if (!recording->outside)
        return -ENOMEM;
    if (recording->options->everything) {
        const int error = from_outside_add(recording->outside, recording->options);
        return error ? error : launch_start_outside(launch, inherited, prepare_nothing, recording);
    }
    if (!launch->gains_rights)
        return launch_start_outside(launch, inherited, prepare_outside, recording);
    const pid_t pid = launch_start_outside(launch, inherited, prepare_nothing, recording);
    const int error = pid > 0 ? outside_add(recording->outside, pid, OUTSIDE_NOW) : 0;
    if (error && error != -ESRCH)
        complain("%s runs unprofiled: %s", launch->command[0], strerror(-error));
    return pid;
}

static int start(struct recording *recording, const struct launch *launch,
                 const struct inherited *inherited)
{
    const struct record_options *options = recording->options;
    const int status = open_profile(recording, options->command, launch->agent_path);
    if (status)
        return status;
    start_time(recording);
    const bool samples_startup = recording->session.shared->startup_sampled;
    pid_t pid = launch->from_outside ? start_outside(recording, launch, inherited)
                                     : launch_start(launch, inherited, recording->session.path,
                                                    samples_startup ? &recording->startup : NULL);
    if (pid < 0) {
        end_outside(recording);
        complain("cannot run %s: %s", options->command[0], strerror(-pid));
        recorder_close(recording->recorder);
        return pid == -ENOENT ? STATUS_NOT_FOUND : STATUS_NOT_EXECUTABLE;
    }
    recording->command = pid;
    recorder_startup(recording->recorder, startup_sampler_read, &recording->startup);
    return 0;
}

void run_recording(const struct record_options *given, const struct launch *launch,
                   const struct inherited *inherited, const struct recording_ends *ends)
{
    struct record_options options = *given;
    struct recording recording = {.options = &options, .ends = *ends, .startup = {.event = -1}};
    int status = open_intervals(&recording, &options, options.command);
    if (!status)
        status = start(&recording, launch, inherited);
    if (status) {
        continuous_discard(recording.continuous);
        tell(ends->outcome, status);
        return;
    }
    status = wait_for_command(&recording);
    finish(&recording, status);
}

// Until somebody asks for the end, the time is up, or none of the processes runs any more.
static void wait_for_end(struct recording *recording)
{
    struct pollfd asked = {.fd = recording->ends.passed, .events = POLLIN};
    const uint64_t end_ns = recording->off_ns;
    while (now_ns(CLOCK_MONOTONIC) < end_ns &&
           (recording->options->everything || attached_run(recording->options))) {
        const uint64_t now = now_ns(CLOCK_MONOTONIC), due = when_due(recording);
        const uint64_t pause = due > now ? (due - now) / 1000000 + 1 : 0;
        if (poll(&asked, 1, pause < ATTACHED_LOOK_MS ? (int)pause : ATTACHED_LOOK_MS) > 0)
            return; // a signal, or the end of the front
        recording->off_ns = NEVER;
        do_what_is_due(recording);
        recording->off_ns = end_ns;
    }
}

// 0, or the exit status after a message; then the agent has left all processes.
static int begin_outside(struct recording *recording)
{
    const struct record_options *options = recording->options;
    if (!options->everything && options->entered_count == options->pid_count)
        return 0;
    recording->outside = from_outside_open(options, &recording->session);
    const int error = recording->outside ? from_outside_add(recording->outside, options) : -ENOMEM;
    if (!error)
        return 0;
    complain("cannot sample from outside: %s", strerror(-error));
    if (recording->outside)
        outside_close(recording->outside);
    recording->outside = NULL;
    attached_leave(options, &recording->session);
    return STATUS_MISUSE;
}

void run_attached_recording(const struct record_options *given, const char *agent_path,
                            const struct recording_ends *ends)
{
    struct record_options changed = *given, *const options = &changed;
    struct recording recording = {
        .options = options, .ends = *ends, .startup = {.event = -1}, .ended = true};
    options->command = attached_command(options);
    int status =
        options->command ? open_intervals(&recording, options, options->command) : STATUS_FAILED;
    if (!status)
        status = open_profile(&recording, options->command, agent_path);
    if (!status && ((status = attached_begin(options, &recording.session)) ||
                    (status = begin_outside(&recording))))
        recorder_close(recording.recorder);
    if (status) {
        continuous_discard(recording.continuous);
        tell(ends->outcome, status);
        return;
    }
    start_time(&recording);
    wait_for_end(&recording);
    attached_leave(options, &recording.session);
    finish(&recording, 0);
}
