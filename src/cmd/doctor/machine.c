// SPDX-License-Identifier: MIT

// Checks of the machine and of the user's rights, besides events.

#include "base/system/memory_limit.h"
#include "base/text/text.h"
#include "cmd/doctor/check.h"
#include "cmd/events/restriction.h"
#include "cmd/line/command.h"
#include "cmd/record/launch/kernel_access.h"
#include "cmd/record/launch/launch.h"
#include "cmd/record/session.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ENOUGH_MEMORY                                                                              \
    (UINT64_C(4) << 30) // of which the default of 'record --memory' is a sixteenth
#define ENOUGH_LOCKED (UINT64_C(512) << 10)
#define SHADOW_STACK_STATUS 0x5005 // ARCH_SHSTK_STATUS
#define SHADOW_STACK_ON 1

static void check_agent(struct checks *checks)
{
    struct launch launch;
    struct check *check;
    if (!launch_find_agent(&launch, AGENT_NAME) && !launch_find_agent(&launch, ALLOC_AGENT_NAME)) {
        check = checks_add(checks, "agent", CHECK_OK, "%s", launch.agent_path);
        *strrchr(check->finding, '/') = 0;
    } else {
        check = checks_add(checks, "agent", CHECK_NO,
                           "the libraries that are loaded into programs are not installed");
        check_remedy(check, "make install");
    }
    check->essential = true;
}

// The agent opens the recording by its name in /proc, in each program that starts.
static void check_memory_file(struct checks *checks)
{
    char path[64];
    int memory = memfd_create("cairn", MFD_CLOEXEC);
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)getpid(), memory);
    int again = memory < 0 ? -1 : open(path, O_RDWR | O_CLOEXEC);
    struct check *check;
    if (again >= 0)
        check =
            checks_add(checks, "memory file", CHECK_OK, "programs can open the recorder's memory");
    else
        check = checks_add(checks, "memory file", CHECK_NO,
                           "programs cannot open the recorder's memory: %s (is /proc mounted?)",
                           strerror(errno));
    check->essential = true;
    if (again < 0)
        check_remedy(check, "mount -t proc proc /proc");
    if (again >= 0)
        close(again);
    if (memory >= 0)
        close(memory);
}

static void check_memory(struct checks *checks)
{
    const uint64_t limit = memory_limit(&memory_limit_files);
    struct rlimit space;
    if (limit < ENOUGH_MEMORY) {
        struct check *check = checks_add(
            checks, "memory", CHECK_LIMITED,
            "the control group has %s: call paths may take %s of it, then hot ones alone are kept",
            text_bytes(limit).text, text_bytes(limit / SESSION_GROUP_PART).text);
        check_remedy(check, "start the container with --memory 4g, or record with --tree hot");
    } else if (!getrlimit(RLIMIT_AS, &space) && space.rlim_cur != RLIM_INFINITY) {
        struct check *check = checks_add(checks, "memory", CHECK_LIMITED,
                                         "address space is limited to %s, and the agent takes a "
                                         "part of that",
                                         text_bytes(space.rlim_cur).text);
        check_remedy(check, "ulimit -v unlimited");
    } else {
        checks_add(checks, "memory", CHECK_OK, "no limit that a recording would meet");
    }
}

static void check_locked(struct checks *checks)
{
    struct rlimit limit;
    const long buffers = read_setting("/proc/sys/kernel/perf_event_mlock_kb", 0);
    if (getrlimit(RLIMIT_MEMLOCK, &limit))
        return;
    if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= ENOUGH_LOCKED || buffers >= 128) {
        checks_add(checks, "locked pages", CHECK_OK, "enough for what perf events need");
        return;
    }
    struct check *check = checks_add(
        checks, "locked pages", CHECK_LIMITED,
        "%s may be locked, and kernel.perf_event_mlock_kb is %ld: too little for perf's buffers",
        text_bytes(limit.rlim_cur).text, buffers);
    check_remedy(check, "sudo sysctl kernel.perf_event_mlock_kb=516");
}

// A field of /proc/self/status as a number of that base; 0 if there is none.
static uint64_t status_number(const char *name, int base)
{
    FILE *file = fopen("/proc/self/status", "re");
    char line[256];
    uint64_t value = 0;
    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, name, strlen(name)) && line[strlen(name)] == ':')
            value = strtoull(line + strlen(name) + 1, NULL, base);
    if (file)
        fclose(file);
    return value;
}

