// SPDX-License-Identifier: MIT

#include "cmd/record/session.h"
#include "base/system/memory_limit.h"
#include "base/text/text.h"
#include "cmd/record/launch/kernel_access.h"
#include "tree/tree.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

// Sparse: only what is written costs memory. The larger, the more processes can come and go, as far
// as a limit (ulimit -f) permits. The size, or -errno.
static int64_t make_large(int fd, uint64_t smallest)
{
    struct rlimit limit;
    uint64_t bytes = UINT64_C(1) << 50;
    if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur < bytes)
        bytes = limit.rlim_cur;
    if (bytes < smallest)
        return -EFBIG;
    return ftruncate(fd, (off_t)bytes) ? -errno : (int64_t)bytes;
}

// The part of the address space that a slice may take, where that is limited: it is mapped here.
#define SPACE_PART 16
#define SMALLEST_SLICE (UINT64_C(1) << 20)

static uint64_t space_limit(void)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_AS, &limit) || limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX
                                                                           : limit.rlim_cur;
}

// How much the trees of a process may take, and those of all together.
static void size_up(struct session *session, uint64_t wanted, uint64_t *slice, uint64_t *all)
{
    const uint64_t group = memory_limit(&memory_limit_files), space = space_limit();
    *slice = wanted;
    *all = group == UINT64_MAX ? INT64_MAX : group / SESSION_GROUP_PART;
    if (*slice > *all)
        *slice = *all;
    if (*slice > space / SPACE_PART)
        *slice = space / SPACE_PART;
    if (*slice < SMALLEST_SLICE)
        *slice = SMALLEST_SLICE;
    *slice = (*slice + LIVE_SESSION_BYTES - 1) & -(uint64_t)LIVE_SESSION_BYTES;
    session->note[0] = 0;
    if (*all < wanted)
        snprintf(session->note, sizeof session->note,
                 "call paths could take %s of memory: 1/%d of the limit of the control group",
                 text_bytes(*all).text, SESSION_GROUP_PART);
    else if (*slice < wanted)
        snprintf(session->note, sizeof session->note,
                 "the call paths of a process could take %s of memory: address space is limited",
                 text_bytes(*slice).text);
}

