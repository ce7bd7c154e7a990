// SPDX-License-Identifier: MIT
#include "cmd/record/launch/signals.h"
#include "cmd/record/launch/descendants.h"
#include <stdint.h>
#include <unistd.h>

void signals_fill(sigset_t *watched)
{
    static const int job[] = {SIGTSTP, SIGTTIN, SIGTTOU, SIGCONT};
    sigfillset(watched);
    for (size_t i = 0; i < sizeof job / sizeof *job; i++)
        sigdelset(watched, job[i]);
}

// Our own process sends itself SIGPIPE and SIGXFSZ when it cannot write.
static bool is_for_the_command(const struct signalfd_siginfo *info, pid_t child)
{
    const pid_t sender = (pid_t)info->ssi_pid;
    return info->ssi_code <= 0 && sender != getpid() && !descends_from(sender, child);
}

bool signals_next(int signals, pid_t child, struct signalfd_siginfo *info)
{
    while (read(signals, info, sizeof *info) == sizeof *info)
        if (info->ssi_signo == SIGCHLD || is_for_the_command(info, child))
            return true;
    return false;
}

void signals_pass_on(pid_t child, const struct signalfd_siginfo *info)
{
    const int number = (int)info->ssi_signo;
    if (info->ssi_code == SI_QUEUE)
        sigqueue(child, number, (union sigval){.sival_ptr = (void *)(uintptr_t)info->ssi_ptr});
    else
        kill(child, number);
}

void signals_note_group(struct group_signals *group, const struct signalfd_siginfo *info)
{
    if (info->ssi_signo < _NSIG)
        group->sender[info->ssi_signo] = (pid_t)info->ssi_pid + 1;
}

bool signals_came_to_group(struct group_signals *group, const struct signalfd_siginfo *info)
{
    if (info->ssi_signo >= _NSIG || group->sender[info->ssi_signo] != (pid_t)info->ssi_pid + 1)
        return false;
    group->sender[info->ssi_signo] = 0;
    return true;
}
