// SPDX-License-Identifier: MIT
#include "inject/inject.h"
#include "inject/injected.h"
#include "inject/interruption.h"
#include "inject/process.h"
#include "inject/safe_place.h"
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS 2000     // a millisecond apart: until a thread is where it can be asked
#define COUNTED_AFTER 2 // of them: then threads that wait for a time are asked as well,
#define BUSY_AFTER 20   // those whose stacks cannot be read,
#define ANEW_AFTER 40   // and those whose waiting begins anew
#define WAIT_MS 10000   // for the answer
#define LOCK_MS 10000   // for another tool

static_assert(offsetof(struct injected_return, rsp) == 64, "go_back");
static_assert(offsetof(struct injected_return, flags) == 144, "go_back");
static_assert(offsetof(struct injected, function) == 152, "FUNCTION");
static_assert(offsetof(struct injected, thread) == 256, "THREAD");
static_assert(offsetof(struct injected, signal_info) == 440, "SIGNAL_INFO");

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

// The state of a thread, a letter; 0: it is gone.
static char state_of(pid_t pid, pid_t tid)
{
    struct process_status status;
    return process_read_status(pid, tid, &status) ? *process_field(&status, "State") : 0;
}

static bool make_scratch(struct stopped *stopped, uint64_t *scratch)
{
    const uint64_t all[6] = {0,
                             INJECTED_BYTES,
                             PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                             UINT64_MAX,
                             0};
    const long memory = stopped_call(stopped, SYS_mmap, all);
    if (memory < 0 && memory > -INJECTED_PAGE)
        return false;
    const uint64_t code[6] = {(uint64_t)memory,
                              INJECTED_PAGE,
                              PROT_READ | PROT_EXEC,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
                              UINT64_MAX,
                              0};
    *scratch = (uint64_t)memory;
    return stopped_call(stopped, SYS_mmap, code) == memory &&
           process_write(stopped->target->pid, *scratch, injected_code,
                         (size_t)((uintptr_t)injected_code_end - (uintptr_t)injected_code));
}

// Memory for the call is new, and empty.
static bool write_scratch(const struct stopped *stopped, const struct live_attach_request *request)
{
    const struct target *target = stopped->target;
    const uint64_t at = request->scratch;
    struct injected data = {
        .function = target->agent_base ? target->agent_base + target->entry : 0,
        .dlopen = target->dlopen,
        .entry = target->entry,
        .stack = at + INJECTED_BYTES - 64,
        .saved = at + INJECTED_SAVED,
        .argument = at + INJECTED_TEXT,
        .path = at + INJECTED_TEXT + sizeof *request,
        .create = request->own_thread ? target->create : 0,
        .prepare = target->prepare,
        .set_detached = target->set_detached,
        .set_stack = target->set_stack,
        .ticks = UINT64_C(1) << (SIGTRAP - 1) | UINT64_C(1) << (SIGSTKFLT - 1),
        .process = (uint64_t)target->pid,
        .self = (uint64_t)stopped->tid,
    };
    stopped_describe(stopped, &data.back);
    return process_write(target->pid, data.argument, request, sizeof *request) &&
           process_write(target->pid, data.path, target->agent_path,
                         strlen(target->agent_path) + 1) &&
           process_write(target->pid, at + INJECTED_PAGE, &data, sizeof data);
}

// Nobody can create a second thread while the only one is stopped.
static bool has_several_threads(pid_t pid)
{
    struct process_status status;
    return process_read_status(pid, pid, &status) && atol(process_field(&status, "Threads")) > 1;
}

static bool lead(struct stopped *stopped, struct live_attach_request *request)
{
    if (!request->scratch && !make_scratch(stopped, &request->scratch))
        return false;
    request->own_thread = request->wish != LIVE_ATTACH_SAMPLE && stopped->target->create &&
                          has_several_threads(stopped->target->pid);
    request->scratch_bytes = INJECTED_BYTES;
    request->done = request->scratch + INJECTED_PAGE + offsetof(struct injected, done);
    return write_scratch(stopped, request) &&
           stopped_lead(stopped, request->scratch, request->scratch + INJECTED_BYTES - 64);
}

enum asked { NOT_HERE, ASKED, FAILED };

// The first rounds are choosy.
static bool is_good(enum safety safety, int round)
{
    return safety == PLACE_SAFE || (safety == PLACE_UNKNOWN && round > BUSY_AFTER);
}