int session_create(struct session *session, const struct record_options *options,
                   const char *agent_path)
{
    uint64_t slice, all;
    size_up(session, options->memory, &slice, &all);
    if (strlen(agent_path) >= sizeof session->shared->agent_path)
        return -ENAMETOOLONG;
    // The recorder seals it: a program that shortens the file would let us die by SIGBUS.
    int fd = memfd_create("cairn", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -errno;
    const int64_t bytes = make_large(fd, LIVE_SESSION_BYTES + slice);
    int error = bytes < 0 ? (int)bytes : 0;
    void *page = MAP_FAILED;
    if (!error) {
        page = mmap(NULL, LIVE_SESSION_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        error = page == MAP_FAILED ? -errno : 0;
    }
    if (error) {
        close(fd);
        return error;
    }
    session->fd = fd;
    session->shared = page;
    session->slices = ((uint64_t)bytes - LIVE_SESSION_BYTES) / slice;
    snprintf(session->path, sizeof session->path, "/proc/%d/fd/%d", (int)getpid(), fd);

    struct live_session *shared = session->shared;
    shared->version = LIVE_VERSION;
    shared->tool_pid = (uint32_t)getpid();
    shared->slice_bytes = session->slice_bytes = slice;
    atomic_store_explicit(&shared->memory_left, (int64_t)all, memory_order_relaxed);
    const struct kernel_access kernel = kernel_access(options);
    kernel_access_text(&kernel, session->kernel, sizeof session->kernel);
    shared->options = (struct live_options){
        .event = options->event,
        .also = options->also,
        .source = options->source,
        .period_ns = options->period_ns,
        .marker = options->marker,
        .per_thread = options->per_thread,
        .follow_fork = options->follow_fork,
        .tracker = options->tracker,
        .trigger = options->trigger,
        .call_period = options->call_period,
        .alloc_period = options->alloc_period,
        .weights_all_new = options->weights_all_new,
        .randomised = options->randomised,
        .fold_recursion = options->fold_recursion,
        .burst_interval_ns = options->burst_interval_ns,
        .burst_length_ns = options->burst_length_ns,
        .burst_one_in = options->burst_one_in,
        .empty_handler = options->empty_handler,
        .verify = options->verify,
        .reencode_always = options->reencode_always,
        .calls_by = options->calls_by,
        .encode_by = options->encode_by,
        .kernel = kernel.level,
        .calls_window = options->calls_window,
        .timeline = options->timeline,
        .io_part = options->io_part,
    };
    shared->options.counter_count = options->counter_count;
    for (unsigned i = 0; i < options->counter_count; i++)
        shared->options.counters[i] = options->counters[i].counter;
    fill_tree_options(&shared->options, &options->trees);
    // Where there are no contexts, there is nothing below the start-up.
    shared->startup_sampled =
        options->event == LIVE_EVENT_CPU && tree_traits_of(shared->options.tree)->has_paths;
    const struct tree_name kind = tree_name(&options->trees);
    memcpy(shared->tree_name, kind.text, sizeof shared->tree_name);
    strcpy(shared->agent_path, agent_path);
    session_set_recording(session, options->delay_ns == 0);
    shared->magic = LIVE_MAGIC;
    return 0;
}

// They may not look into /proc/PID/fd of ours. As long as nobody has opened the memory it may still
// become another file.
int session_share(struct session *session, uid_t owner)
{
    struct live_session *page = session->shared;
    const uint64_t bytes = LIVE_SESSION_BYTES + session->slices * session->slice_bytes;
    char path[sizeof session->path] = "/dev/shm/cairn-XXXXXX";
    const int fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0)
        return -errno;
    int error = fchown(fd, owner, (gid_t)-1) || ftruncate(fd, (off_t)bytes) ||
                        write(fd, page, LIVE_SESSION_BYTES) != LIVE_SESSION_BYTES
                    ? -errno
                    : 0;
    void *mapped = error ? MAP_FAILED
                         : mmap(page, LIVE_SESSION_BYTES, PROT_READ | PROT_WRITE,
                                MAP_SHARED | MAP_FIXED, fd, 0);
    if (!error && mapped == MAP_FAILED)
        error = -errno;
    if (!error && dup3(fd, session->fd, O_CLOEXEC) < 0)
        error = -errno;
    close(fd);
    if (error) {
        unlink(path);
        return error;
    }
    strcpy(session->path, path);
    session->shared_by_name = true;
    return 0;
}

void session_unshare(const struct session *session)
{
    if (session->shared_by_name)
        unlink(session->path);
}

void session_set_recording(struct session *session, bool recording)
{
    // The tool writes, every handler reads; nothing else hangs on it, so relaxed is enough.
    atomic_store_explicit(&session->shared->recording, recording, memory_order_relaxed);
}

uint64_t session_refused(const struct session *session)
{
    // The program can write there: impossible values are not believed.
    uint64_t taken = atomic_load_explicit(&session->shared->slices, memory_order_relaxed);
    return taken > session->slices && taken < UINT32_MAX ? taken - session->slices : 0;
}

void session_read_sources(const struct session *session, struct session_sources *sources)
{
    uint64_t count = atomic_load_explicit(&session->shared->slices, memory_order_relaxed);
    bool waiting = false;
    for (uint64_t i = sources->next; i < count && i < sources->next + 256; i++) {
        // Read, not mapped: whatever the program did to the file, this cannot fault.
        struct live_process process;
        off_t offset = (off_t)(LIVE_SESSION_BYTES + i * session->slice_bytes);
        if (pread(session->fd, &process, sizeof process, offset) != sizeof process)
            return;
        if (process.source && process.source <= LIVE_SOURCE_OUTSIDE) {
            sources->by[process.source] = true;
            sources->exclude_kernel |= process.exclude_kernel == 1;
        } else {
            waiting = true; // it has not started its first thread yet, or never will
        }
        if (!waiting)
            sources->next = i + 1;
    }
}
