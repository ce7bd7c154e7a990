// SPDX-License-Identifier: MIT
// The session's memory, and this process' part of it.

#include "agent/slice.h"
#include "agent/interpose/events/alloc.h"
#include "agent/interpose/limits.h"
#include "agent/session/agent.h"
#include "agent/thread/phase.h"
#include "base/now.h"
#include "base/system/agent_map.h"
#include "base/system/huge.h"
#include "event/clock.h"
#include "track/context_id/context_id.h"
#include "track/context_id/thread_creation.h"
#include "track/runtimes/runtime_names.h"
#include "tree/tree.h"
#include "unwind/unwind.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SMALLEST_SLICE (UINT64_C(1) << 20)
// Of a slice, this part is kept back for when full trees have used up the rest. Measured with an
// eighth: a later context that is not found has at most 3e-4 of the total in 1 MB, and 2e-5 in 4
// MB. Twice as much halves that, and takes a seventh of the exact contexts.
#define KEPT_PART 8

// Of the last recording that has left (agent_end_attached): the next one takes its addresses.
static void *left_slice;
static size_t left_bytes;

static int open_session_file(void)
{
    int fd = open(agent.session_path, O_RDWR | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static int map_session(int fd)
{
    // In the place of an earlier one, which handlers and functions of ours know.
    struct live_session *session =
        mmap(agent.session ? agent.session : agent_map_hint(LIVE_SESSION_BYTES), LIVE_SESSION_BYTES,
             PROT_READ | PROT_WRITE, MAP_SHARED | (agent.session ? MAP_FIXED : 0), fd, 0);
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
        fd >= 0 && left_bytes == bytes
            ? mmap(left_slice, bytes, PROT_READ | PROT_WRITE,
                   MAP_NORESERVE | MAP_SHARED | MAP_FIXED, fd, offset)
            : huge_map(bytes, PROT_READ | PROT_WRITE,
                       MAP_NORESERVE | (fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED), fd,
                       offset);
    if (memory == left_slice)
        left_bytes = 0; // taken
    if (memory != MAP_FAILED)
        agent_map_hide(memory, bytes);
    else
        agent_map_release(bytes, kind);
    return memory;
}

void slice_unmap(void *memory, size_t bytes, enum agent_map_kind kind)
{
    munmap(memory, bytes);
    agent_map_release(bytes, kind);
}

// Each call that creates threads has trees of its own. Those that forget are large from the start;
// those of functions have no paths.
static uint32_t most_creations(const struct live_options *options)
{
    if (!options || !tree_traits_of(options->tree)->has_paths)
        return 0;
    return tree_traits_of(options->tree)->keeps_all ? 128 : 16;
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
    if (options && tree_traits_of(options->tree)->keeps_all && !has_blocks &&
        live_values(options) == 1)
        arena_keep_back(&agent.arena, bytes / KEPT_PART);
    if (agent.session && !agent.own)
        arena_share(&agent.arena, &agent.session->memory_left);
    phase_forget_records();
    describe_process(agent.process, forked);
    runtime_names_start(&agent.arena, &agent.process->names, agent_note);
    context_id_start(&agent.arena, &agent.process->contexts);
    creation_start(&agent.arena, &agent.process->creations, most_creations(options));
}

int slice_take_own(bool forked)
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
        return slice_take_own(forked);
    const int fd = open_session_file();
    const int error = fd < 0 ? fd : take_slice(fd, forked);
    if (fd >= 0)
        close(fd);
    return error;
}

int slice_take_waiting(void)
{
    void *memory = gc_hidden_is_open ? map_slice(-1, 0, SMALLEST_SLICE) : MAP_FAILED;
    if (memory == MAP_FAILED)
        return -ENOMEM;
    settle_in(memory, SMALLEST_SLICE, false);
    return 0;
}

int slice_take_first(void)
{
    const int fd = open_session_file();
    int error = fd < 0 ? fd : map_session(fd);
    if (!error)
        error = take_slice(fd, false);
    if (fd >= 0)
        close(fd);
    return error;
}

// The memory goes, and its addresses stay: functions of ours may be at work.
static void *empty(void *memory, size_t bytes)
{
    return mmap(memory, bytes, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
}

void slice_keep_session_page(void)
{
    struct live_session copy = *agent.session;
    empty(agent.session, LIVE_SESSION_BYTES);
    *agent.session = copy;
}

void slice_let_go(struct live_process *process, size_t bytes)
{
    empty(process, bytes);
    left_slice = process;
    left_bytes = bytes;
}
