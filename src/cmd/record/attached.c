// SPDX-License-Identifier: MIT
#include "cmd/record/attached.h"
#include "base/memory.h"
#include "cmd/line/command.h"
#include "cmd/record/from_outside.h"
#include "inject/inject.h"
#include "inject/process.h"
#include "inject/stopped.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MOST_TRIES 100
#define ASK_PASSES 3
#define MOST_PASSES 8 // over all processes: some may have been forked meanwhile

static const char *why_not_ready(const struct live_attached *state)
{
    switch (atomic_load_explicit(&state->state, memory_order_relaxed)) {
    case LIVE_ATTACH_RECORDED:
        return "is profiled already: one recording at a time";
    case LIVE_ATTACH_LINKED:
        return "is linked with libcairn: it begins a recording with cairn_start()";
    default:
        return NULL;
    }
}

// False: it cannot be recorded, and that was said.
static bool check(const struct record_options *options, pid_t pid, const char *agent_path,
                  bool *enters)
{
    struct target target;
    struct live_attached state;
    *enters = target_examine(&target, pid, agent_path);
    if (!*enters && target.fits_outside)
        return !from_outside_check(options, target.why, pid);
    if (!*enters) {
        complain("%s", target.why);
        return false;
    }
    const char *why = target_state(&target, &state) ? why_not_ready(&state) : NULL;
    if (why)
        complain("process %d %s", (int)target.pid, why);
    return !why;
}

int attached_check(struct record_options *options, const char *agent_path)
{
    unsigned last = options->pid_count;
    for (options->entered_count = 0; options->entered_count < last;) {
        pid_t *pid = &options->pids[options->entered_count], other;
        bool enters;
        if (!check(options, *pid, agent_path, &enters))
            return STATUS_MISUSE;
        if (enters) {
            options->entered_count++;
            continue;
        }
        other = options->pids[--last];
        options->pids[last] = *pid;
        *pid = other;
    }
    return 0;
}

static size_t read_arguments(pid_t pid, char *text, size_t bytes)
{
    char path[40];
    snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pid);
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t length = file < 0 ? 0 : read(file, text, bytes - 1);
    if (file >= 0)
        close(file);
    text[length > 0 ? length : 0] = 0;
    return length > 0 ? (size_t)length : 0;
}

static size_t arguments_until(const char *text, size_t end)
{
    size_t count = 1;
    for (size_t at = 0; at < end; at += strlen(text + at) + 1)
        count++;
    return count;
}

char **attached_command(const struct record_options *options)
{
    enum { MOST = 65536 };
    char *text = malloc(MOST);
    const size_t length = text && options->pids ? read_arguments(options->pids[0], text, MOST) : 0;
    size_t count = 0;
    for (size_t at = 0; at < length; at += strlen(text + at) + 1)
        if (text[at]) // a title that a program has written over its arguments ends in empty ones
            count = arguments_until(text, at);
    char **command = text ? calloc(count + 2, sizeof *command) : NULL;
    if (!command)
        return NULL;
    if (options->everything)
        command[0] = strdup("(whole machine)");
    else if (!count && asprintf(&command[0], "process %d", (int)options->pids[0]) < 0)
        return NULL;
    for (size_t i = 0, at = 0; i < count; i++, at += strlen(text + at) + 1)
        command[i] = text + at;
    return command;
}

// The user whose processes they are, where that is another one than ours. False: they are of
// several.
static bool find_owner(const struct record_options *options, uid_t *owner)
{
    *owner = geteuid();
    for (unsigned i = 0; i < options->entered_count; i++) {
        struct process_status status;
        unsigned real = 0, effective = geteuid();
        if (!process_read_status(options->pids[i], options->pids[i], &status) ||
            sscanf(process_field(&status, "Uid"), "%u %u", &real, &effective) != 2 ||
            effective == 0 || effective == geteuid())
            continue;
        if (*owner != geteuid() && *owner != effective)
            return false;
        *owner = effective;
    }
    return true;
}