static void check_tracer(struct checks *checks)
{
    const uint64_t tracer = status_number("TracerPid", 10);
    if (tracer) {
        struct check *check =
            checks_add(checks, "ptrace", CHECK_NO,
                       "this runs under a debugger or strace, and traced programs are not sampled");
        check->essential = true;
        check_remedy(check, "start the tracer inside: cairn record -- strace COMMAND");
    } else {
        checks_add(checks, "ptrace", CHECK_OK, "no debugger or tracer is at work here");
    }
}

// Whether 'record -p' may come into processes that run: of other users, it takes CAP_SYS_PTRACE.
static void check_attaching(struct checks *checks)
{
    const uint64_t ptrace = UINT64_C(1) << 19;
    const bool is_able = status_number("CapEff", 16) & ptrace;
    const long scope = read_setting("/proc/sys/kernel/yama/ptrace_scope", 0);
    struct check *check;
    if (scope >= 3) {
        check =
            checks_add(checks, "record -p", CHECK_NO,
                       "no process may be entered until the next boot (kernel.yama.ptrace_scope "
                       "is %ld)",
                       scope);
        check_remedy(check, "start the program with cairn record");
    } else if (is_able) {
        checks_add(checks, "record -p", CHECK_OK, "comes into processes of all users");
    } else if (scope) {
        check = checks_add(checks, "record -p", CHECK_NO,
                           "processes may not be entered (kernel.yama.ptrace_scope is %ld)", scope);
        check_remedy(check, scope == 1 ? "sudo sysctl kernel.yama.ptrace_scope=0"
                                       : "sudo cairn record -p PID");
    } else {
        checks_add(checks, "record -p", CHECK_OK,
                   "comes into processes of this user; root's into all");
    }
}

static void check_marker(struct checks *checks)
{
    unsigned long features = 0;
#ifdef __x86_64__
    if (syscall(SYS_arch_prctl, SHADOW_STACK_STATUS, &features))
        features = 0;
#endif
    if (!(features & SHADOW_STACK_ON)) {
        checks_add(checks, "marker", CHECK_OK, "no shadow stacks: a sample walks new frames only");
        return;
    }
    struct check *check = checks_add(checks, "marker", CHECK_LIMITED,
                                     "the processor keeps shadow stacks: samples compare the stack "
                                     "with the last one instead, and cost more");
    check_remedy(check, "GLIBC_TUNABLES=glibc.cpu.x86_shstk=off cairn record -- COMMAND");
}

static void check_kernel(struct checks *checks)
{
    const struct kernel_access access = kernel_access_here();
    if (access.level == LIVE_KERNEL_FRAMES) {
        checks_add(checks, "kernel", CHECK_OK, "its functions can be sampled, and have names");
        return;
    }
    struct check *check = checks_add(
        checks, "kernel", CHECK_LIMITED,
        "what it does for a program is shown by system call, not by function: %s", access.reason);
    if (access.remedy[0])
        check_remedy(check, "%s", access.remedy);
}

// The name of the container's engine, by the traces that engines leave.
static const char *container(void)
{
    static const char *const files[][2] = {
        {"/.dockerenv", "docker"}, {"/run/.containerenv", "podman"}, {"/dev/lxd", "LXD"}};
    const char *named = getenv("container");
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (!access(files[i][0], F_OK))
            return files[i][1];
    return named && *named ? named : NULL;
}

static void check_container(struct checks *checks)
{
    const char *engine = container();
    const bool filtered = status_number("Seccomp", 10) == 2;
    if (!engine && !filtered)
        return;
    checks_add(
        checks, "container", CHECK_OK, "%s%s; programs with a /proc of their own run unprofiled",
        engine ? engine : "a seccomp filter", engine && filtered ? ", with a seccomp filter" : "");
}

static void check_user(struct checks *checks)
{
    checks_add(checks, "user", CHECK_OK, "%s",
               geteuid() ? "an ordinary user: enough for all programs but setuid ones" : "root");
}

void check_machine(struct checks *checks)
{
    check_agent(checks);
    check_memory_file(checks);
    check_memory(checks);
    check_locked(checks);
    check_tracer(checks);
    check_attaching(checks);
    check_marker(checks);
    check_kernel(checks);
    check_container(checks);
    check_user(checks);
}
