// SPDX-License-Identifier: MIT
// Programs that the program starts are profiled too: every way to start one puts our variables back
// into the environment that it is given. All of this may run in a vfork child: it uses the stack
// alone.

#include "agent/interpose/environment.h"
#include "agent/interpose/limits.h"
#include "agent/interpose/signals.h"
#include "agent/session/agent.h"
#include "agent/session/can_preload.h"
#include "agent/session/real.h"
#include "base/lock.h"
#include "track/tracker.h"
#include <alloca.h>
#include <errno.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static bool follows(void)
{
    return agent.active && !agent.own && agent.session->options.follow_fork;
}

// A filter that was put on holds for the next program, too.
static bool is_in_reach(void)
{
    return !clock_forbidden && preload_can_open(agent.session->agent_path, R_OK) &&
           preload_can_open(agent.session_path, R_OK | W_OK);
}

enum left_alone { OUT_OF_REACH, CANNOT_LOAD, OF_ANOTHER };

static void note_left_alone(enum left_alone reason)
{
    static const char *const why[] = {
        [OUT_OF_REACH] =
            "a program was started as another user, in another root folder, or confined (seccomp), "
            "where the agent cannot be reached: it was not profiled, nor what it started",
        [CANNOT_LOAD] =
            "a program for another machine (32 bits), on another C library (musl) or with "
            "AddressSanitizer as a library was started: it was not profiled, nor what it started",
        [OF_ANOTHER] = "another 'cairn record' has started a program: it is in that one's profile, "
                       "and not in this one",
    };
    static _Atomic bool noted[OF_ANOTHER + 1]; // relaxed: a note that is given twice is shown once
    if (!atomic_exchange_explicit(&noted[reason], true, memory_order_relaxed))
        agent_note(why[reason]);
}

// The environment with our variables, on the caller's stack; a macro because of alloca.
#define SHOWN(environment, charged)                                                                \
    ({                                                                                             \
        char *const *given = (environment);                                                        \
        size_t entries = environment_count(given) + ENVIRONMENT_EXTRA;                             \
        const char **shown = alloca(entries * sizeof *shown);                                      \
        environment_show(given, shown,                                                             \
                         alloca(ENVIRONMENT_TEXT + environment_preload_length(given)), (charged)); \
        (char *const *)shown;                                                                      \
    })

// The environment that a program is given: with our variables, if it takes the agent, can reach it,
// and children are followed.
#define GIVEN(takes_agent, environment, charged)                                                   \
    ({                                                                                             \
        char *const *chosen = (environment);                                                       \
        if (follows()) {                                                                           \
            const uint64_t until = (charged);                                                      \
            if (environment_is_of_another(chosen))                                                 \
                note_left_alone(OF_ANOTHER);                                                       \
            else if (!is_in_reach())                                                               \
                note_left_alone(OUT_OF_REACH);                                                     \
            else if (!(takes_agent))                                                               \
                note_left_alone(CANNOT_LOAD);                                                      \
            else                                                                                   \
                chosen = SHOWN(chosen, until);                                                     \
        }                                                                                          \
        chosen;                                                                                    \
    })

// The same for the process itself: a program without the agent has no need for our share.
#define TAKEN(takes_agent, environment)                                                            \
    ({                                                                                             \
        char *const *taken = GIVEN((takes_agent), (environment), settled_clock());                 \
        if (taken == (environment))                                                                \
            limits_let_go();                                                                       \
        taken;                                                                                     \
    })

// The arguments of an execl-like call as a vector, on the caller's stack. `last` is the argument
// before the list.
#define GATHER(first, list)                                                                        \
    ({                                                                                             \
        size_t count = 1;                                                                          \
        va_list counting;                                                                          \
        va_copy(counting, list);                                                                   \
        while (va_arg(counting, char *))                                                           \
            count++;                                                                               \
        va_end(counting);                                                                          \
        char **gathered = alloca((count + 1) * sizeof *gathered);                                  \
        gathered[0] = (char *)(first);                                                             \
        for (size_t i = 1; i <= count; i++)                                                        \
            gathered[i] = va_arg(list, char *);                                                    \
        gathered;                                                                                  \
    })

// The CPU time that this image has charged; the next image of this process continues from there. A
// vfork child has no clock yet.
static uint64_t settled_clock(void)
{
    if (agent_in_vfork_child())
        return 0;
    thread_settle_all();
    return thread_charged();
}

// Runs an exec between what must be set for the new program and what must be set if it fails.
#define HANDED_OVER(call)                                                                          \
    ({                                                                                             \
        if (agent.armed)                                                                           \
            signals_before_exec();                                                                 \
        int result = (call);                                                                       \
        int error = errno;                                                                         \
        if (agent.armed)                                                                           \
            signals_after_failed_exec();                                                           \
        limits_take_back();                                                                        \
        errno = error;                                                                             \
        result;                                                                                    \
    })

static __typeof__(&execve) real_execve(void)
{
    return REAL(execve);
}

void exec_before_fork(void)
{
    real_execve(); // once, and not in each child
}

INTERPOSED int execve(const char *path, char *const argv[], char *const environment[])
{
    return HANDED_OVER(real_execve()(path, argv, TAKEN(preload_takes_agent(path), environment)));
}

