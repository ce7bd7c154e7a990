// SPDX-License-Identifier: MIT
// A process that another one traces: it runs as without, and its tracer meets few signals that are
// none of the program's.
//
//   traced seize|attach     exits with 77 if nobody may trace here
//     seize   from its first moment, as strace does with what it starts
//     attach  when it has run for a while; the tracer takes its time, as a debugger does
//
// Prints how many signals of a profiler the tracer has met, from 0.3 seconds of the process' CPU
// time on for `seize`, and from the start for `attach`.

#include "common.h"
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#define PERF_TRAP 6 // TRAP_PERF: older headers lack it

struct shared {
    _Atomic bool traced;   // the tracer is there
    _Atomic uint64_t used; // CPU time since then
};

static struct shared *shared;

// Computes and sleeps in turns, until it has used as much as it should.
static NOIPA int be_traced(uint64_t enough)
{
    uint64_t before = 0;
    do {
        burn(1, 100);
        usleep(100);
        if (!atomic_load(&shared->traced))
            before = thread_cpu_ns();
        atomic_store(&shared->used, thread_cpu_ns() - before);
    } while (thread_cpu_ns() - before < enough);
    return 3;
}

static void trace(pid_t other)
{
    if (ptrace(PTRACE_SEIZE, other, NULL, (void *)PTRACE_O_EXITKILL))
        _Exit(77);
    atomic_store(&shared->traced, true);
}

// Lets the other one run to its end, with all its signals. How many were a profiler's, once it had
// used `from`.
static unsigned follow(pid_t other, uint64_t from)
{
    unsigned foreign = 0;
    int status;
    for (;;) {
        CHECK(waitpid(other, &status, 0) == other);
        if (!WIFSTOPPED(status))
            break;
        siginfo_t info = {0};
        const bool is_signal = status >> 16 == 0 && !ptrace(PTRACE_GETSIGINFO, other, NULL, &info);
        if (is_signal && info.si_code == PERF_TRAP && atomic_load(&shared->used) >= from)
            foreign++;
        const long signal = is_signal ? WSTOPSIG(status) : 0;
        CHECK(!ptrace(PTRACE_CONT, other, NULL, (void *)signal) || errno == ESRCH);
    }
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 3);
    return foreign;
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    const bool late = !strcmp(argv[1], "attach");
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    const pid_t other = fork();
    CHECK(other >= 0);
    if (other == 0)
        _exit(be_traced(late ? 300000000 : 600000000));
    if (late)
        usleep(300000);
    trace(other);
    if (late) {
        CHECK(!ptrace(PTRACE_INTERRUPT, other, NULL, NULL));
        CHECK(waitpid(other, NULL, __WALL) == other);
        usleep(1200000);
        CHECK(!ptrace(PTRACE_CONT, other, NULL, NULL));
    }
    printf("%u\n", follow(other, late ? 0 : 300000000));
    return 0;
}
