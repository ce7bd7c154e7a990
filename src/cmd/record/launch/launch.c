// SPDX-License-Identifier: MIT

#include "cmd/record/launch/launch.h"
#include "cmd/line/command.h"
#include "live/live.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define AGENT_VARIABLE "CAIRN_AGENT_PATH"

static bool set_agent(struct launch *launch, const char *path)
{
    char resolved[PATH_MAX];
    if (!realpath(path, resolved) || access(resolved, R_OK))
        return false;
    if (strlen(resolved) >= sizeof launch->agent_path)
        return false;
    strcpy(launch->agent_path, resolved);
    return true;
}

int launch_find_agent(struct launch *launch, const char *name)
{
    const char *given = getenv(AGENT_VARIABLE);
    char tool[PATH_MAX], candidate[2 * PATH_MAX];
    if (given && *given) {
        if (!set_agent(launch, given)) {
            complain("cannot read the agent %s: correct " AGENT_VARIABLE ", or unset it", given);
            return STATUS_MISUSE;
        }
    } else {
        ssize_t length = readlink("/proc/self/exe", tool, sizeof tool - 1);
        if (length < 0) {
            complain("cannot read /proc/self/exe: cairn needs /proc to be mounted");
            return STATUS_MISUSE;
        }
        tool[length] = 0;
        *strrchr(tool, '/') = 0;
        snprintf(candidate, sizeof candidate, "%s/%s", tool, name);
        bool found = set_agent(launch, candidate);
        if (!found) {
            const bool whole = AGENT_FROM_TOOL[0] == '/';
            snprintf(candidate, sizeof candidate, "%s%s" AGENT_FROM_TOOL "/%s", whole ? "" : tool,
                     whole ? "" : "/", name);
            found = set_agent(launch, candidate);
        }
        if (!found) {
            complain("cannot find %s beside %s/cairn: install cairn again, or name the file "
                     "in " AGENT_VARIABLE,
                     name, tool);
            return STATUS_MISUSE;
        }
    }
    // The loader splits LD_PRELOAD at both, and knows no way to quote them.
    if (strpbrk(launch->agent_path, " :")) {
        complain("the loader cannot preload '%s', for the blank or colon in its path: copy it "
                 "elsewhere, and name it in " AGENT_VARIABLE,
                 launch->agent_path);
        return STATUS_MISUSE;
    }
    return 0;
}

// Limits that are meant for the command. The first counts for the shared memory, too, which is huge
// if only in name; the others for all of it that the recorder maps.
static const int widened[LAUNCH_LIMITS] = {RLIMIT_FSIZE, RLIMIT_AS, RLIMIT_DATA};

void launch_take_over(struct inherited *inherited, const sigset_t *blocked)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN}, standard = {.sa_handler = SIG_DFL};
    sigprocmask(SIG_BLOCK, blocked, &inherited->mask);
    // An inherited "ignore" would take the exit status of the command from us.
    sigaction(SIGCHLD, &standard, &inherited->child);
    // Neither a reader of our stderr that goes away nor a file size limit may end the recording.
    sigaction(SIGPIPE, &ignore, &inherited->pipe);
    sigaction(SIGXFSZ, &ignore, &inherited->file_size);
    for (unsigned i = 0; i < LAUNCH_LIMITS; i++)
        if (!getrlimit(widened[i], &inherited->limits[i])) {
            const rlim_t most = inherited->limits[i].rlim_max;
            setrlimit(widened[i], &(struct rlimit){most, most});
        }
}

static void give_back(const struct inherited *inherited)
{
    sigaction(SIGCHLD, &inherited->child, NULL);
    sigaction(SIGPIPE, &inherited->pipe, NULL);
    sigaction(SIGXFSZ, &inherited->file_size, NULL);
    for (unsigned i = 0; i < LAUNCH_LIMITS; i++)
        setrlimit(widened[i], &inherited->limits[i]);
    sigprocmask(SIG_SETMASK, &inherited->mask, NULL);
}

static int set_environment(const struct launch *launch, const char *session_path)
{
    const char *others = getenv("LD_PRELOAD");
    char *preload = NULL;
    if (asprintf(&preload, "%s%s%s", launch->agent_path, others && *others ? ":" : "",
                 others ? others : "") < 0)
        return -ENOMEM;
    char *bind_now = launch->bind_now && !getenv("LD_BIND_NOW") ? strdup(LIVE_BIND_NOW) : NULL;
    if (bind_now && putenv(bind_now))
        return -ENOMEM;
    static char even[] = LIVE_EVEN;
    if ((1 + (bind_now != NULL) + !(others && *others)) % 2 && putenv(even))
        return -ENOMEM;
    if (setenv("LD_PRELOAD", preload, 1) || setenv(LIVE_ENVIRONMENT, session_path, 1))
        return -ENOMEM;
    return 0;
}

