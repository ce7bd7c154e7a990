// SPDX-License-Identifier: MIT
#include "inject/stopped.h"
#include "inject/interruption.h"
#include "inject/room.h"
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

// Results, for the kernel alone, of a call that a stop has interrupted and that goes on.
enum {
    RESTART_SYS = -512,
    RESTART_NO_INTERRUPT = -513,
    RESTART_NO_HANDLER = -514,
    RESTART_BLOCK = -516
};

#define SYSCALL_BYTES 2
#define NO_CALL UINT64_MAX

// A thread stops at once unless it is where nothing interrupts it, or has to wait for a processor.
#define BRISK_LOOKS 200 // so many times it is looked for without a longer pause
#define BRISK_NS 10000
#define SLOW_NS 1000000
#define MOST_LOOKS 500

#define MOST_LATE 16

static const uint64_t everything = UINT64_MAX;

static pid_t late[MOST_LATE];

// A call that was interrupted begins anew from these registers.
static void settle_registers(struct stopped *stopped)
{
    struct user_regs_struct *registers = &stopped->registers;
    const long result = (long)registers->rax, number = (long)registers->orig_rax;
    stopped->in_call = false;
    stopped->number = number;
    if (number < 0)
        return;
    const bool fails = result == -EINTR && interruption_fails(number) &&
                       !interruption_is_of_program(stopped->target->pid, stopped->tid);
    if (result == RESTART_BLOCK)
        registers->rax = SYS_restart_syscall;
    else if (result == RESTART_SYS || result == RESTART_NO_INTERRUPT ||
             result == RESTART_NO_HANDLER || fails)
        registers->rax = (uint64_t)number;
    else
        return;
    registers->rip -= SYSCALL_BYTES;
    stopped->in_call = true;
}

static bool put_registers(const struct stopped *stopped, struct user_regs_struct registers)
{
    registers.orig_rax = NO_CALL;
    return !ptrace(PTRACE_SETREGS, stopped->tid, NULL, &registers);
}

// Waits for a stop that we have asked for. Signals that come first go on to the thread.
static int wait_for_stop(pid_t tid, int event)
{
    for (int looks = 0; looks < MOST_LOOKS; looks++) {
        int status;
        const pid_t which = waitpid(tid, &status, __WALL | WNOHANG);
        if (which == 0) {
            const long pause = looks < BRISK_LOOKS ? BRISK_NS : SLOW_NS;
            nanosleep(&(struct timespec){.tv_nsec = pause}, NULL);
            continue;
        }
        if (which < 0 || !WIFSTOPPED(status))
            return -ESRCH;
        const int signal = WSTOPSIG(status), kind = status >> 16;
        if (kind == PTRACE_EVENT_STOP && signal != SIGTRAP)
            return -EBUSY; // with its whole process, as by SIGSTOP
        if (kind == event || (event < 0 && signal == (SIGTRAP | 0x80)))
            return 0;
        if (ptrace(event < 0 ? PTRACE_SYSCALL : PTRACE_CONT, tid, NULL, kind ? 0 : signal))
            return -ESRCH;
    }
    return -EAGAIN;
}

static bool is_late(pid_t tid)
{
    for (unsigned i = 0; i < MOST_LATE; i++)
        if (late[i] == tid)
            return true;
    return false;
}

static void note_late(pid_t tid)
{
    for (unsigned i = 0; i < MOST_LATE; i++)
        if (!late[i]) {
            late[i] = tid;
            return;
        }
}

// Its registers, once it stands.
static int look(struct stopped *stopped)
{
    if (ptrace(PTRACE_GETREGS, stopped->tid, NULL, &stopped->registers) ||
        ptrace(PTRACE_GETSIGMASK, stopped->tid, sizeof stopped->mask, &stopped->mask))
        return -errno;
    const bool failed = (long)stopped->registers.rax == -EINTR;
    settle_registers(stopped);
    // A call that fails because of us is made again.
    if (stopped->in_call && failed)
        put_registers(stopped, stopped->registers);
    return 0;
}

int stopped_begin(struct stopped *stopped, const struct target *target, pid_t tid)
{
    *stopped = (struct stopped){.target = target, .tid = tid};
    stopped_settle_late();
    // Without a place to note it, a thread would be stopped for good.
    if (is_late(tid) || !is_late(0))
        return -EAGAIN;
    if (ptrace(PTRACE_SEIZE, tid, NULL, PTRACE_O_TRACESYSGOOD))
        return -errno;
    int error =
        ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) ? -errno : wait_for_stop(tid, PTRACE_EVENT_STOP);
    if (!error)
        error = look(stopped);
    if (error == -EAGAIN)
        note_late(tid);
    else if (error)
        ptrace(PTRACE_DETACH, tid, NULL, NULL);
    return error;
}

