// SPDX-License-Identifier: MIT
#include "agent/attach/attach.h"
#include "agent/event_starts.h"
#include "agent/interpose/events/io.h"
#include "agent/interpose/signals.h"
#include "agent/session/public.h"
#include "agent/thread/counted.h"
#include "agent/thread/existing_threads.h"
#include "agent/thread/thread.h"
#include "base/now.h"
#include "live/attach.h"
#include "unwind/arch.h"
#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

static void set_state(enum live_attach_state state)
{
    // Relaxed: the tool looks from outside, from time to time.
    atomic_store_explicit(&cairn_attached.state, state, memory_order_relaxed);
}

static void *own_handle(void)
{
    Dl_info info;
    return dladdr((void *)&cairn_attached, &info) ? dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD)
                                                  : NULL;
}

// The tool lets ticks arrive that are on their way to some threads, and then has us forget. A tool
// that is killed in between leaves them there: the next one looks after all threads.
static enum { NONE_ON_THEIR_WAY, TO_SOME, TO_ANY } ticks;

// Stops sampling: nothing of ours runs any more but handlers of signals that are on their way.
static int leave(struct live_attach_request *request)
{
    if (!agent.attached)
        return -ENOENT;
    counted_switch_off();
    const unsigned count = thread_list_leave(request->ticked, LIVE_ATTACH_TICKED);
    io_end();
    imports_give_back(); // now, for exec without our function, which stops the clock, is the end
    request->ticked_count = ticks == TO_ANY ? UINT32_MAX : count;
    if (ticks == NONE_ON_THEIR_WAY)
        ticks = TO_SOME;
    agent_end_attached();
    set_state(LIVE_ATTACH_IDLE);
    return 0;
}

// Time that a thread waits is charged when the wait ends. Those that wait when we go are asked where
// they are, each by itself, and go back to their system calls.
static int sample(const struct live_attach_request *request)
{
    ucontext_t context;
    if (!agent.attached)
        return -ENOENT;
    memset(&context, 0, sizeof context);
    for (unsigned i = 0; i < LIVE_ATTACH_REGISTERS; i++)
        *(uint64_t *)((char *)&context + arch_context_offset(i)) = request->registers[i];
    context.uc_mcontext.gregs[REG_EFL] = (greg_t)request->flags;
    sample_waiting(&context);
    return 0;
}

// A clock that sees threads wait may be forbidden to this process.
static int begin_clocks(struct live_attach_request *request)
{
    const int error = thread_list_meet_all(request->own_thread ? (pid_t)syscall(SYS_gettid) : 0);
    if (!error)
        return 0;
    leave(request);
    if (!signals_stop()) // no clock has run
        ticks = NONE_ON_THEIR_WAY;
    return error;
}

// Last of all: what we do ourselves up to here is not counted.
static int begin_events(struct live_attach_request *request)
{
    const int error = event_starts();
    if (error)
        leave(request);
    else
        imports_take_events();
    return error;
}

static int begin(struct live_attach_request *request)
{
    if (agent.attached && agent_tool_is_gone())
        leave(request);
    if (agent.active || agent.armed)
        return -EBUSY;
    if (ticks == TO_SOME)
        ticks = TO_ANY;
    const int error = agent_begin_attached(request->session_path);
    if (error && ticks == NONE_ON_THEIR_WAY)
        signals_stop();
    if (error)
        return error;
    set_state(LIVE_ATTACH_RECORDING);
    imports_take(own_handle());
    const int refused = begin_clocks(request);
    return refused ? refused : begin_events(request);
}

// Memory of the last calls, oldest next.
#define SCRATCHES 8
static struct {
    uint64_t start, bytes, done;
} scratches[SCRATCHES];
static unsigned next_scratch;

static void note_scratch(const struct live_attach_request *request)
{
    const unsigned i = next_scratch++ % SCRATCHES;
    if (scratches[i].start && *(const volatile uint64_t *)scratches[i].done == 1)
        munmap((void *)scratches[i].start, scratches[i].bytes);
    scratches[i].start = request->scratch;
    scratches[i].bytes = request->scratch_bytes;
    scratches[i].done = request->done;
}

static long grant(struct live_attach_request *request)
{
    long result = -EPROTO;
    note_scratch(request);
    if (request->wish == LIVE_ATTACH_BEGIN)
        result = begin(request);
    else if (request->wish == LIVE_ATTACH_LEAVE)
        result = leave(request);
    else if (request->wish == LIVE_ATTACH_SAMPLE)
        result = sample(request);
    else if (request->wish == LIVE_ATTACH_FORGET && !agent.attached && !(result = signals_stop()))
        ticks = NONE_ON_THEIR_WAY;
    return result;
}

__attribute__((visibility("default"))) long cairn_attach_1(struct live_attach_request *request);

API long cairn_attach_1(struct live_attach_request *request)
{
    static _Atomic pid_t
        busy; // the process whose thread is at work here; a fork may have copied it
    const int saved_errno = errno;
    const pid_t self = now_process();
    pid_t before = atomic_load(&busy);
    long result = -EAGAIN;
    if (request->version != LIVE_ATTACH_VERSION) {
        result = -EPROTO;
    } else if (before != self && atomic_compare_exchange_strong(&busy, &before, self)) {
        result = grant(request);
        atomic_store(&busy, 0);
    }
    errno = saved_errno;
    return result;
}
