// SPDX-License-Identifier: MIT
// Start and end of the agent in a process.

#include "agent/api/api.h"
#include "agent/event_starts.h"
#include "agent/interpose/environment.h"
#include "agent/interpose/events/alloc.h"
#include "agent/interpose/limits.h"
#include "agent/interpose/process/child_cpu.h"
#include "agent/interpose/signals.h"
#include "agent/publish.h"
#include "agent/session/agent.h"
#include "agent/session/tracer.h"
#include "agent/slice.h"
#include "agent/thread/counted.h"
#include "agent/thread/thread.h"
#include "base/lock.h"
#include "base/now.h"
#include "base/system/agent_map.h"
#include "base/system/kernel.h"
#include "loadmap/loadmap.h"
#include "patch/stubs/stub_cfi.h"
#include "patch/transaction.h"
#include "track/context_id/thread_creation.h"
#include "track/runtimes/file_places.h"
#include "track/runtimes/python.h"
#include "track/runtimes/runtime_names.h"
#include "track/tracker.h"
#include "track/walk/marker.h"
#include "track/walk/seen_unwinders.h"
#include "track/walk/unmarkable.h"
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <linux/futex.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

struct agent agent;

__attribute__((visibility("default"))) struct live_attached cairn_attached = {
    .magic = LIVE_ATTACH_MAGIC, .version = LIVE_ATTACH_VERSION};

bool agent_is_interposed(void)
{
    return dlsym(RTLD_DEFAULT, "pthread_create") == (void *)pthread_create;
}

bool agent_tool_is_gone(void)
{
    // The word that the kernel writes to comes first. Relaxed: it is seen some day.
    return agent.session &&
           __atomic_load_n((const uint32_t *)&agent.session->tool, __ATOMIC_RELAXED) &
               FUTEX_OWNER_DIED;
}

bool agent_in_vfork_child(void)
{
    return now_process() != agent.pid;
}

static void set_state(enum live_state state)
{
    // Release: all records so far are readable.
    atomic_store_explicit(&agent.process->state, state, memory_order_release);
}

static struct tracker_process tracker_process(void)
{
    return (struct tracker_process){
        .options = &agent.session->options,
        .encode = &agent.process->encode,
        .alloc = &agent.process->alloc,
        .hands_on = (uintptr_t)signals_hand_on,
        .recording = agent_is_recording(),
        .note = agent_note,
    };
}

static int start_tracker(void)
{
    const struct tracker_process process = tracker_process();
    tracker = tracker_of((enum live_tracker)agent.session->options.tracker);
    return tracker->start(&process);
}

// The program is linked with no library: the C library came with the agent, and the program makes
// threads, and their local storage, by itself (Go without cgo).
static bool has_no_library(void)
{
    const ElfW(Dyn) *entry = _r_debug.r_map ? _r_debug.r_map->l_ld : NULL;
    for (; entry && entry->d_tag != DT_NULL; entry++)
        if (entry->d_tag == DT_NEEDED)
            return false;
    return entry != NULL;
}

// All that must be in place before a thread can be sampled. The process has a slice.
static int arm(void)
{
    child_cpu_start();
    program_unwinder_start(publish_unwinder_note);
    int error = loadmap_start(publish_module);
    if (error)
        return error;
    unmarkable_start();
    marker_start();
    if (!python_start())
        agent_note("a program runs a Python whose frames are not known (3.11 and 3.12 are): the "
                   "interpreter's own functions are shown");
    stub_cfi_ask(NULL, walk_unwinder_asks);
    error = signals_start();
    if (!error)
        error = thread_arm();
    agent.armed = !error;
    return error;
}

// The program is linked with us: it may ask for a recording some day. Libraries loaded by now stay
// for good.
static void wait_for_start(int argc, char **argv)
{
    if (slice_take_waiting())
        return;
    publish_command(argc, argv);
    arm();
    cairn_attached.state = LIVE_ATTACH_LINKED;
}

