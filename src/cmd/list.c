// SPDX-License-Identifier: MIT

// `cairn list`: what can be sampled, and which ways to do so work on this machine. Nothing is
// guessed: each is tried on this very process.

#include "base/json.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "live/live.h"
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct trial {
    const char *event;
    const char *source; // as `cairn info` names it
    const char *meaning;
    int (*attempt)(void); // 0 or -errno
    int error;
};

static int open_task_clock(bool sigtrap)
{
    struct perf_event_attr attr = {
        .type = PERF_TYPE_SOFTWARE,
        .size = sizeof attr,
        .config = PERF_COUNT_SW_TASK_CLOCK,
        .sample_period = 1000000,
        .disabled = 1,
        .exclude_kernel = 1, // all that an ordinary user may ask for
        .exclude_hv = 1,
        .wakeup_events = 1,
    };
    if (sigtrap) {
        attr.sigtrap = 1;
        attr.remove_on_exec = 1; // the kernel wants the two together
    }
    long fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
    return fd < 0 ? -errno : (int)fd;
}

static int try_sigtrap(void)
{
    int fd = open_task_clock(true);
    if (fd < 0)
        return fd;
    close(fd);
    return 0;
}

static int try_signal(void)
{
    int fd = open_task_clock(false);
    if (fd < 0)
        return fd;
    struct f_owner_ex owner = {.type = F_OWNER_TID, .pid = (pid_t)syscall(SYS_gettid)};
    int error = fcntl(fd, F_SETSIG, SIGRTMIN) || fcntl(fd, F_SETOWN_EX, &owner) ? -errno : 0;
    close(fd);
    return error;
}

static int try_timer(clockid_t clock)
{
    struct sigevent event = {.sigev_notify = SIGEV_NONE};
    timer_t timer;
    if (timer_create(clock, &event, &timer))
        return -errno;
    timer_delete(timer);
    return 0;
}

static int try_cpu_timer(void)
{
    return try_timer(CLOCK_THREAD_CPUTIME_ID);
}

static int try_wall_timer(void)
{
    return try_timer(CLOCK_MONOTONIC);
}

static struct trial trials[] = {
    {"cpu", "perf-task-clock", "perf software clock, delivered at once", try_sigtrap, 0},
    {"cpu", "perf-task-clock-signal", "perf software clock, delivered by signal", try_signal, 0},
    {"cpu", "posix-timer", "timer on CPU time, as coarse as the kernel's tick", try_cpu_timer, 0},
    {"wall", "posix-timer", "timer on elapsed time", try_wall_timer, 0},
};

static const struct {
    const char *name, *unit, *meaning;
} events[] = {
    {"cpu", "ns", "time that threads run on a processor, in the kernel too"},
    {"wall", "ns", "time that passes while threads exist, waiting included"},
};

#define COUNT(array) (sizeof(array) / sizeof *(array))

// The first that works is the one that `record` uses.
static const struct trial *best_trial(const char *event)
{
    for (size_t i = 0; i < COUNT(trials); i++)
        if (!strcmp(trials[i].event, event) && !trials[i].error)
            return &trials[i];
    return NULL;
}

static void print_text(void)
{
    printf("events ('cairn record -e NAME'):\n");
    for (size_t e = 0; e < COUNT(events); e++) {
        const struct trial *best = best_trial(events[e].name);
        printf("\n  %-6s %s: %s\n", events[e].name, events[e].meaning,
               best ? "works here" : "does not work here");
        for (size_t i = 0; i < COUNT(trials); i++) {
            if (strcmp(trials[i].event, events[e].name))
                continue;
            printf("    %-24s %s: %s%s\n", trials[i].source, trials[i].meaning,
                   trials[i].error ? strerror(-trials[i].error) : "works",
                   &trials[i] == best ? ", used" : "");
        }
    }
    if (trials[0].error == -EACCES || trials[0].error == -EPERM)
        printf("\nperf events are not permitted here: sysctl kernel.perf_event_paranoid=2 or less "
               "(or CAP_PERFMON;\nin a container, a seccomp profile that allows perf_event_open) "
               "gives sampling above the kernel's tick.\n");
}

static void print_json(void)
{
    struct json json;
    json_start(&json, stdout);
    json_object(&json);
    json_key(&json, "events");
    json_spread_array(&json);
    for (size_t e = 0; e < COUNT(events); e++) {
        const struct trial *best = best_trial(events[e].name);
        json_object(&json);
        json_key(&json, "name");
        json_string(&json, events[e].name);
        json_key(&json, "unit");
        json_string(&json, events[e].unit);
        json_key(&json, "works");
        json_bool(&json, best != NULL);
        json_key(&json, "source");
        json_string(&json, best ? best->source : NULL);
        json_key(&json, "sources");
        json_array(&json);
        for (size_t i = 0; i < COUNT(trials); i++) {
            if (strcmp(trials[i].event, events[e].name))
                continue;
            json_object(&json);
            json_key(&json, "name");
            json_string(&json, trials[i].source);
            json_key(&json, "works");
            json_bool(&json, trials[i].error == 0);
            json_key(&json, "error");
            json_string(&json, trials[i].error ? strerror(-trials[i].error) : NULL);
            json_end_object(&json);
        }
        json_end_array(&json);
        json_end_object(&json);
    }
    json_end_array(&json);
    json_end_object(&json);
    json_finish(&json);
}

static int run_list(int argc, char **argv)
{
    static const struct option long_options[] = {
        {"json", no_argument, NULL, 'j'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    bool as_json = false;
    int option;
    opterr = 0;
    optind = 0; // begin anew, whatever an earlier scan left
    while ((option = getopt_long(argc, argv, ":h", long_options, NULL)) != -1) {
        if (option == 'h')
            return print_command_help(&command_list);
        if (option != 'j')
            return misuse_of_option(&command_list, option, argv);
        as_json = true;
    }
    if (optind < argc)
        return misuse(&command_list, "list: takes no argument, not '%s'", argv[optind]);
    for (size_t i = 0; i < COUNT(trials); i++)
        trials[i].error = trials[i].attempt();
    if (as_json)
        print_json();
    else
        print_text();
    return fflush(stdout) || ferror(stdout) ? STATUS_FAILED : 0;
}

const struct command command_list = {
    .name = "list",
    .summary = "show what can be sampled, and what works here",
    .help = "usage: cairn list [--json]\n"
            "\n"
            "Lists the events of 'cairn record -e', and the ways to sample them. Each way is tried "
            "here and now;\n"
            "the first that works is the one that record uses.\n"
            "\n"
            "      --json   the same as JSON\n"
            "  -h, --help   this text\n",
    .run = run_list,
};
