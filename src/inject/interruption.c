// SPDX-License-Identifier: MIT
#include "inject/interruption.h"
#include "inject/process.h"
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_epoll_pwait2
#define SYS_epoll_pwait2 441
#endif

#define ARGUMENTS 6
#define NO_TIME (-1)     // no argument is a time
#define OF_A_SOCKET (-2) // the descriptor may have one: SO_RCVTIMEO
#define FOREVER_INT UINT64_C(0xffffffff)

// Calls that fail, and which argument is their time.
static const struct failing {
    long number;
    int time;
} failing[] = {
    {SYS_epoll_wait, 3},         {SYS_epoll_pwait, 3},       {SYS_epoll_pwait2, 3},
    {SYS_rt_sigtimedwait, 2},    {SYS_semop, NO_TIME},       {SYS_semtimedop, 3},
    {SYS_io_getevents, 4},       {SYS_io_pgetevents, 4},     {SYS_io_uring_enter, NO_TIME},
    {SYS_recvfrom, OF_A_SOCKET}, {SYS_recvmsg, OF_A_SOCKET}, {SYS_recvmmsg, OF_A_SOCKET},
    {SYS_accept, OF_A_SOCKET},   {SYS_accept4, OF_A_SOCKET}, {SYS_connect, OF_A_SOCKET},
    {SYS_sendto, OF_A_SOCKET},   {SYS_sendmsg, OF_A_SOCKET}, {SYS_sendmmsg, OF_A_SOCKET},
    {SYS_read, OF_A_SOCKET},     {SYS_readv, OF_A_SOCKET},   {SYS_write, OF_A_SOCKET},
    {SYS_writev, OF_A_SOCKET},
};

static const struct failing *failing_of(long number)
{
    for (size_t i = 0; i < sizeof failing / sizeof *failing; i++)
        if (failing[i].number == number)
            return &failing[i];
    return NULL;
}

bool interruption_fails(long number)
{
    return failing_of(number) != NULL;
}

static bool is_socket(pid_t pid, uint64_t descriptor)
{
    char path[64], target[8];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)pid, (int)descriptor);
    const ssize_t length = readlink(path, target, sizeof target);
    return length < 0 || !memcmp(target, "socket:", 7);
}

static bool has_time(pid_t pid, const struct failing *call, const uint64_t *arguments)
{
    if (call->time == OF_A_SOCKET)
        return is_socket(pid, arguments[0]);
    if (call->time == NO_TIME)
        return false;
    const bool is_int = call->number == SYS_epoll_wait || call->number == SYS_epoll_pwait;
    return is_int ? (arguments[call->time] & FOREVER_INT) != FOREVER_INT
                  : arguments[call->time] != 0;
}

static enum interruption judge(pid_t pid, long number, const uint64_t *arguments)
{
    static const long counted[] = {SYS_nanosleep, SYS_clock_nanosleep, SYS_poll,
                                   SYS_restart_syscall},
                      unseen[] = {SYS_ppoll,  SYS_select, SYS_pselect6,     SYS_wait4,
                                  SYS_waitid, SYS_pause,  SYS_rt_sigsuspend};
    const struct failing *call = failing_of(number);
    if (call && call->time == OF_A_SOCKET && !is_socket(pid, arguments[0]))
        return INTERRUPTION_UNSEEN;
    if (call)
        return has_time(pid, call, arguments) ? INTERRUPTION_ANEW : INTERRUPTION_FAILS;
    if (number == SYS_futex)
        return arguments[3] ? INTERRUPTION_COUNTED : INTERRUPTION_UNSEEN;
    for (size_t i = 0; i < sizeof counted / sizeof *counted; i++)
        if (number == counted[i])
            return INTERRUPTION_COUNTED;
    for (size_t i = 0; i < sizeof unseen / sizeof *unseen; i++)
        if (number == unseen[i])
            return INTERRUPTION_UNSEEN;
    return INTERRUPTION_NOT_KNOWN;
}

// The call that a thread waits in; -1: none, or it is not known.
static long read_call(pid_t pid, pid_t tid, uint64_t *arguments)
{
    char path[64], text[256] = "";
    snprintf(path, sizeof path, "/proc/%d/task/%d/syscall", (int)pid, (int)tid);
    FILE *file = fopen(path, "re");
    char *at = file ? fgets(text, sizeof text, file) : NULL, *end = at;
    if (file)
        fclose(file);
    const long number = at ? strtol(at, &end, 10) : -1;
    for (int i = 0; i < ARGUMENTS; i++)
        arguments[i] = at && end != at ? strtoull(end, &end, 16) : 0;
    return at && end != at ? number : -1;
}

enum interruption interruption_of(pid_t pid, pid_t tid)
{
    uint64_t arguments[ARGUMENTS];
    const long number = read_call(pid, tid, arguments);
    return number < 0 ? INTERRUPTION_NOT_KNOWN : judge(pid, number, arguments);
}

uint64_t interruption_lock_of(pid_t pid, pid_t tid)
{
    uint64_t arguments[ARGUMENTS];
    return read_call(pid, tid, arguments) == SYS_futex ? arguments[0] : 0;
}

bool interruption_is_of_program(pid_t pid, pid_t tid)
{
    struct process_status status;
    uint64_t pending, shared, blocked;
    const uint64_t ticks = UINT64_C(1) << (SIGTRAP - 1) | UINT64_C(1) << (SIGSTKFLT - 1);
    if (!process_read_status(pid, tid, &status))
        return false;
    pending = strtoull(process_field(&status, "SigPnd"), NULL, 16);
    shared = strtoull(process_field(&status, "ShdPnd"), NULL, 16);
    blocked = strtoull(process_field(&status, "SigBlk"), NULL, 16);
    return (pending | shared) & ~blocked & ~ticks;
}
