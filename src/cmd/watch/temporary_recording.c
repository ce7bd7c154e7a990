// SPDX-License-Identifier: MIT
#include "cmd/watch/temporary_recording.h"
#include "base/memory.h"
#include "cmd/line/command.h"
#include "cmd/watch/find_recording.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOOK_MS 20

// The guard

static void remove_folder(const char *path)
{
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        unlinkat(dirfd(folder), entry->d_name, 0); // "." and ".." stay
    if (folder)
        closedir(folder);
    rmdir(path);
}

static int status_of(int ended)
{
    return WIFEXITED(ended) ? WEXITSTATUS(ended) : STATUS_FAILED;
}

static void record(char **words, pid_t guard, const sigset_t *mask)
{
    size_t count = 0;
    while (words[count])
        count++;
    // Nobody else would end it if the guard was killed.
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != guard)
        _exit(STATUS_FAILED);
    sigprocmask(SIG_SETMASK, mask, NULL);
    const int status = command_record.run((int)count, words);
    fflush(NULL);
    _exit(status);
}

// Until the recording has ended: of itself, or because the tool wants that or is gone.
static int wait_for_recording(pid_t recording, int signals, int wishes)
{
    struct pollfd sources[] = {{.fd = signals, .events = POLLIN}, {.fd = wishes, .events = POLLIN}};
    int ended = 0;
    while (waitpid(recording, &ended, WNOHANG) == 0) {
        struct signalfd_siginfo info;
        char wish;
        if (poll(sources, 2, -1) < 0)
            continue;
        if (sources[0].revents && read(signals, &info, sizeof info) < 0)
            continue;
        if (!sources[1].revents)
            continue;
        kill(recording, SIGTERM);
        if (read(wishes, &wish, 1) <= 0)
            sources[1].fd = -1;
    }
    return status_of(ended);
}

static void guard(const struct temporary_recording *recording, char **words, int wishes,
                  int outcome)
{
    sigset_t child, before;
    const pid_t self = getpid();
    const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    setsid();
    dup2(nothing, STDIN_FILENO);
    dup2(nothing, STDOUT_FILENO);
    dup2(recording->messages, STDERR_FILENO);
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, &before);
    const int signals = signalfd(-1, &child, SFD_CLOEXEC);
    const pid_t pid = fork();
    if (pid == 0) {
        close(wishes);
        close(outcome);
        record(words, self, &before);
    }
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    const int status = pid < 0 ? STATUS_FAILED : wait_for_recording(pid, signals, wishes);
    char wish;
    const ssize_t told = write(outcome, &status, sizeof status);
    while (told > 0 && status == 0 && read(wishes, &wish, 1) > 0) {
    }
    remove_folder(recording->folder);
    _exit(0);
}

// The tool

static int complain_begin(const char *command)
{
    complain("%s: cannot begin a recording: %s", command, strerror(errno));
    return STATUS_FAILED;
}

static char **command_line(const struct temporary_recording *recording, char *const *words)
{
    size_t count = 0;
    while (words[count])
        count++;
    const char *const begin[] = {"record", "--no-config", "-q", "-o", recording->path};
    const size_t begins = sizeof begin / sizeof *begin;
    char **line = memory_array(count + begins + 1, sizeof *line);
    memcpy(line, begin, sizeof begin);
    memcpy(line + begins, words, count * sizeof *words);
    return line;
}

int temporary_recording_begin(struct temporary_recording *recording, const char *command,
                              char *const *words)
{
    const char *parent = getenv("TMPDIR");
    int wishes[2], outcome[2];
    char *folder = realpath(parent && *parent ? parent : "/tmp", NULL); // as links of /proc have it
    snprintf(recording->folder, sizeof recording->folder, "%s/cairn-%s-XXXXXX",
             folder ? folder : "/tmp", command);
    free(folder);
    recording->ended = false;
    recording->messages = memfd_create("cairn-messages", MFD_CLOEXEC);
    if (recording->messages < 0 || pipe2(wishes, O_CLOEXEC) || pipe2(outcome, O_CLOEXEC))
        return complain_begin(command);
    if (!mkdtemp(recording->folder)) {
        complain("%s: cannot make a folder %s: %s", command, recording->folder, strerror(errno));
        return STATUS_FAILED;
    }
    snprintf(recording->path, sizeof recording->path, "%s/cairn.out", recording->folder);
    char **line = command_line(recording, words);
    fflush(NULL);
    recording->guard = fork();
    if (recording->guard == 0) {
        close(wishes[1]);
        close(outcome[0]);
        guard(recording, line, wishes[0], outcome[1]);
    }
    free(line);
    close(wishes[0]);
    close(outcome[1]);
    recording->wishes = wishes[1];
    recording->outcome = outcome[0];
    if (recording->guard > 0)
        return 0;
    remove_folder(recording->folder);
    return complain_begin(command);
}

static void print_messages(const struct temporary_recording *recording)
{
    char text[4096];
    off_t at = 0;
    for (ssize_t bytes; (bytes = pread(recording->messages, text, sizeof text, at)) > 0;
         at += bytes)
        fwrite(text, 1, (size_t)bytes, stderr);
}

// The exit status of a recording that has ended.
static int take_outcome(struct temporary_recording *recording)
{
    if (recording->ended)
        return recording->status;
    recording->ended = true;
    if (read(recording->outcome, &recording->status, sizeof recording->status) !=
        sizeof recording->status)
        recording->status = STATUS_FAILED;
    if (recording->status)
        print_messages(recording);
    return recording->status;
}

// The profile is there before the agent is in the process.
static bool is_recorded(const struct temporary_recording *recording, pid_t pid)
{
    char *path = pid > 0 ? find_recording(pid) : NULL;
    const bool is = path && strcmp(path, recording->path) == 0;
    free(path);
    return is;
}

int temporary_recording_wait_for_begin(struct temporary_recording *recording, pid_t pid)
{
    struct pollfd ended = {.fd = recording->outcome, .events = POLLIN};
    while (!is_recorded(recording, pid))
        if (poll(&ended, 1, LOOK_MS) > 0)
            return take_outcome(recording);
    return 0;
}

int temporary_recording_wait_for_end(struct temporary_recording *recording)
{
    sigset_t interrupt, before;
    sigemptyset(&interrupt);
    sigaddset(&interrupt, SIGINT);
    sigprocmask(SIG_BLOCK, &interrupt, &before);
    const int signals = signalfd(-1, &interrupt, SFD_CLOEXEC);
    struct pollfd sources[] = {{.fd = recording->outcome, .events = POLLIN},
                               {.fd = signals, .events = POLLIN}};
    while (!recording->ended && !sources[0].revents) {
        struct signalfd_siginfo info;
        if (poll(sources, 2, -1) > 0 && sources[1].revents &&
            (read(signals, &info, sizeof info) < 0 || write(recording->wishes, "", 1) < 0))
            break;
    }
    if (signals >= 0)
        close(signals);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return take_outcome(recording);
}

void temporary_recording_end(struct temporary_recording *recording)
{
    close(recording->wishes);
    while (waitpid(recording->guard, NULL, 0) < 0 && errno == EINTR) {
    }
    close(recording->outcome);
    close(recording->messages);
}