void stopped_end(struct stopped *stopped)
{
    if (!is_late(stopped->tid))
        ptrace(PTRACE_DETACH, stopped->tid, NULL, NULL);
}

void stopped_settle_late(void)
{
    for (unsigned i = 0; i < MOST_LATE; i++) {
        int status;
        const pid_t which = late[i] ? waitpid(late[i], &status, __WALL | WNOHANG) : 0;
        if (!which)
            continue;
        const pid_t tid = late[i];
        late[i] = 0;
        if (which < 0 || !WIFSTOPPED(status))
            continue;
        // A signal that has come to it goes on to it.
        const long signal = status >> 16 || WSTOPSIG(status) & 0x80 ? 0 : WSTOPSIG(status);
        struct stopped stopped = {.target = &(struct target){.pid = tid}, .tid = tid};
        if (!signal)
            look(&stopped);
        ptrace(PTRACE_DETACH, tid, NULL, signal);
    }
}

void stopped_describe(const struct stopped *stopped, struct injected_return *back)
{
    const struct user_regs_struct *from = &stopped->registers;
    *back = (struct injected_return){
        .mask = stopped->mask,
        .rax = from->rax,
        .rbx = from->rbx,
        .rcx = from->rcx,
        .rdx = from->rdx,
        .rsi = from->rsi,
        .rdi = from->rdi,
        .rbp = from->rbp,
        .rsp = from->rsp,
        .r8 = from->r8,
        .r9 = from->r9,
        .r10 = from->r10,
        .r11 = from->r11,
        .r12 = from->r12,
        .r13 = from->r13,
        .r14 = from->r14,
        .r15 = from->r15,
        .rip = from->rip,
        .flags = from->eflags,
    };
}

// One half of a system call: up to where the kernel takes it, or up to its result.
static bool go_half_a_call(const struct stopped *stopped)
{
    if (ptrace(PTRACE_SYSCALL, stopped->tid, NULL, 0))
        return false;
    const int error = wait_for_stop(stopped->tid, -1);
    if (error == -EAGAIN)
        note_late(stopped->tid); // it goes back alone
    return !error;
}

static bool is_in_room(const struct stopped *stopped)
{
    const uint64_t room = stopped->target->room;
    return stopped->registers.rip >= room && stopped->registers.rip < room + INJECTED_CALL_BYTES;
}

// Whether the thread that a killed tool has led there is gone, or elsewhere by now.
static bool has_left_room(const struct stopped *stopped, pid_t user)
{
    struct stopped other;
    if (user == stopped->tid)
        return !is_in_room(stopped);
    const int error = stopped_begin(&other, stopped->target, user);
    if (error)
        return error == -ESRCH;
    const bool left = !is_in_room(&other);
    stopped_end(&other);
    return left;
}

static bool take_room(const struct stopped *stopped)
{
    const struct target *target = stopped->target;
    const pid_t user = room_user(target->pid, target->room);
    if (user && (user < 0 || !has_left_room(stopped, user)))
        return false;
    struct injected_call call = {.thread = (uint64_t)stopped->tid};
    stopped_describe(stopped, &call.back);
    return room_take(target->pid, target->room, &call);
}

long stopped_call(struct stopped *stopped, long number, const uint64_t arguments[6])
{
    struct user_regs_struct registers = stopped->registers;
    if (!take_room(stopped))
        return -EAGAIN;
    registers.rip = stopped->target->room;
    registers.rax = (uint64_t)number;
    registers.rdi = arguments[0];
    registers.rsi = arguments[1];
    registers.rdx = arguments[2];
    registers.r10 = arguments[3];
    registers.r8 = arguments[4];
    registers.r9 = arguments[5];
    long result = -ESRCH;
    // The way back lets signals in again, too: so it is taken first, and left last.
    if (put_registers(stopped, registers) &&
        !ptrace(PTRACE_SETSIGMASK, stopped->tid, sizeof everything, &everything) &&
        go_half_a_call(stopped) && go_half_a_call(stopped) &&
        !ptrace(PTRACE_GETREGS, stopped->tid, NULL, &registers))
        result = (long)registers.rax;
    if (is_late(stopped->tid))
        return -EAGAIN;
    ptrace(PTRACE_SETSIGMASK, stopped->tid, sizeof stopped->mask, &stopped->mask);
    if (put_registers(stopped, stopped->registers))
        room_give_back(stopped->target->pid, stopped->target->room);
    return result;
}

bool stopped_lead(struct stopped *stopped, uint64_t pc, uint64_t sp)
{
    struct user_regs_struct registers = stopped->registers;
    registers.rip = pc;
    registers.rsp = sp;
    registers.eflags = 0x202;
    return put_registers(stopped, registers) &&
           !ptrace(PTRACE_SETSIGMASK, stopped->tid, sizeof everything, &everything);
}
