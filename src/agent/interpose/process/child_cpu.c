// SPDX-License-Identifier: MIT
// Children that the program waits for. The kernel's work for the end of a process comes after its
// last instruction. Only the process that waits for it learns how much that was: it passes the
// number on to the recorder. Programs wait in signal handlers, too: nothing here locks or
// allocates.

#include "agent/interpose/process/child_cpu.h"
#include "agent/session/agent.h"
#include "agent/session/real.h"
#include <sys/resource.h>
#include <sys/wait.h>

#define MOST_TOLD (1 << 18) // of one process: 4 MB

static pid_t (*real_wait4(void))(pid_t, int *, int, struct rusage *)
{
    return REAL(wait4);
}

void child_cpu_start(void)
{
    real_wait4(); // now, and not in a handler
}

static uint64_t cpu_of(const struct rusage *usage)
{
    return (uint64_t)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) * 1000000000 +
           (uint64_t)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec) * 1000;
}

static void note_child(pid_t child, const struct rusage *usage)
{
    if (!agent.active || agent.own || agent_in_vfork_child())
        return;
    struct live_process *process = agent.process;
    if (atomic_fetch_add_explicit(&process->reaped_count, 1, memory_order_relaxed) >= MOST_TOLD)
        return;
    const ref_t ref = arena_alloc(&agent.arena, sizeof(struct live_reaped));
    if (!ref)
        return;
    struct live_reaped *reaped = arena_at(&agent.arena, ref);
    reaped->pid = (uint32_t)child;
    reaped->cpu_ns = cpu_of(usage);
    live_push(&process->reaped, &reaped->next, ref);
}

INTERPOSED pid_t wait4(pid_t child, int *status, int options, struct rusage *usage)
{
    struct rusage own = {0};
    int own_status = 0;
    struct rusage *used = usage ? usage : &own;
    int *end = status ? status : &own_status;
    const pid_t result = real_wait4()(child, end, options, used);
    if (result > 0 && (WIFEXITED(*end) || WIFSIGNALED(*end)))
        note_child(result, used);
    return result;
}

INTERPOSED pid_t wait3(int *status, int options, struct rusage *usage)
{
    return wait4(-1, status, options, usage);
}

INTERPOSED pid_t waitpid(pid_t child, int *status, int options)
{
    return wait4(child, status, options, NULL);
}

INTERPOSED pid_t wait(int *status)
{
    return wait4(-1, status, 0, NULL);
}

void child_cpu_say_goodbye(void)
{
    struct live_goodbye *goodbye = &agent.process->goodbye;
    struct rusage self, children;
    if (agent.session->options.event != LIVE_EVENT_CPU || getrusage(RUSAGE_SELF, &self) ||
        getrusage(RUSAGE_CHILDREN, &children))
        return;
    uint64_t cost = 0;
    uint32_t left = LIVE_MOST_LISTED;
    const struct live_thread *record;
    for (ref_t ref = atomic_load_explicit(&agent.process->threads, memory_order_acquire);
         (record = live_listed(&agent.arena, ref, sizeof *record, &left)); ref = record->next)
        cost += record->stats.cost_ns + record->stats.hook_ns;
    *goodbye = (struct live_goodbye){cpu_of(&self), cost, cpu_of(&children)};
}
