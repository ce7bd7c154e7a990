// SPDX-License-Identifier: MIT
// A snapshot: the recording of this process so far, as a file of the form that the live memory has
// (live/live.h): a session, and one slice. The tool reads it as it reads a profile.
//
// The trees go on growing. Each is read as stable.h reads it and copied into an arena of our own;
// the lists only grow at their heads, and are followed from where they were.

#include "agent/api/api.h"
#include "agent/api/contexts.h"
#include "agent/api/snapshot_contexts.h"
#include "base/now.h"
#include "base/system/agent_map.h"
#include "tree/copy.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct picture {
    struct arena arena;
    struct live_process *process;
    size_t mapped;
};

// A copy of a record, its link apart. 0: no room.
static ref_t copy_record(struct picture *picture, const void *record, size_t bytes)
{
    const ref_t ref = arena_alloc(&picture->arena, bytes);
    if (ref)
        memcpy(arena_at(&picture->arena, ref), record, bytes);
    return ref;
}

static void copy_modules(struct picture *picture)
{
    // Acquire, here and for the other lists: records behind the head are whole. The order is
    // reversed here, and again by readers, who want the oldest first.
    ref_t last = 0, ref = atomic_load_explicit(&agent.process->modules, memory_order_acquire);
    uint32_t left = LIVE_MOST_LISTED;
    const struct live_module *module;
    while ((module = live_listed(&agent.arena, ref, sizeof *module, &left))) {
        const ref_t copy = copy_record(picture, module, sizeof *module + module->path_bytes);
        ref = module->next;
        if (!copy)
            return;
        struct live_module *copied = arena_at(&picture->arena, copy);
        copied->next = 0;
        if (last)
            ((struct live_module *)arena_at(&picture->arena, last))->next = copy;
        else
            atomic_store_explicit(&picture->process->modules, copy, memory_order_relaxed);
        last = copy;
    }
}

static void copy_notes(struct picture *picture)
{
    ref_t ref = atomic_load_explicit(&agent.process->notes, memory_order_acquire);
    uint32_t left = LIVE_MOST_LISTED;
    const struct live_note *note;
    while ((note = live_listed(&agent.arena, ref, sizeof *note, &left))) {
        const ref_t copy = copy_record(picture, note, sizeof *note + note->bytes);
        ref = note->next;
        if (!copy)
            return;
        struct live_note *copied = arena_at(&picture->arena, copy);
        live_push(&picture->process->notes, &copied->next, copy);
    }
}

// With the record's phase.
static int add_thread(struct picture *picture, const struct live_thread *record, ref_t tree)
{
    const ref_t ref = copy_record(picture, record, sizeof *record);
    if (!ref)
        return -ENOMEM;
    struct live_thread *copied = arena_at(&picture->arena, ref);
    copied->tree = tree;
    if (record->phase) {
        const struct live_phase *phase = arena_at(&agent.arena, record->phase);
        copied->phase = copy_record(picture, phase, sizeof *phase + phase->bytes + 1);
    }
    live_push(&picture->process->threads, &copied->next, ref);
    return 0;
}

static int copy_tree(struct picture *picture, const struct live_thread *record)
{
    struct api_tree tree;
    int error = api_read_tree(&tree, record->tree);
    if (!error && tree.stable.count) {
        const ref_t copy = tree_copy(&picture->arena, &tree.stable, &agent.arena,
                                     arena_head(&agent.arena)->limit, record->tree);
        error = copy ? add_thread(picture, record, copy) : -ENOMEM;
    }
    api_close_tree(&tree);
    return error;
}

static int copy_trees(struct picture *picture)
{
    int error = 0;
    ref_t ref = atomic_load_explicit(&agent.process->threads, memory_order_acquire);
    uint32_t left = LIVE_MOST_LISTED;
    const struct live_thread *record;
    while (!error && (record = live_listed(&agent.arena, ref, sizeof *record, &left))) {
        if (api_is_asked_for(record))
            error = copy_tree(picture, record);
        ref = record->next;
    }
    return error;
}

// The calls that created threads: steps never change.
static int copy_creations(struct picture *picture)
{
    const struct live_creations *from = &agent.process->creations;
    struct live_creations *to = &picture->process->creations;
    const uint32_t count = atomic_load_explicit(&from->count, memory_order_acquire);
    const size_t bytes = LIVE_CREATION_BLOCK * sizeof(struct live_creation_step);
    for (uint32_t i = 0; i * LIVE_CREATION_BLOCK < count && i < LIVE_CREATION_BLOCKS; i++) {
        const void *block = arena_find(&agent.arena, from->blocks[i], bytes);
        to->blocks[i] = block ? copy_record(picture, block, bytes) : 0;
        if (!to->blocks[i])
            return -ENOMEM;
    }
    atomic_store_explicit(&to->count, count, memory_order_relaxed);
    return 0;
}