static bool may_interrupt(pid_t pid, pid_t tid, int round)
{
    switch (interruption_of(pid, tid)) {
    case INTERRUPTION_UNSEEN:
    case INTERRUPTION_FAILS:
        return true;
    case INTERRUPTION_COUNTED:
        return round >= COUNTED_AFTER;
    default:
        return round >= ANEW_AFTER;
    }
}

static enum asked ask_thread(struct target *target, pid_t tid, struct safe_place *place,
                             struct live_attach_request *request, int round)
{
    struct stopped stopped;
    const int error = stopped_begin(&stopped, target, tid);
    if (error == -EPERM || error == -EACCES) {
        snprintf(target->why, sizeof target->why,
                 "process %d may not be traced by this cairn: run it as root, or permit it "
                 "('cairn doctor' tells how)",
                 (int)target->pid);
        return FAILED;
    }
    if (error)
        return NOT_HERE;
    enum asked asked = NOT_HERE;
    if (target_confines(target->pid, tid)) {
        snprintf(target->why, sizeof target->why, "process %d has confined itself (seccomp)",
                 (int)target->pid);
        asked = FAILED;
    } else if (is_good(safe_place_judge(place, &stopped), round) && lead(&stopped, request)) {
        asked = ASKED;
    }
    stopped_end(&stopped);
    return asked;
}

// All signals are blocked but one of libc's, as for threads that an injected call has created. Threads
// that block all that they may have two of them unblocked.
static bool is_of_injected_call(pid_t pid, pid_t tid)
{
    const uint64_t never = UINT64_C(1) << (SIGKILL - 1) | UINT64_C(1) << (SIGSTOP - 1),
                   of_libc = UINT64_C(1) << 31;
    struct process_status status;
    return process_read_status(pid, tid, &status) &&
           (strtoull(process_field(&status, "SigBlk"), NULL, 16) | never | of_libc) == UINT64_MAX;
}

// Creating a thread takes a lock of the loader. A thread that waits for another of its locks may hold
// that one, and the chain of waiting may end at what the led thread holds. So none is led while any
// waits; one that a killed tool has created may be about to.
static bool loader_is_waited_for(const struct target *target)
{
    char path[40];
    bool is = false;
    snprintf(path, sizeof path, "/proc/%d/task", (int)target->pid);
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && !is && (entry = readdir(folder));) {
        const pid_t tid = (pid_t)atol(entry->d_name);
        const uint64_t lock = tid ? interruption_lock_of(target->pid, tid) : 0;
        is = (lock >= target->loader && lock < target->loader_end) ||
             (tid && is_of_injected_call(target->pid, tid));
    }
    if (folder)
        closedir(folder);
    return is;
}

// One look at all threads: those that wait, or those that run.
static enum asked ask_any(struct target *target, struct safe_place *place,
                          struct live_attach_request *request, bool waiting, int round)
{
    char path[40];
    snprintf(path, sizeof path, "/proc/%d/task", (int)target->pid);
    DIR *folder = opendir(path);
    enum asked asked = NOT_HERE;
    for (struct dirent *entry; folder && asked == NOT_HERE && (entry = readdir(folder));) {
        const pid_t tid = (pid_t)atol(entry->d_name);
        const char state = tid ? state_of(target->pid, tid) : 0;
        // Others do not stop: they wait in the kernel for what nothing interrupts, or are stopped.
        if (waiting ? state == 'S' && may_interrupt(target->pid, tid, round) : state == 'R')
            asked = ask_thread(target, tid, place, request, round);
    }
    if (folder)
        closedir(folder);
    return asked;
}

static enum asked ask(struct target *target, struct live_attach_request *request)
{
    struct safe_place *place = safe_place_open(target->pid);
    enum asked asked = NOT_HERE;
    for (int i = 0; i < ROUNDS && asked == NOT_HERE && place && process_runs(target->pid); i++) {
        const bool busy = loader_is_waited_for(target);
        if (!busy)
            asked = ask_any(target, place, request, true, i);
        if (asked == NOT_HERE && !busy)
            asked = ask_any(target, place, request, false, i);
        if (asked == NOT_HERE)
            nap();
    }
    safe_place_close(place);
    return asked;
}

static bool thread_runs(pid_t pid, pid_t tid)
{
    const char state = state_of(pid, tid);
    return state && state != 'Z' && state != 'X';
}

