// SPDX-License-Identifier: MIT
#include "outside/slice.h"
#include "base/now.h"
#include "base/system/huge.h"
#include "tree/tree.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define KEPT_PART 8 // of a slice, for when the rest is full

static void describe(struct slice *slice, const struct slice_owner *owner)
{
    struct live_process *process = slice->process;
    process->pid = owner->pid;
    process->parent_pid = owner->parent_pid;
    process->forked = owner->forked;
    process->start_ns = now_ns(CLOCK_MONOTONIC);
    process->source = LIVE_SOURCE_OUTSIDE;
    process->exclude_kernel = owner->exclude_kernel;
    process->written_by_tool = 1;
    const ref_t ref = arena_alloc(&slice->arena, owner->command_bytes + 1);
    if (!ref)
        return;
    memcpy(arena_at(&slice->arena, ref), owner->command, owner->command_bytes);
    process->command = ref;
    process->command_bytes = (uint32_t)owner->command_bytes;
}

bool slice_open(struct slice *slice, const struct outside_memory *memory,
                const struct slice_owner *owner)
{
    // Relaxed: the number is all that matters.
    const uint64_t index =
        atomic_fetch_add_explicit(&memory->session->slices, 1, memory_order_relaxed);
    *slice = (struct slice){.bytes = memory->slice_bytes};
    if (index >= memory->slices)
        return false;
    void *mapped = huge_map(slice->bytes, PROT_READ | PROT_WRITE, MAP_NORESERVE | MAP_SHARED,
                            memory->fd, (off_t)(LIVE_SESSION_BYTES + index * memory->slice_bytes));
    slice->published = calloc(1, MODULE_LIMIT);
    if (mapped == MAP_FAILED || !slice->published) {
        free(slice->published);
        return false;
    }
    slice->process = mapped;
    arena_init(&slice->arena, mapped, sizeof *slice->process, slice->bytes);
    arena_keep_back(&slice->arena, slice->bytes / KEPT_PART);
    arena_share(&slice->arena, &memory->session->memory_left);
    describe(slice, owner);
    // Release: all records so far are readable.
    atomic_store_explicit(&slice->process->state, LIVE_RUNNING, memory_order_release);
    return true;
}

void slice_close(struct slice *slice)
{
    if (!slice->process)
        return;
    atomic_store_explicit(&slice->process->end_ns, now_ns(CLOCK_MONOTONIC), memory_order_release);
    // Release: a reader that sees it has all there is.
    atomic_store_explicit(&slice->process->state, LIVE_ENDED, memory_order_release);
    munmap(slice->process, slice->bytes);
    free(slice->published);
    *slice = (struct slice){.process = NULL};
}

static struct live_thread *find_thread(struct slice *slice, const struct live_thread *like,
                                       bool per_thread)
{
    uint32_t left = LIVE_MOST_LISTED;
    struct live_thread *thread;
    for (ref_t ref = atomic_load_explicit(&slice->process->threads, memory_order_relaxed);
         (thread = live_listed(&slice->arena, ref, sizeof *thread, &left)); ref = thread->next)
        if (!thread->start == !like->start &&
            (!like->start || thread_name_same_pool(thread->name, like->name)) &&
            (!per_thread || thread->tid == like->tid))
            return thread;
    return NULL;
}

static struct live_thread *new_thread(struct slice *slice, const struct live_thread *like)
{
    const struct tree_options tree = {.kind = TREE_FULL, .metrics = 1, .start = like->start};
    ref_t ref = arena_alloc(&slice->arena, sizeof(struct live_thread));
    if (!ref) // its tree will be one that forgets
        ref = arena_alloc_kept(&slice->arena, sizeof(struct live_thread));
    struct live_thread *thread = ref ? arena_at(&slice->arena, ref) : NULL;
    if (!thread || !(thread->tree = tree_new(&slice->arena, &tree)))
        return NULL;
    thread->start = like->start;
    memcpy(thread->name, like->name, sizeof thread->name);
    thread->first_ns = now_ns(CLOCK_MONOTONIC);
    live_push(&slice->process->threads, &thread->next, ref);
    return thread;
}

struct live_thread *slice_thread(struct slice *slice, const struct outside_memory *memory,
                                 const struct live_thread *like)
{
    struct live_thread *thread =
        find_thread(slice, like, memory->session->options.per_thread && like->start);
    if (thread && thread->name[0] && !thread_name_equals(thread->name, like->name))
        thread_name_pool(thread->name, like->name);
    if (!thread)
        thread = new_thread(slice, like);
    if (!thread)
        return NULL;
    thread->tid = like->tid;
    atomic_fetch_add_explicit(&thread->threads, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&slice->process->thread_starts, 1, memory_order_relaxed);
    return thread;
}

void slice_publish(struct slice *slice, const struct mirror *mirror, uint64_t base)
{
    const size_t length = strlen(mirror->path);
    if (slice->published[mirror->ref.id])
        return;
    const ref_t ref = arena_alloc(&slice->arena, sizeof(struct live_module) + length + 1);
    if (!ref)
        return;
    struct live_module *module = arena_at(&slice->arena, ref);
    module->id = mirror->ref.id;
    module->base = base;
    module->bytes = mirror->ref.end - mirror->ref.start;
    module->build_id_bytes = mirror->build_id_bytes;
    memcpy(module->build_id, mirror->build_id, mirror->build_id_bytes);
    module->path_bytes = (uint32_t)length;
    memcpy(module->path, mirror->path, length);
    live_push(&slice->process->modules, &module->next, ref);
    slice->published[mirror->ref.id] = 1;
}

// The node of the statement that a path leads to.
static ref_t find_node(struct slice *slice, ref_t tree, const struct foreign_path *path)
{
    struct arena *arena = &slice->arena;
    ref_t node = tree_root(arena, tree);
    for (size_t i = path->count; i-- > 0;) {
        const struct foreign_frame *frame = &path->frames[i];
        const ref_t child =
            tree_child(arena, tree, node, tree_edge(arena, tree, frame->site, frame->function));
        if (!child)
            return tree_unplaced(arena, tree, node);
        node = child;
    }
    if (tree_forgets(arena, tree))
        return node;
    const ref_t statement =
        tree_child(arena, tree, node, tree_edge(arena, tree, path->statement, 0));
    return statement ? statement : tree_unplaced(arena, tree, node);
}

void slice_charge(struct slice *slice, struct live_thread *thread, const struct foreign_path *path,
                  uint64_t weight)
{
    struct live_stats *stats = &thread->stats;
    const ref_t node = find_node(slice, thread->tree, path);
    tree_charge(&slice->arena, thread->tree, node, weight);
    thread->last_node = node;
    stats->samples++;
    stats->cost_ns += weight;
    stats->verdicts[path->verdict]++;
    stats->frames_stack += path->count;
    stats->frames_walked += path->count;
}

void slice_settle(struct slice *slice, struct live_thread *thread, uint64_t rest)
{
    ref_t node = tree_forgets(&slice->arena, thread->tree) ? 0 : thread->last_node;
    if (!node)
        node = tree_unplaced(&slice->arena, thread->tree, tree_root(&slice->arena, thread->tree));
    tree_charge(&slice->arena, thread->tree, node, rest);
    thread->stats.cost_ns += rest;
    thread->stats.residue_ns += rest;
}