static void describe(struct picture *picture)
{
    struct live_process *to = picture->process;
    const struct live_process *from = agent.process;
    to->pid = from->pid;
    to->parent_pid = from->parent_pid;
    to->source = from->source;
    to->exclude_kernel = from->exclude_kernel;
    to->forked = from->forked;
    to->start_ns = from->start_ns;
    to->encode = from->encode; // others count on meanwhile
    atomic_store_explicit(&to->end_ns, now_ns(CLOCK_MONOTONIC), memory_order_relaxed);
    atomic_store_explicit(&to->agent_bytes,
                          atomic_load_explicit(&from->agent_bytes, memory_order_relaxed),
                          memory_order_relaxed);
    atomic_store_explicit(&to->thread_starts,
                          atomic_load_explicit(&from->thread_starts, memory_order_relaxed),
                          memory_order_relaxed);
    if (from->command)
        to->command =
            copy_record(picture, arena_at(&agent.arena, from->command), from->command_bytes);
    to->command_bytes = to->command ? from->command_bytes : 0;
    atomic_store_explicit(&to->state, LIVE_RUNNING, memory_order_relaxed);
}

// Room for copies of all, in address space: unused pages cost nothing.
static int open_picture(struct picture *picture)
{
    const uint64_t used =
        atomic_load_explicit(&arena_head(&agent.arena)->used, memory_order_relaxed);
    picture->mapped = (used * 3 + (UINT64_C(4) << 20)) & ~(uint64_t)4095;
    picture->process = agent_map(picture->mapped);
    if (!picture->process)
        return -ENOMEM;
    arena_init(&picture->arena, picture->process, sizeof *picture->process, picture->mapped);
    return 0;
}

static int write_all(int fd, const void *data, size_t bytes)
{
    for (const char *at = data; bytes;) {
        const ssize_t written = write(fd, at, bytes);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return written ? -errno : -EIO;
        at += written;
        bytes -= (size_t)written;
    }
    return 0;
}

static int write_picture(struct picture *picture, int fd)
{
    union {
        struct live_session session;
        char bytes[LIVE_SESSION_BYTES];
    } page;
    memset(&page, 0, sizeof page);
    struct arena_head *head = arena_head(&picture->arena);
    const uint64_t used = atomic_load_explicit(&head->used, memory_order_relaxed);
    head->limit = used;
    page.session.magic = LIVE_MAGIC;
    page.session.version = LIVE_VERSION;
    page.session.slice_bytes = (used + LIVE_SESSION_BYTES - 1) & -(uint64_t)LIVE_SESSION_BYTES;
    page.session.options = agent.session->options;
    memcpy(page.session.tree_name, agent.session->tree_name, sizeof page.session.tree_name);
    // The process' clock knows no dates.
    page.session.start_realtime_ns =
        now_ns(CLOCK_REALTIME) - now_ns(CLOCK_MONOTONIC) + agent.process->start_ns;
    atomic_store_explicit(&page.session.slices, 1, memory_order_relaxed);
    int error = write_all(fd, &page, sizeof page);
    return error ? error : write_all(fd, picture->process, used);
}

static int take(struct picture *picture)
{
    int error = open_picture(picture);
    if (error)
        return error;
    describe(picture);
    error = copy_trees(picture);
    // After the trees, as the modules: the calls that they name are there by now.
    if (!error)
        error = copy_creations(picture);
    if (!error)
        error = api_copy_contexts(&picture->arena, &picture->process->contexts);
    // After the trees: the records that they name are on the lists by now.
    copy_modules(picture);
    copy_notes(picture);
    return error;
}

// A file that is neither a snapshot nor a profile stays as it is.
static int check_target(const char *path)
{
    static const char profile_magic[8] = {'c', 'a', 'i', 'r', 'n', '\r', '\n', 0x1a};
    const uint64_t snapshot_magic = LIVE_MAGIC;
    char found[8];
    struct stat status;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return errno == ENOENT ? 0 : -errno;
    const ssize_t bytes = read(fd, found, sizeof found);
    const bool ordinary = !fstat(fd, &status) && S_ISREG(status.st_mode);
    close(fd);
    const bool ours = bytes == sizeof found && (!memcmp(found, profile_magic, sizeof found) ||
                                                !memcmp(found, &snapshot_magic, sizeof found));
    return ordinary && (ours || bytes == 0) ? 0 : -EEXIST;
}

// Written beside the file, and then put in its place: a reader never finds half of one.
static int write_file(struct picture *picture, const char *path)
{
    char beside[PATH_MAX];
    const int length = snprintf(beside, sizeof beside, "%s.%d.new", path, (int)agent.pid);
    if (length < 0 || (size_t)length >= sizeof beside)
        return -ENAMETOOLONG;
    // It holds the program's arguments.
    const int fd = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    int error = write_picture(picture, fd);
    if (close(fd) && !error)
        error = -errno;
    if (!error && rename(beside, path))
        error = -errno;
    if (error)
        unlink(beside);
    return error;
}

API int cairn_snapshot_1(const char *path)
{
    if (!path || !*path)
        return -EINVAL;
    if (!agent.active || agent_in_vfork_child())
        return -ENODATA;
    if (tree_traits_of(agent.session->options.tree)->keeps_all &&
        live_values(&agent.session->options) > 1)
        return -ENOTSUP; // a copy has one value a node
    const int saved_errno = errno;
    struct picture picture = {0};
    int error = check_target(path);
    if (!error)
        error = take(&picture);
    if (!error)
        error = write_file(&picture, path);
    if (picture.process)
        agent_unmap(picture.process, picture.mapped);
    errno = saved_errno;
    return error;
}