static int execute(const struct launch *launch)
{
    if (!launch->through_shell) {
        execv(launch->path, launch->command);
        return -errno;
    }
    size_t count = 0;
    while (launch->command[count])
        count++;
    char **shell = calloc(count + 2, sizeof *shell);
    if (!shell)
        return -ENOMEM;
    shell[0] = "/bin/sh";
    shell[1] = (char *)launch->path;
    for (size_t i = 1; i < count; i++)
        shell[i + 1] = launch->command[i];
    execv(shell[0], shell);
    return -errno;
}

// The channels between the recorder and the process that is to become the command.
struct channels {
    int report[2];  // closes by itself when the new program begins; else it brings the error
    int startup[2]; // for the sampler; -1: there is none
    int go_on[2];   // it waits for a byte; -1: it does not
};

static void become_command(const struct launch *launch, const struct inherited *inherited,
                           const char *session_path, const struct channels *channels)
{
    int error = session_path ? set_environment(launch, session_path) : 0;
    char byte;
    if (channels->go_on[0] >= 0 && read(channels->go_on[0], &byte, 1) != 1)
        _exit(STATUS_FAILED);
    if (channels->startup[1] >= 0)
        startup_sampler_offer(channels->startup[1]);
    give_back(inherited);
    if (!error)
        error = execute(launch);
    ssize_t written = write(channels->report[1], &error, sizeof error);
    _exit(written < 0 ? STATUS_FAILED : STATUS_NOT_EXECUTABLE);
}

static int wait_for_exec(pid_t pid, int report)
{
    int error = 0;
    ssize_t length;
    do
        length = read(report, &error, sizeof error);
    while (length < 0 && errno == EINTR);
    if (length != sizeof error)
        return 0;
    waitpid(pid, NULL, 0);
    return error;
}

pid_t launch_start(const struct launch *launch, const struct inherited *inherited,
                   const char *session_path, struct startup_sampler *sampler)
{
    struct channels channels = {.go_on = {-1, -1}};
    if (pipe2(channels.report, O_CLOEXEC))
        return -errno;
    if (!sampler || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, channels.startup))
        channels.startup[0] = channels.startup[1] = -1;
    pid_t pid = fork();
    if (pid == 0)
        become_command(launch, inherited, session_path, &channels);
    int error = pid < 0 ? -errno : 0;
    close(channels.report[1]);
    if (channels.startup[1] >= 0) {
        close(channels.startup[1]);
        if (pid > 0)
            startup_sampler_take(sampler, pid, channels.startup[0]);
        close(channels.startup[0]);
    }
    if (pid > 0)
        error = wait_for_exec(pid, channels.report[0]);
    close(channels.report[0]);
    return error ? error : pid;
}

static int let_go_on(int channel)
{
    const char byte = 0;
    return write(channel, &byte, 1) == 1 ? 0 : -EPIPE;
}

pid_t launch_start_outside(const struct launch *launch, const struct inherited *inherited,
                           int (*prepare)(void *context, pid_t pid), void *context)
{
    struct channels channels = {.startup = {-1, -1}};
    if (pipe2(channels.report, O_CLOEXEC))
        return -errno;
    if (pipe2(channels.go_on, O_CLOEXEC)) {
        const int error = -errno;
        close(channels.report[0]);
        close(channels.report[1]);
        return error;
    }
    const pid_t pid = fork();
    if (pid == 0) {
        close(channels.go_on[1]); // else it would wait for itself
        become_command(launch, inherited, NULL, &channels);
    }
    int error = pid < 0 ? -errno : prepare(context, pid);
    if (!error)
        error = let_go_on(channels.go_on[1]);
    close(channels.go_on[0]);
    close(channels.go_on[1]);
    close(channels.report[1]);
    if (pid > 0 && error)
        waitpid(pid, NULL, 0); // it ends by itself
    else if (pid > 0)
        error = wait_for_exec(pid, channels.report[0]);
    close(channels.report[0]);
    return error ? error : pid;
}
