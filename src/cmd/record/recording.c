// SPDX-License-Identifier: MIT

#include "cmd/record/recording.h"
#include "base/new_file.h"
#include "base/now.h"
#include "base/text/text.h"
#include "cmd/record/descendants.h"
#include "cmd/record/overhead.h"
#include "cmd/record/session.h"
#include "cmd/record/signals.h"
#include "cmd/record/status.h"
#include "event/event.h"
#include "profile/output.h"
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
#define NEVER UINT64_MAX
#define STARTUP_NS (3 * NS_PER_S) // where the agent has not come by then, it never will
#define LONG_NS NS_PER_S          // a recording that can bear to be followed by a measurement

struct recording {
    const struct record_options *options;
    struct session session;
    struct startup_sampler startup;
    struct recorder *recorder;
    struct session_sources sources;
    uint64_t start_ns;      // monotonic clock, as all that follow
    uint64_t update_ns;     // when to read the memory next
    uint64_t updated_ns;    // when it was read last,
    uint64_t pause_ns;      // for how long to leave it alone then,
    uint64_t used_ns;       // and what the command had used of the processor
    uint64_t on_ns, off_ns; // when to switch sampling; NEVER: not, or done
    int signals;
    int passed; // signals that the front passes on; not blocking
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
    return now - recording->updated_ns < LONGEST_UPDATE_NS &&
           command_ns(recording) - recording->used_ns < recording->pause_ns;
}

static void update_if_worthwhile(struct recording *recording, uint64_t now)
{
    recording->update_ns = now + UPDATE_NS;
    if (was_read_lately(recording, now))
        return;
    const uint64_t start = now_ns(CLOCK_PROCESS_CPUTIME_ID);
    update(recording);
    const uint64_t pause = (now_ns(CLOCK_PROCESS_CPUTIME_ID) - start) * UPDATE_PART;
    recording->updated_ns = now;
    recording->pause_ns = pause < LEAST_PAUSE_NS ? 0 : pause;
    recording->used_ns = command_ns(recording);
    if (now - recording->start_ns >= STARTUP_NS)
        startup_sampler_close(&recording->startup);
}

// Does what is due: sampling on or off, reading the memory.
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
}

static void collect_command(struct recording *recording)
{
    struct rusage usage;
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
    while (signals_next(recording->signals, recording->command, &info)) {
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
    while ((bytes = read(recording->passed, &info, sizeof info)) == sizeof info) {
        take_signals(recording);
        if (signals_came_to_group(&recording->group, &info))
            continue;
        if (!recording->ended)
            signals_pass_on(recording->command, &info);
        recording->stop |= recording->ended && asks_to_end(info.ssi_signo);
    }
    if (bytes == 0) { // the front is gone, and poll() would tell of that again and again
        close(recording->passed);
        recording->passed = -1;
    }
    take_signals(recording);
}

// Sleeps until a signal comes (SIGCHLD is one) or something is due.
static void wait_a_while(struct recording *recording)
{
    struct pollfd sources[] = {{.fd = recording->signals, .events = POLLIN},
                               {.fd = recording->passed, .events = POLLIN}};
    uint64_t due = earliest(recording->update_ns, earliest(recording->on_ns, recording->off_ns));
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

// The end of each recording: completes the profile, prints the summary, reports the status.
static void finish(struct recording *recording, int status, int outcome)
{
    const struct record_options *options = recording->options;
    struct recording_summary summary;
    unsigned running = left_over_processes(recording);
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
        tell(outcome, status | RECORDING_GOES_ON);
        wait_for_left_over(recording);
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
    tell(outcome, status);
}

static struct recorder_event describe_event(const struct record_options *options,
                                            enum live_event event)
{
    const bool counts = !event_of(event)->by_clock;
    return (struct recorder_event){
        .name = event_of(event)->name,
        .unit = event_of(event)->unit,
        .period = !counts                                         ? options->period_ns
                  : event == LIVE_EVENT_CALLS && options->trigger ? options->call_period
                                                                  : 1,
        .rate_requested = counts ? 0 : (double)NS_PER_S / (double)options->period_ns,
    };
}

static int start(struct recording *recording, const struct launch *launch,
                 const struct inherited *inherited)
{
    const struct record_options *options = recording->options;
    const struct tree_name kind = tree_name(&options->trees);
    struct recorder_description description = {
        .path = options->output,
        .command = options->command,
        .event_count = options->event_count,
        .tracker = live_tracker_name(options->tracker),
        .tree_kind = kind.text,
    };
    for (unsigned i = 0; i < options->event_count; i++)
        description.events[i] = describe_event(options, options->events[i]);
    char *why = NULL;
    int error = session_create(&recording->session, options, launch->agent_path);
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
    recording->start_ns = recording->written_ns = now_ns(CLOCK_MONOTONIC);
    recording->update_ns = recording->start_ns + UPDATE_NS;
    uint64_t on_ns = recording->start_ns + options->delay_ns;
    recording->on_ns = options->delay_ns ? on_ns : NEVER;
    recording->off_ns = options->duration_ns ? on_ns + options->duration_ns : NEVER;
    const bool samples_startup = recording->session.shared->startup_sampled;
    pid_t pid = launch_start(launch, inherited, recording->session.path,
                             samples_startup ? &recording->startup : NULL);
    if (pid < 0) {
        complain("cannot run %s: %s", options->command[0], strerror(-pid));
        recorder_close(recording->recorder);
        return pid == -ENOENT ? STATUS_NOT_FOUND : STATUS_NOT_EXECUTABLE;
    }
    recording->command = pid;
    recorder_startup(recording->recorder, startup_sampler_read, &recording->startup);
    return 0;
}

void run_recording(const struct record_options *options, const struct launch *launch,
                   const struct inherited *inherited, int signals, int passed, int outcome)
{
    struct recording recording = {
        .options = options, .signals = signals, .passed = passed, .startup = {.event = -1}};
    int status = start(&recording, launch, inherited);
    if (status) {
        tell(outcome, status);
        return;
    }
    status = wait_for_command(&recording);
    finish(&recording, status, outcome);
}
