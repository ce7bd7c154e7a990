// SPDX-License-Identifier: MIT
// Start and end of the agent in a process.

#include "agent/api/api.h"
#include "agent/interpose/alloc.h"
#include "agent/interpose/child_cpu.h"
#include "agent/interpose/limits.h"
#include "agent/interpose/signals.h"
#include "agent/session/agent.h"
#include "agent/session/environment.h"
#include "agent/session/event_starts.h"
#include "agent/session/phase.h"
#include "agent/session/tracer.h"
#include "agent/thread/signal_stack.h"
#include "agent/thread/thread.h"
#include "base/agent_map.h"
#include "base/huge.h"
#include "base/kernel.h"
#include "base/lock.h"
#include "base/now.h"
#include "loadmap/loadmap.h"
#include "patch/sites.h"
#include "patch/stub_cfi.h"
#include "track/context_id/context_id.h"
#include "track/context_id/thread_creation.h"
#include "track/tracker.h"
#include "track/walk/marker.h"
#include "track/walk/program_unwinders.h"
#include "track/walk/unmarkable.h"
#include "unwind/unwind.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SMALLEST_SLICE (UINT64_C(1) << 20)
// Of a slice, this part is kept back for when full trees have used up the rest. Measured with an
// eighth: a later context that is not found has at most 3e-4 of the total in 1 MB, and 2e-5 in 4
// MB. Twice as much halves that, and takes a seventh of the exact contexts.
#define KEPT_PART 8

struct agent agent;