INTERPOSED int execvpe(const char *file, char *const argv[], char *const environment[])
{
    return HANDED_OVER(
        REAL(execvpe)(file, argv, TAKEN(preload_in_path_takes_agent(file), environment)));
}

INTERPOSED int fexecve(int fd, char *const argv[], char *const environment[])
{
    return HANDED_OVER(
        REAL(fexecve)(fd, argv, TAKEN(preload_at_takes_agent(fd, NULL), environment)));
}

INTERPOSED int execveat(int directory, const char *path, char *const argv[],
                        char *const environment[], int flags)
{
    return HANDED_OVER(REAL(execveat)(
        directory, path, argv, TAKEN(preload_at_takes_agent(directory, path), environment), flags));
}

INTERPOSED int execv(const char *path, char *const argv[])
{
    return execve(path, argv, environ);
}

INTERPOSED int execvp(const char *file, char *const argv[])
{
    return execvpe(file, argv, environ);
}

INTERPOSED int execl(const char *path, const char *first, ...)
{
    va_list list;
    va_start(list, first);
    char **argv = GATHER(first, list);
    va_end(list);
    return execve(path, argv, environ);
}

INTERPOSED int execlp(const char *file, const char *first, ...)
{
    va_list list;
    va_start(list, first);
    char **argv = GATHER(first, list);
    va_end(list);
    return execvpe(file, argv, environ);
}

INTERPOSED int execle(const char *path, const char *first, ...)
{
    va_list list;
    va_start(list, first);
    char **argv = GATHER(first, list);
    char *const *environment = va_arg(list, char *const *);
    va_end(list);
    return execve(path, argv, environment);
}

// The same for one that starts another process, which runs in our memory for a while: as after
// vfork, the number of this thread is not to be trusted.
#define SPAWNED(call)                                                                              \
    ({                                                                                             \
        const bool handed = agent.armed && signals_before_spawn();                                 \
        int result = (call);                                                                       \
        tracker_doubt();                                                                           \
        if (handed)                                                                                \
            signals_after_spawn();                                                                 \
        result;                                                                                    \
    })

INTERPOSED int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                           const posix_spawnattr_t *attributes, char *const argv[],
                           char *const environment[])
{
    return SPAWNED(REAL(posix_spawn)(pid, path, actions, attributes, argv,
                                     GIVEN(preload_takes_agent(path), environment, 0)));
}

INTERPOSED int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
                            const posix_spawnattr_t *attributes, char *const argv[],
                            char *const environment[])
{
    return SPAWNED(REAL(posix_spawnp)(pid, file, actions, attributes, argv,
                                      GIVEN(preload_in_path_takes_agent(file), environment, 0)));
}

// libc's system() and popen() take `environ` without asking us: show them ours for the moment of
// the call. A thread that changes the environment at the same moment would lose its change, as it
// would race without us.
static struct lock environ_lock;
static char **own_environ; // under the lock

void exec_after_fork(void)
{
    if (lock_break(&environ_lock))
        environ = own_environ;
}

INTERPOSED FILE *popen(const char *command, const char *type)
{
    FILE *stream;
    if (follows() && !lock_take(&environ_lock)) {
        own_environ = environ;
        environ = (char **)SHOWN(own_environ, 0);
        stream = REAL(popen)(command, type);
        environ = own_environ;
        lock_release(&environ_lock);
    } else {
        stream = REAL(popen)(command, type);
    }
    tracker_doubt();
    return stream;
}

// As POSIX has it: SIGINT and SIGQUIT are ignored and SIGCHLD is blocked while the command runs.
struct system_signals {
    struct sigaction interrupt, quit;
    sigset_t mask;
};

static void hold_signals(struct system_signals *held)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigaction(SIGINT, &ignore, &held->interrupt);
    sigaction(SIGQUIT, &ignore, &held->quit);
    pthread_sigmask(SIG_BLOCK, &child, &held->mask);
}

static void release_signals(const struct system_signals *held)
{
    sigaction(SIGINT, &held->interrupt, NULL);
    sigaction(SIGQUIT, &held->quit, NULL);
    pthread_sigmask(SIG_SETMASK, &held->mask, NULL);
}

static int spawn_shell(pid_t *pid, const char *command, const struct system_signals *held)
{
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t reset;
    sigemptyset(&reset);
    if (held->interrupt.sa_handler != SIG_IGN)
        sigaddset(&reset, SIGINT);
    if (held->quit.sa_handler != SIG_IGN)
        sigaddset(&reset, SIGQUIT);
    posix_spawnattr_setsigdefault(&attributes, &reset);
    posix_spawnattr_setsigmask(&attributes, &held->mask);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    char *const argv[] = {"sh", "-c", (char *)command, NULL};
    int error = posix_spawn(pid, "/bin/sh", NULL, &attributes, argv, environ);
    posix_spawnattr_destroy(&attributes);
    return error;
}

INTERPOSED int system(const char *command)
{
    if (!command || !follows()) {
        int result = REAL(system)(command);
        tracker_doubt();
        return result;
    }
    struct system_signals held;
    hold_signals(&held);
    pid_t pid;
    int status = 127 << 8; // as if the shell had said that it cannot run
    int error = spawn_shell(&pid, command, &held);
    if (!error)
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
        }
    release_signals(&held);
    if (error)
        errno = error;
    return status;
}