// The event that the tool has had this process make on itself. Where another process is the first
// that we are in, it has none.
static void end_startup_event(void)
{
    if (agent.slice == 0 && agent.session->startup_sampled)
        kernel_call(SYS_prctl, PR_TASK_PERF_EVENTS_DISABLE, 0, 0, 0);
}

static int join_session(int argc, char **argv, uint64_t charged)
{
    int error = slice_take_first();
    if (error)
        return error;
    set_state(LIVE_STARTING);
    publish_command(argc, argv);
    if (!gc_hidden_is_open)
        return -EACCES;
    if (tracer_is_present(0)) {
        agent_note("a process ran under a debugger or tracer and was not sampled");
        return -EBUSY;
    }
    if (environment_is_emulated(argv + argc + 1)) {
        agent_note("a process ran under valgrind, which would take the agent's signals, and was "
                   "not sampled");
        return -EBUSY;
    }
    if (has_no_library()) {
        agent_note("a process does without the C library, which the agent needs, and was not "
                   "sampled");
        return -EBUSY;
    }
    error = arm();
    end_startup_event();
    // The time for installing hooks is not the program's.
    const uint64_t before = clock_now(LIVE_EVENT_CPU);
    if (!error)
        error = start_tracker();
    if (!error)
        error = thread_start_main(charged + clock_now(LIVE_EVENT_CPU) - before);
    if (!error)
        error = event_starts();
    if (!error)
        set_state(LIVE_RUNNING);
    return error;
}

static void join_as_child(struct live_process *parent, const struct arena *parent_arena,
                          size_t parent_mapped)
{
    // From here on nothing may touch the parent's trees, whatever else fails.
    const int error = agent.session->options.follow_fork ? agent_take_slice(true) : 0;
    if (error || !agent.session->options.follow_fork) {
        // The parent's memory is still mapped, and any process may add a note there. How many found
        // no room, the tool knows.
        if (error && error != -ENOSPC && error != -ENOMEM)
            agent_note("a process was forked where the agent's memory cannot be opened, as in a "
                       "container (bwrap, unshare) or without a free descriptor: it was not "
                       "profiled, nor what it started");
        agent.active = false;
        trackers_after_fork(NULL);
        thread_after_fork();
        return;
    }
    set_state(LIVE_STARTING);
    const struct tracker_process process = tracker_process();
    trackers_after_fork(&process);
    publish_copy(parent, parent_arena);
    creation_after_fork(parent_arena, &parent->creations);
    thread_after_fork();
    if (event_starts())
        agent_note("a child of fork has no memory to follow its allocations");
    slice_unmap(parent, parent_mapped, agent.own ? AGENT_MAP_PRIVATE : AGENT_MAP_SHARED);
    set_state(LIVE_RUNNING);
}

