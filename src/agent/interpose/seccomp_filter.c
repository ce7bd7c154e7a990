// SPDX-License-Identifier: MIT
#include "agent/interpose/seccomp_filter.h"
#include <linux/audit.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#define WORST SECCOMP_RET_KILL_PROCESS

struct machine {
    uint32_t accumulator, index, memory[BPF_MEMWORDS];
    const struct seccomp_data *call;
};

static bool load(struct machine *machine, const struct sock_filter *step)
{
    uint32_t *to = BPF_CLASS(step->code) == BPF_LD ? &machine->accumulator : &machine->index;
    switch (BPF_MODE(step->code)) {
    case BPF_IMM:
        *to = step->k;
        return true;
    case BPF_LEN:
        *to = sizeof *machine->call;
        return true;
    case BPF_MEM:
        if (step->k >= BPF_MEMWORDS)
            return false;
        *to = machine->memory[step->k];
        return true;
    case BPF_ABS:
        if (BPF_CLASS(step->code) != BPF_LD || step->k % 4 || step->k >= sizeof *machine->call)
            return false;
        memcpy(to, (const char *)machine->call + step->k, sizeof *to);
        return true;
    }
    return false;
}

static bool compute(struct machine *machine, const struct sock_filter *step)
{
    const uint32_t operand = BPF_SRC(step->code) == BPF_X ? machine->index : step->k;
    uint32_t *value = &machine->accumulator;
    switch (BPF_OP(step->code)) {
    case BPF_ADD:
        *value += operand;
        return true;
    case BPF_SUB:
        *value -= operand;
        return true;
    case BPF_MUL:
        *value *= operand;
        return true;
    case BPF_DIV:
        *value = operand ? *value / operand : 0;
        return operand;
    case BPF_OR:
        *value |= operand;
        return true;
    case BPF_AND:
        *value &= operand;
        return true;
    case BPF_XOR:
        *value ^= operand;
        return true;
    case BPF_LSH:
        *value = operand < 32 ? *value << operand : 0;
        return operand < 32;
    case BPF_RSH:
        *value = operand < 32 ? *value >> operand : 0;
        return operand < 32;
    case BPF_NEG:
        *value = -*value;
        return true;
    }
    return false;
}

// How many steps to skip; -1: no such jump.
static int64_t jump(const struct machine *machine, const struct sock_filter *step)
{
    const uint32_t operand = BPF_SRC(step->code) == BPF_X ? machine->index : step->k;
    const uint32_t value = machine->accumulator;
    switch (BPF_OP(step->code)) {
    case BPF_JA:
        return step->k;
    case BPF_JEQ:
        return value == operand ? step->jt : step->jf;
    case BPF_JGT:
        return value > operand ? step->jt : step->jf;
    case BPF_JGE:
        return value >= operand ? step->jt : step->jf;
    case BPF_JSET:
        return value & operand ? step->jt : step->jf;
    }
    return -1;
}

// One step but a return. How many to skip then; -1: there is no such step.
static int64_t take(struct machine *machine, const struct sock_filter *step)
{
    switch (BPF_CLASS(step->code)) {
    case BPF_LD:
    case BPF_LDX:
        return load(machine, step) ? 0 : -1;
    case BPF_ST:
    case BPF_STX:
        if (step->k >= BPF_MEMWORDS)
            return -1;
        machine->memory[step->k] =
            BPF_CLASS(step->code) == BPF_ST ? machine->accumulator : machine->index;
        return 0;
    case BPF_ALU:
        return compute(machine, step) ? 0 : -1;
    case BPF_JMP:
        return jump(machine, step);
    case BPF_MISC:
        if (BPF_MISCOP(step->code) == BPF_TAX)
            machine->index = machine->accumulator;
        else
            machine->accumulator = machine->index;
        return 0;
    }
    return -1;
}

uint32_t seccomp_filter_action(const struct sock_filter *program, unsigned count,
                               const struct seccomp_data *call)
{
    struct machine machine = {.call = call};
    // All jumps lead on, so it comes to an end.
    for (uint64_t at = 0; at < count; at++) {
        const struct sock_filter *step = &program[at];
        if (BPF_CLASS(step->code) == BPF_RET)
            return BPF_RVAL(step->code) == BPF_A ? machine.accumulator : step->k;
        const int64_t skip = take(&machine, step);
        if (skip < 0)
            return WORST;
        at += (uint64_t)skip;
    }
    return WORST;
}