static int open_session_file(void)
{
    int fd = open(agent.session_path, O_RDWR | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static int map_session(int fd)
{
    struct live_session *session = mmap(agent_map_hint(LIVE_SESSION_BYTES), LIVE_SESSION_BYTES,
                                        PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (session == MAP_FAILED)
        return -ENOMEM;
    if (session->magic != LIVE_MAGIC || session->version != LIVE_VERSION) {
        munmap(session, LIVE_SESSION_BYTES);
        return -EPROTO;
    }
    agent.session = session;
    return 0;
}

// How much of the slice to map. A program that lives under an address-space limit which cannot be
// raised for us keeps nearly all of it.
static size_t slice_to_map(void)
{
    uint64_t bytes = agent.session->slice_bytes;
    if (limits_of_space() / 64 < bytes && !limits_have_room_for(bytes))
        bytes = limits_of_space() / 64;
    if (bytes < SMALLEST_SLICE)
        bytes = SMALLEST_SLICE;
    return bytes & ~(uint64_t)4095;
}

static void describe_process(struct live_process *process, bool forked)
{
    process->pid = (uint32_t)now_process();
    process->parent_pid = (uint32_t)getppid();
    process->forked = forked;
    process->start_ns = clock_now(LIVE_EVENT_WALL);
    atomic_store_explicit(&process->agent_bytes, unwind_bytes(), memory_order_relaxed);
}

// Without a file it is the process' own, and a child of fork has a copy until it lets go of it.
static void *map_slice(int fd, off_t offset, size_t bytes)
{
    const enum agent_map_kind kind = fd < 0 ? AGENT_MAP_PRIVATE : AGENT_MAP_SHARED;
    agent_map_claim(bytes, kind);
    void *memory =
        huge_map(bytes, PROT_READ | PROT_WRITE,
                 MAP_NORESERVE | (fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED), fd, offset);
    if (memory != MAP_FAILED)
        agent_map_hide(memory, bytes);
    else
        agent_map_release(bytes, kind);
    return memory;
}

static void unmap_slice(void *memory, size_t bytes, enum agent_map_kind kind)
{
    munmap(memory, bytes);
    agent_map_release(bytes, kind);
}

// Each call that creates threads has trees of its own. Those that forget are large from the start;
// those of functions have no paths.
static uint32_t most_creations(const struct live_options *options)
{
    if (!options || options->tree == LIVE_TREE_FUNCTIONS)
        return 0;
    return options->tree == LIVE_TREE_FULL ? 128 : 16;
}

static void settle_in(void *memory, size_t bytes, bool forked)
{
    agent.process = memory;
    agent.slice_mapped = bytes;
    agent.pid = now_process();
    // The table of blocks takes its part of the memory for call paths.
    const struct live_options *options = agent.session ? &agent.session->options : NULL;
    const bool has_blocks = options && live_has(options, LIVE_EVENT_ALLOC);
    arena_init(&agent.arena, memory, sizeof *agent.process,
               has_blocks ? bytes - bytes / ALLOC_PART : bytes);
    // For when all of it is used. Trees that forget count one event.
    if (options && options->tree == LIVE_TREE_FULL && !has_blocks && live_values(options) == 1)
        arena_keep_back(&agent.arena, bytes / KEPT_PART);
    if (agent.session && !agent.own)
        arena_share(&agent.arena, &agent.session->memory_left);
    phase_forget_records();
    describe_process(agent.process, forked);
    context_id_start(&agent.arena, &agent.process->contexts);
    creation_start(&agent.arena, &agent.process->creations, most_creations(options));
}

static int take_own_slice(bool forked)
{
    size_t bytes = slice_to_map();
    void *memory = map_slice(-1, 0, bytes);
    while (memory == MAP_FAILED && bytes / 2 >= SMALLEST_SLICE) {
        bytes = bytes / 2 & ~(size_t)4095;
        memory = map_slice(-1, 0, bytes);
    }
    if (memory == MAP_FAILED)
        return -ENOMEM;
    // Sparse it shall stay: a huge page for each corner that is touched would be most of it.
    madvise(memory, bytes, MADV_NOHUGEPAGE);
    settle_in(memory, bytes, forked);
    return 0;
}

static int take_slice(int fd, bool forked)
{
    // Relaxed: the number is all that matters.
    uint64_t slice = atomic_fetch_add_explicit(&agent.session->slices, 1, memory_order_relaxed);
    agent.slice = slice;
    off_t offset = (off_t)(LIVE_SESSION_BYTES + slice * agent.session->slice_bytes);
    size_t bytes = slice_to_map();
    struct stat status;
    if (fstat(fd, &status) || offset > status.st_size - (off_t)bytes)
        return -ENOSPC; // the session has no room for so many processes
    void *memory = map_slice(fd, offset, bytes);
    while (memory == MAP_FAILED && bytes / 2 >= SMALLEST_SLICE) {
        bytes = bytes / 2 & ~(size_t)4095;
        memory = map_slice(fd, offset, bytes);
    }
    if (memory == MAP_FAILED)
        return -ENOMEM;
    settle_in(memory, bytes, forked);
    return 0;
}

int agent_take_slice(bool forked)
{
    if (agent.own)
        return take_own_slice(forked);
    const int fd = open_session_file();
    const int error = fd < 0 ? fd : take_slice(fd, forked);
    if (fd >= 0)
        close(fd);
    return error;
}

// Said once for each language.
static void note_runtime(enum module_runtime runtime)
{
    static _Atomic bool said[RUNTIME_OCAML + 1];
    const struct live_options *options = agent.session ? &agent.session->options : NULL;
    if (!options || atomic_exchange(&said[runtime], true))
        return;
    if (options->tracker == LIVE_TRACKER_ENCODE || options->tracker == LIVE_TRACKER_CALLS)
        agent_note(runtime == RUNTIME_GO
                       ? "code in Go is not patched, as its runtime looks up return addresses: its "
                         "calls are not followed, its stacks are walked"
                       : "code in OCaml is not patched, as its runtime looks up return addresses: "
                         "its calls are not followed, its stacks are walked");
}

// Not said where there would be no marker anyway.
static void note_unwinder(void)
{
    const struct live_options *options = agent.session ? &agent.session->options : NULL;
    if (options && options->tracker == LIVE_TRACKER_ENCODE)
        agent_note(
            "a program has an unwinder of its own (libunwind, or whatever asks for all unwind "
            "tables), which would see the stubs of rewritten calls: its stacks were walked");
    else if (options && options->tracker == LIVE_TRACKER_WALK && options->marker)
        agent_note(
            "a program has an unwinder of its own (libunwind, or whatever asks for all unwind "
            "tables), which would see the marker: none was placed, and returns were not "
            "counted");
}

static void publish_module(const struct module_info *info)
{
    size_t length = strlen(info->path);
    unmarkable_note_module(info);
    if (info->runtime != RUNTIME_NONE)
        note_runtime(info->runtime);
    if (info->runtime == RUNTIME_GO)
        atomic_store_explicit(&signal_stack_is_shared, true, memory_order_relaxed);
    // A byte more: for readers in this process the path ends with a zero.
    ref_t ref = arena_alloc(&agent.arena, sizeof(struct live_module) + length + 1);
    if (!ref)
        return;
    struct live_module *module = arena_at(&agent.arena, ref);
    module->id = info->id;
    module->base = info->base;
    module->bytes = info->bytes;
    module->build_id_bytes = info->build_id_bytes < sizeof module->build_id
                                 ? info->build_id_bytes
                                 : sizeof module->build_id;
    memcpy(module->build_id, info->build_id, module->build_id_bytes);
    module->path_bytes = (uint32_t)length;
    memcpy(module->path, info->path, length);
    live_push(&agent.process->modules, &module->next, ref);
}

// Each is kept once: notes of all children of a program would fill its memory.
static bool is_noted(const char *text, size_t length)
{
    // Acquire: records behind the head are whole.
    ref_t ref = atomic_load_explicit(&agent.process->notes, memory_order_acquire);
    for (const struct live_note *note; ref; ref = note->next) {
        note = arena_at(&agent.arena, ref);
        if (note->bytes == length && !memcmp(note->text, text, length))
            return true;
    }
    return false;
}

void agent_note(const char *text)
{
    size_t length = strlen(text);
    if (is_noted(text, length))
        return;
    ref_t ref = arena_alloc(&agent.arena, sizeof(struct live_note) + length);
    if (!ref)
        return;
    struct live_note *note = arena_at(&agent.arena, ref);
    note->bytes = (uint32_t)length;
    memcpy(note->text, text, length);
    live_push(&agent.process->notes, &note->next, ref);
}

static void publish_command(int argc, char **argv)
{
    size_t bytes = 0;
    for (int i = 0; i < argc; i++)
        bytes += strlen(argv[i]) + 1;
    ref_t ref = arena_alloc(&agent.arena, bytes);
    if (!ref)
        return;
    char *text = arena_at(&agent.arena, ref);
    for (int i = 0; i < argc; i++)
        text = stpcpy(text, argv[i]) + 1;
    agent.process->command_bytes = (uint32_t)bytes;
    agent.process->command = ref;
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
    tracker_choose((enum live_tracker)agent.session->options.tracker);
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
    program_unwinder_start(note_unwinder);
    int error = loadmap_start(publish_module);
    if (error)
        return error;
    unmarkable_start();
    marker_start();
    stub_cfi_ask(NULL, program_unwinder_asks);
    error = signals_start();
    if (!error)
        error = thread_arm();
    agent.armed = !error;
    return error;
}

// The program is linked with us: it may ask for a recording some day. Libraries loaded by now stay
// for good, and are noted in a few pages that the recording takes over.
static void wait_for_start(int argc, char **argv)
{
    void *memory = gc_hidden_is_open ? map_slice(-1, 0, SMALLEST_SLICE) : MAP_FAILED;
    if (memory == MAP_FAILED)
        return;
    settle_in(memory, SMALLEST_SLICE, false);
    publish_command(argc, argv);
    arm();
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
    const int fd = open_session_file();
    int error = fd < 0 ? fd : map_session(fd);
    if (!error)
        error = take_slice(fd, false);
    if (fd >= 0)
        close(fd);
    if (error)
        return error;
    set_state(LIVE_STARTING);
    publish_command(argc, argv);
    if (!gc_hidden_is_open)
        return -EACCES;
    if (tracer_is_present()) {
        agent_note("a process ran under a debugger or tracer and was not sampled");
        return -EBUSY;
    }
    if (environment_is_emulated(argv + argc + 1)) {
        agent_note(
            "a process ran under valgrind, whose signals ours would be, and was not sampled");
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

// A child has the parent's slice mapped; its modules are the child's too.
static void copy_modules(const struct arena *from, ref_t first)
{
    uint32_t left = LIVE_MOST_LISTED;
    const struct live_module *module;
    for (ref_t ref = first; (module = live_listed(from, ref, sizeof *module, &left));
         ref = module->next) {
        char path[4096];
        size_t length = module->path_bytes < sizeof path ? module->path_bytes : sizeof path - 1;
        memcpy(path, module->path, length);
        path[length] = 0;
        publish_module(&(struct module_info){.id = module->id,
                                             .path = path,
                                             .base = module->base,
                                             .bytes = module->bytes,
                                             .build_id_bytes = module->build_id_bytes,
                                             .build_id = module->build_id});
    }
}

static void copy_command(const struct live_process *parent, const struct arena *from)
{
    const uint32_t bytes = parent->command_bytes; // once: the program may scribble over it
    const void *command = arena_find(from, parent->command, bytes);
    ref_t ref = command ? arena_alloc(&agent.arena, bytes) : 0;
    if (!ref)
        return;
    memcpy(arena_at(&agent.arena, ref), command, bytes);
    agent.process->command_bytes = bytes;
    agent.process->command = ref;
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
    copy_command(parent, parent_arena);
    copy_modules(parent_arena, atomic_load_explicit(&parent->modules, memory_order_acquire));
    creation_after_fork(parent_arena, &parent->creations);
    thread_after_fork();
    if (event_starts())
        agent_note("a child of fork has no memory to follow its allocations");
    unmap_slice(parent, parent_mapped, agent.own ? AGENT_MAP_PRIVATE : AGENT_MAP_SHARED);
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
    int error = take_own_slice(false);
    if (error) {
        agent.session = NULL;
        agent.own = false;
        munmap(session, LIVE_SESSION_BYTES);
        return error;
    }
    copy_command(waiting, &waiting_arena);
    copy_modules(&waiting_arena, atomic_load_explicit(&waiting->modules, memory_order_acquire));
    unmap_slice(waiting, waiting_mapped, AGENT_MAP_PRIVATE);
    set_state(LIVE_RUNNING);
    return start_tracker();
}

void agent_after_fork(void)
{
    if (!agent.armed)
        return;
    lock_after_fork();
    sites_after_fork();
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
        wait_for_start(argc, argv);
        errno = saved_errno;
        return;
    }
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