// False: there is none in time. Where a thread was created for it, that has ended, too.
static bool wait_for_answer(const struct target *target, const struct live_attach_request *request,
                            struct injected *data)
{
    *data = (struct injected){.done = 0};
    for (int i = 0; i < WAIT_MS && process_runs(target->pid); i++) {
        if (process_read(target->pid, request->scratch + INJECTED_PAGE, data, sizeof *data) &&
            data->done && (!data->thread || !thread_runs(target->pid, (pid_t)data->thread)))
            return true;
        stopped_settle_late();
        nap();
    }
    // Should it be asked yet, it does nothing.
    static const uint32_t no_version;
    process_write(target->pid,
                  request->scratch + INJECTED_TEXT + offsetof(struct live_attach_request, version),
                  &no_version, sizeof no_version);
    return false;
}

static long take_answer(struct target *target, struct live_attach_request *request)
{
    struct injected data;
    const bool answered = wait_for_answer(target, request, &data);
    if (answered && data.result > INJECTED_NOT_LOADED) {
        process_read(target->pid, request->scratch + INJECTED_TEXT, request, sizeof *request);
        return data.result;
    }
    snprintf(target->why, sizeof target->why,
             answered && data.result == INJECTED_NO_THREAD
                 ? "process %d may not have another thread (ulimit -u, or the limit of its control "
                   "group)"
             : answered                  ? "process %d could not load the agent, %s: it may not be "
                                           "able to read it"
             : process_runs(target->pid) ? "process %d does not answer: its loader is at work in "
                                           "another thread"
                                         : "process %d has ended",
             (int)target->pid, target->agent_path);
    return answered ? INJECT_NOT_LOADED : INJECT_NOT_CALLED;
}

// Two tools would use one room. The lock ends with the tool. -1: another one has it for long.
static int take_lock(const struct target *target)
{
    char path[40];
    snprintf(path, sizeof path, "/proc/%d", (int)target->pid);
    const int file = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; file >= 0 && i < LOCK_MS; i++) {
        if (!flock(file, LOCK_EX | LOCK_NB))
            return file;
        nap();
    }
    if (file >= 0)
        close(file);
    return -1;
}

long inject_request(struct target *target, struct live_attach_request *request)
{
    request->version = LIVE_ATTACH_VERSION;
    request->scratch = 0; // each call has its own: an earlier one may not have left it yet
    const int lock = take_lock(target);
    const enum asked asked = lock < 0 ? NOT_HERE : ask(target, request);
    const long answer = asked == ASKED ? take_answer(target, request) : INJECT_NOT_CALLED;
    if (lock >= 0)
        close(lock);
    if (asked == NOT_HERE)
        snprintf(target->why, sizeof target->why,
                 process_runs(target->pid)
                     ? "process %d was at no place where a library can be loaded: try again"
                     : "process %d has ended",
                 (int)target->pid);
    return answer;
}

// The instruction of a call has left the address behind it in rcx.
static void note_registers(const struct stopped *stopped, struct live_attach_request *request)
{
    const struct user_regs_struct *from = &stopped->registers;
    const uint64_t registers[LIVE_ATTACH_REGISTERS] = {
        from->rax, from->rdx, from->rcx, from->rbx, from->rsi, from->rdi,
        from->rbp, from->rsp, from->r8,  from->r9,  from->r10, from->r11,
        from->r12, from->r13, from->r14, from->r15, from->rcx};
    memcpy(request->registers, registers, sizeof registers);
    request->flags = from->eflags;
}

static bool lead_waiting(struct stopped *stopped, struct live_attach_request *request)
{
    if (!stopped->in_call || target_confines(stopped->target->pid, stopped->tid))
        return false;
    note_registers(stopped, request);
    return lead(stopped, request);
}

long inject_waiting(struct target *target, pid_t tid, struct live_attach_request *request)
{
    struct stopped stopped;
    request->version = LIVE_ATTACH_VERSION;
    request->scratch = 0;
    const int lock = take_lock(target);
    if (lock < 0 || stopped_begin(&stopped, target, tid)) {
        if (lock >= 0)
            close(lock);
        return INJECT_NOT_CALLED;
    }
    const bool is_led = lead_waiting(&stopped, request);
    stopped_end(&stopped);
    const long answer = is_led ? take_answer(target, request) : INJECT_NOT_CALLED;
    close(lock);
    return answer;
}