// The agent's system calls, and the features that end if they are forbidden.
struct agent_call {
    int number;
    unsigned forbids; // FILTER_*
    uint64_t arguments[3];
    enum {
        MAY_FAIL,
        MUST_WORK,
        REWRITES, // may fail; where call sites are rewritten
    } when;
};

static const struct agent_call agent_calls[] = {
    {SYS_rt_sigreturn, FILTER_LEAVE, {0}, MUST_WORK},
    {SYS_clock_gettime, FILTER_LEAVE, {CLOCK_THREAD_CPUTIME_ID}, MUST_WORK},
    {SYS_rt_sigprocmask, FILTER_LEAVE, {UINT32_MAX}, MUST_WORK}, // is an address readable?
    {SYS_getpid, FILTER_LEAVE, {0}, MAY_FAIL},
    {SYS_gettid, FILTER_LEAVE, {0}, MAY_FAIL},
    {SYS_munmap, FILTER_LEAVE, {0}, MAY_FAIL},
    {SYS_mmap, FILTER_LEAVE, {0, 4096}, REWRITES},
    {SYS_openat, FILTER_LEAVE, {0}, REWRITES},
    {SYS_pwrite64, FILTER_LEAVE, {0}, REWRITES},
    {SYS_membarrier, FILTER_LEAVE, {0}, REWRITES},
    {SYS_sched_yield, FILTER_LEAVE, {0}, REWRITES},
    {SYS_perf_event_open, FILTER_NO_CLOCKS, {0}, MAY_FAIL},
    {SYS_timer_create, FILTER_NO_CLOCKS, {0}, MAY_FAIL},
    {SYS_sigaltstack, FILTER_NO_STACKS, {0}, MAY_FAIL},
    {SYS_madvise, FILTER_NO_ADVICE, {0, 4096, 16}, MAY_FAIL}, // MADV_DONTDUMP
    {SYS_madvise, FILTER_NO_ADVICE, {0, 4096, 18}, MAY_FAIL}, // MADV_WIPEONFORK
    {SYS_madvise, FILTER_NO_ADVICE, {0, 4096, 23}, MAY_FAIL}, // MADV_POPULATE_WRITE
    {SYS_madvise, FILTER_NO_ADVICE, {0, 4096, 25}, MAY_FAIL}, // MADV_COLLAPSE
    {SYS_getrusage, FILTER_NO_GOODBYE, {0}, MAY_FAIL},
    {SYS_rt_sigpending, FILTER_NO_PENDING, {0}, MAY_FAIL},
    {SYS_rt_sigaction, FILTER_NO_PENDING, {SIGALRM}, MAY_FAIL},
    {SYS_mincore, FILTER_NO_GOODBYE, {0}, MAY_FAIL},
};

// A tracer or another process that decides may as well say no, or nothing.
static bool is_bearable(uint32_t action, bool must_work)
{
    switch (action & SECCOMP_RET_ACTION_FULL) {
    case SECCOMP_RET_ALLOW:
    case SECCOMP_RET_LOG:
        return true;
    case SECCOMP_RET_ERRNO:
        return !must_work;
    }
    return false;
}

unsigned seccomp_filter_forbids(const struct sock_filter *program, unsigned count, bool rewrites)
{
    unsigned forbidden = 0;
    for (size_t i = 0; i < sizeof agent_calls / sizeof *agent_calls; i++) {
        const struct agent_call *ours = &agent_calls[i];
        struct seccomp_data call = {.nr = ours->number, .arch = AUDIT_ARCH_X86_64};
        memcpy(call.args, ours->arguments, sizeof ours->arguments);
        if (ours->when == REWRITES && !rewrites)
            continue;
        if (!is_bearable(seccomp_filter_action(program, count, &call), ours->when == MUST_WORK))
            forbidden |= ours->forbids;
    }
    return forbidden;
}