int agent_begin_own(const struct live_session *like)
{
    struct live_session *session = mmap(agent_map_hint(LIVE_SESSION_BYTES), LIVE_SESSION_BYTES,
                                        PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (session == MAP_FAILED)
        return -ENOMEM;
    memcpy(session, like, sizeof *session);
    struct arena waiting_arena = agent.arena;
    struct live_process *waiting = agent.process;
    const size_t waiting_mapped = agent.slice_mapped;
    agent.session = session;
    agent.own = true;
    int error = slice_take_own(false);
    if (error) {
        agent.session = NULL;
        agent.own = false;
        munmap(session, LIVE_SESSION_BYTES);
        return error;
    }
    publish_copy(waiting, &waiting_arena);
    slice_unmap(waiting, waiting_mapped, AGENT_MAP_PRIVATE);
    set_state(LIVE_RUNNING);
    return start_tracker();
}

// Most of it stays from one recording to the next.
static int arm_attached(void)
{
    static bool known;
    int error = 0;
    if (!known) {
        child_cpu_start();
        program_unwinder_start(publish_unwinder_note);
        error = loadmap_start(publish_module);
        if (error)
            return error;
        unmarkable_start();
        marker_start();
        stub_cfi_ask(NULL, walk_unwinder_asks);
    }
    known = true;
    error = signals_start();
    if (!error)
        error = thread_arm_attached();
    agent.armed = !error;
    return error;
}

int agent_begin_attached(const char *session_path)
{
    if (!agent.process) {
        if (slice_take_waiting())
            return -ENOMEM;
        publish_running_command();
    }
    if (strlen(session_path) >= sizeof agent.session_path)
        return -ENAMETOOLONG;
    strcpy(agent.session_path, session_path);
    agent.attached = counted_may_end = true;
    agent.recording++;
    runtime_names_forget();
    file_places_forget_all();
    atomic_store(&agent.left, 0);
    const struct arena arena = agent.arena;
    struct live_process *waiting = agent.process;
    const size_t mapped = agent.slice_mapped;
    agent.pid = now_process();
    int error = arm_attached();
    if (!error)
        error = slice_take_first();
    if (error) {
        agent.attached = agent.armed = false;
        thread_end_stop();
        return error;
    }
    set_state(LIVE_STARTING);
    publish_copy(waiting, &arena);
    slice_unmap(waiting, mapped, AGENT_MAP_PRIVATE);
    error = start_tracker();
    agent.active = !error;
    set_state(error ? LIVE_ENDED : LIVE_RUNNING);
    return error;
}

void agent_end_attached(void)
{
    struct arena arena = agent.arena;
    struct live_process *process = agent.process;
    const size_t mapped = agent.slice_mapped;
    agent.active = false;
    agent.attached = agent.armed = false;
    child_cpu_say_goodbye();
    alloc_count_memory();
    atomic_store_explicit(&process->end_ns, clock_now(LIVE_EVENT_WALL), memory_order_release);
    slice_keep_session_page();
    if (!slice_take_waiting())
        publish_copy(process, &arena);
    slice_let_go(process, mapped);
}

void agent_after_fork(void)
{
    if (!agent.armed)
        return;
    lock_after_fork();
    patch_after_fork();
    exec_after_fork();
    api_after_fork();
    trackers_break_locks();
    if (!agent.active) {
        loadmap_after_fork();
        trackers_after_fork(NULL);
        thread_after_fork();
        agent.pid = now_process();
        return;
    }
    struct arena parent_arena = agent.arena;
    struct live_process *parent = agent.process;
    size_t parent_mapped = agent.slice_mapped;
    loadmap_after_fork();
    agent.pid = now_process();
    const int saved_errno = errno;
    int cancellable;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellable);
    join_as_child(parent, &parent_arena, parent_mapped);
    pthread_setcancelstate(cancellable, NULL);
    errno = saved_errno;
}

void agent_finish(void)
{
    if (!agent.active || agent.silent || agent_in_vfork_child() ||
        (thread_self && thread_self->dispatched))
        return;
    thread_settle_all();
    child_cpu_say_goodbye();
    alloc_count_memory();
    // Release: a reader that sees it also sees the goodbye.
    atomic_store_explicit(&agent.process->end_ns, clock_now(LIVE_EVENT_WALL), memory_order_release);
}

__attribute__((constructor)) static void begin(int argc, char **argv, char **environment)
{
    uint64_t charged;
    const char *limits = NULL;
    int saved_errno = errno;
    const bool has_session = environment_session(environment, agent.session_path,
                                                 sizeof agent.session_path, &charged, &limits);
    limits_start(limits);
    if (!has_session) {
        if (agent_is_interposed())
            wait_for_start(argc, argv);
        errno = saved_errno;
        return;
    }
    cairn_attached.state = LIVE_ATTACH_RECORDED;
    int error = join_session(argc, argv, charged);
    if (agent.session)
        environment_hide(environment, agent.session->agent_path);
    agent.active = !error;
    if (error == -EBUSY) {
        set_state(LIVE_ENDED);
    } else if (error && agent.process) {
        char text[] = "the agent could not start in a process (error 000)";
        for (int i = (int)sizeof text - 3, rest = -error; rest; rest /= 10, i--)
            text[i] = (char)('0' + rest % 10);
        agent_note(text);
        set_state(LIVE_ENDED);
    }
    errno = saved_errno;
}

__attribute__((destructor)) static void end(void)
{
    agent_finish();
}
