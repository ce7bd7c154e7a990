// SPDX-License-Identifier: MIT
#ifndef CAIRN_CMD_RECORD_LAUNCH_LAUNCH_H
#define CAIRN_CMD_RECORD_LAUNCH_LAUNCH_H

// Starting the command that is to be profiled: first everything that can be known to go wrong is
// checked, so that a program which cannot be profiled is not run at all.

#include "live/attach.h"
#include "outside/startup_sampler.h"
#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>

struct launch {
    char *const *command;
    char path[4096];       // the file that COMMAND names
    char program[4096];    // the file that the kernel runs in the end: the interpreter of a script
    char refusal[5120];    // why it cannot be run, or not with the agent
    bool through_shell;    // a script without "#!": run by /bin/sh, as shells do
    char agent_path[1024]; // libcairn.so
    bool bind_now;         // the loader binds all functions before the program starts
    bool from_outside;     // it can be run, but not with the agent: it is sampled from outside
    bool gains_rights;     // when it starts (setuid): the kernel ends events that were there before
};

// Finds the file and checks that it can be run, and that the agent can be loaded into it. 0, or the
// exit status: STATUS_MISUSE if it can be run, but not with the agent.
int launch_examine(struct launch *launch, char *const *command);

// Finds the agent: CAIRN_AGENT_PATH, or the file of that name beside the tool, or where it is
// installed. 0, or the exit status after a message to the user.
int launch_find_agent(struct launch *launch, const char *name);

// The limits that the tool was started with, and that the command gets back.
enum { LAUNCH_LIMITS = 3 };

struct inherited {
    sigset_t mask;
    struct sigaction child, pipe, file_size;
    struct rlimit limits[LAUNCH_LIMITS];
};

// Remembers that, and sets it as the tool needs it: `blocked` is read from a signalfd.
void launch_take_over(struct inherited *inherited, const sigset_t *blocked);

// Starts the command with the agent and the session. The pid, or -errno if it could not be run.
// With a sampler, its start-up is sampled, if the kernel permits it.
pid_t launch_start(const struct launch *launch, const struct inherited *inherited,
                   const char *session_path, struct startup_sampler *sampler);

// Starts it without the agent. prepare() is called with its pid before it runs the command; unless
// that returns 0, the command is not run and the result is that.
pid_t launch_start_outside(const struct launch *launch, const struct inherited *inherited,
                           int (*prepare)(void *context, pid_t pid), void *context);

#endif