// Robust: the kernel says in it that we are dead.
static int hold_mutex(pthread_mutex_t *mutex)
{
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    int error = pthread_mutex_init(mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
    return error ? error : pthread_mutex_lock(mutex);
}

int attached_prepare(const struct record_options *options, struct session *session)
{
    uid_t owner;
    if (!find_owner(options, &owner)) {
        complain("these processes are of several users: record those of one at a time");
        return STATUS_MISUSE;
    }
    const int error = owner != geteuid() ? session_share(session, owner) : 0;
    if (error) {
        complain("cannot share memory with processes of another user: %s", strerror(-error));
        return STATUS_FAILED;
    }
    return hold_mutex(&session->shared->tool) ? STATUS_FAILED : 0;
}

// Another cairn that was killed may have asked a moment ago.
static long ask(struct target *target, struct live_attach_request *request)
{
    long answer = -EAGAIN;
    for (int i = 0; i < MOST_TRIES && answer == -EAGAIN; i++) {
        if (i)
            nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        answer = inject_request(target, request);
    }
    return answer;
}

static const char *why_not_begun(long answer)
{
    return answer == -EBUSY                        ? "is profiled already"
           : answer == -EACCES || answer == -EPERM ? "cannot open the memory of the recording"
           : answer == -ENOMEM                     ? "has no memory for a recording"
           : answer == -ENOSPC                     ? "found no room in the recording"
           : answer == -ENOTSUP ? "may not see its threads wait: kernel.perf_event_paranoid=1 "
                                  "permits it, and -e cpu does without"
           : answer == -EPROTO  ? "has the agent of another version of cairn"
                                : strerror((int)-answer);
}

static bool begin_in(pid_t pid, const struct session *session)
{
    struct target target;
    struct live_attach_request request = {.wish = LIVE_ATTACH_BEGIN};
    snprintf(request.session_path, sizeof request.session_path, "%s", session->path);
    if (!target_examine(&target, pid, session->shared->agent_path)) {
        complain("%s", target.why);
        return false;
    }
    const long answer = ask(&target, &request);
    if (answer == INJECT_NOT_CALLED || answer == INJECT_NOT_LOADED)
        complain("%s", target.why);
    else if (answer)
        complain("process %d %s", (int)pid, why_not_begun(answer));
    return answer == 0;
}

// False: it may come yet.
static bool let_tick_arrive(struct target *target, pid_t tid)
{
    struct live_attach_request request = {.wish = LIVE_ATTACH_SAMPLE};
    struct process_status status;
    const char state =
        process_read_status(target->pid, tid, &status) ? *process_field(&status, "State") : 0;
    if (!state || state == 'Z' || state == 'X')
        return true;
    if (state == 'D')
        return false; // it does not stop
    // One that waits for a time would not go on waiting after a handler: it is led past its tick.
    if (state == 'S' && inject_waiting(target, tid, &request) != INJECT_NOT_CALLED)
        return true;
    struct stopped stopped;
    const int error = stopped_begin(&stopped, target, tid);
    if (!error)
        stopped_end(&stopped);
    return !error || error == -ESRCH;
}

static bool let_all_ticks_arrive(struct target *target)
{
    char path[40];
    bool arrived = true;
    snprintf(path, sizeof path, "/proc/%d/task", (int)target->pid);
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        if (entry->d_name[0] != '.')
            arrived &= let_tick_arrive(target, (pid_t)atol(entry->d_name));
    if (folder)
        closedir(folder);
    return arrived;
}

// A tick may still be on its way, to a thread that is in the kernel. A stop lets it arrive.
static bool flush_ticks(struct target *target, const struct live_attach_request *left)
{
    bool arrived = true;
    if (left->ticked_count > LIVE_ATTACH_TICKED)
        return let_all_ticks_arrive(target);
    for (uint32_t i = 0; i < left->ticked_count; i++)
        arrived &= let_tick_arrive(target, left->ticked[i]);
    return arrived;
}

// How processes are left.
struct attached_leave {
    const char *agent_path;
    bool asks_waiting; // where they wait, as that counts
};

static bool waits(pid_t pid, pid_t tid)
{
    struct process_status status;
    return process_read_status(pid, tid, &status) && *process_field(&status, "State") == 'S';
}

static bool is_among(const pid_t *list, size_t count, pid_t tid)
{
    while (count--)
        if (list[count] == tid)
            return true;
    return false;
}

// Those that run now may wait a moment later.
static void ask_waiting(struct target *target)
{
    pid_t *asked = NULL;
    size_t count = 0, capacity = 0;
    char path[40];
    snprintf(path, sizeof path, "/proc/%d/task", (int)target->pid);
    for (unsigned pass = 0; pass < ASK_PASSES; pass++) {
        DIR *folder = opendir(path);
        for (struct dirent *entry; folder && (entry = readdir(folder));) {
            const pid_t tid = (pid_t)atol(entry->d_name);
            struct live_attach_request request = {.wish = LIVE_ATTACH_SAMPLE};
            if (!tid || is_among(asked, count, tid) || !waits(target->pid, tid) ||
                inject_waiting(target, tid, &request))
                continue;
            asked = memory_grown(asked, &capacity, count + 1, sizeof *asked);
            asked[count++] = tid;
        }
        if (folder)
            closedir(folder);
    }
    free(asked);
}

// False: there is nothing to leave.
static bool leave(pid_t pid, const struct attached_leave *leaving)
{
    struct target target;
    struct live_attached state;
    struct live_attach_request leave = {.wish = LIVE_ATTACH_LEAVE, .ticked_count = UINT32_MAX},
                               forget = {.wish = LIVE_ATTACH_FORGET};
    if (!process_runs(pid) || !target_examine(&target, pid, leaving->agent_path) ||
        !target_state(&target, &state) ||
        atomic_load_explicit(&state.state, memory_order_relaxed) != LIVE_ATTACH_RECORDING)
        return false;
    if (leaving->asks_waiting)
        ask_waiting(&target);
    if (ask(&target, &leave))
        return false;
    if (flush_ticks(&target, &leave)) // else the handlers stay: a tick without one is the end
        ask(&target, &forget);
    return true;
}

static struct attached_leave leave_of(const struct record_options *options, const char *agent_path)
{
    return (struct attached_leave){.agent_path = agent_path,
                                   .asks_waiting = record_has(options, LIVE_EVENT_WALL)};
}

int attached_begin(const struct record_options *options, const struct session *session)
{
    const struct attached_leave leaving = leave_of(options, session->shared->agent_path);
    for (unsigned i = 0; i < options->entered_count; i++)
        if (!begin_in(options->pids[i], session)) {
            while (i--)
                leave(options->pids[i], &leaving);
            return STATUS_MISUSE;
        }
    return 0;
}

bool attached_run(const struct record_options *options)
{
    stopped_settle_late();
    for (unsigned i = 0; i < options->pid_count; i++)
        if (process_runs(options->pids[i]))
            return true;
    return false;
}

static bool leave_all(const struct session *session, const struct attached_leave *leaving)
{
    const uint64_t count = atomic_load_explicit(&session->shared->slices, memory_order_relaxed);
    bool any = false;
    for (uint64_t i = 0; i < count && i < session->slices; i++) {
        struct live_process process;
        const off_t offset = (off_t)(LIVE_SESSION_BYTES + i * session->slice_bytes);
        if (pread(session->fd, &process, sizeof process, offset) == sizeof process && process.pid &&
            !atomic_load_explicit(&process.end_ns, memory_order_relaxed))
            any |= leave((pid_t)process.pid, leaving);
    }
    return any;
}

void attached_leave_given(const struct record_options *options, const char *agent_path)
{
    const struct attached_leave leaving = leave_of(options, agent_path);
    for (unsigned i = 0; i < options->entered_count; i++)
        leave(options->pids[i], &leaving);
}

void attached_leave(const struct record_options *options, const struct session *session)
{
    const struct attached_leave leaving = leave_of(options, session->shared->agent_path);
    attached_leave_given(options, session->shared->agent_path);
    for (int i = 0; i < MOST_PASSES && leave_all(session, &leaving); i++) {
    }
    session_unshare(session);
}
