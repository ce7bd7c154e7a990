// SPDX-License-Identifier: MIT
#include "make_live.h"
#include "tree/tree.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void must(int condition)
{
    if (!condition)
        abort();
}

struct fake_live fake_live_new(uint64_t slice_bytes, unsigned most_slices)
{
    struct fake_live live = {.slice_bytes = slice_bytes};
    live.fd = memfd_create("cairn-test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    must(live.fd >= 0);
    must(ftruncate(live.fd, (off_t)(LIVE_SESSION_BYTES + slice_bytes * most_slices)) == 0);
    live.session = mmap(NULL, LIVE_SESSION_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, live.fd, 0);
    must(live.session != MAP_FAILED);
    live.session->magic = LIVE_MAGIC;
    live.session->version = LIVE_VERSION;
    live.session->slice_bytes = slice_bytes;
    live.session->options.period_ns = 1000000;
    live.session->options.follow_fork = 1;
    return live;
}

void fake_live_free(struct fake_live *live)
{
    munmap(live->session, LIVE_SESSION_BYTES);
    close(live->fd);
}

struct fake_process fake_process_new(struct fake_live *live, pid_t pid, const char *command,
                                     size_t command_bytes)
{
    struct fake_process made = {.bytes = live->slice_bytes};
    uint64_t slice = atomic_fetch_add(&live->session->slices, 1);
    void *memory = mmap(NULL, made.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, live->fd,
                        (off_t)(LIVE_SESSION_BYTES + slice * live->slice_bytes));
    must(memory != MAP_FAILED);
    arena_init(&made.arena, memory, sizeof(struct live_process), made.bytes);
    made.process = memory;
    made.process->pid = (uint32_t)pid;
    made.process->parent_pid = 1;
    made.process->source = LIVE_SOURCE_SIGTRAP;
    made.process->start_ns = 12345;
    made.process->command = arena_alloc(&made.arena, command_bytes);
    must(made.process->command != 0);
    made.process->command_bytes = (uint32_t)command_bytes;
    memcpy(arena_at(&made.arena, made.process->command), command, command_bytes);
    atomic_store(&made.process->state, LIVE_RUNNING);
    return made;
}

void fake_process_free(struct fake_process *process)
{
    munmap(process->process, process->bytes);
}

static void push(_Atomic ref_t *head, ref_t *next, ref_t ref)
{
    *next = atomic_load(head);
    atomic_store(head, ref);
}

void fake_module(struct fake_process *process, unsigned id, const char *path)
{
    size_t bytes = strlen(path);
    ref_t ref = arena_alloc(&process->arena, sizeof(struct live_module) + bytes);
    must(ref != 0);
    struct live_module *module = arena_at(&process->arena, ref);
    module->id = id;
    module->base = 0x400000;
    module->bytes = 0x10000;
    module->build_id_bytes = 20;
    memset(module->build_id, (int)id, 20);
    module->path_bytes = (uint32_t)bytes;
    memcpy(module->path, path, bytes);
    push(&process->process->modules, &module->next, ref);
}

struct live_thread *fake_thread(struct fake_process *process, place_t start)
{
    ref_t ref = arena_alloc(&process->arena, sizeof(struct live_thread));
    must(ref != 0);
    struct live_thread *thread = arena_at(&process->arena, ref);
    thread->tree = tree_new(&process->arena, &(struct tree_options){.metrics = 1, .start = start});
    must(thread->tree != 0);
    thread->start = start;
    atomic_store(&thread->tid, process->process->pid);
    atomic_store(&thread->owned, 1);
    atomic_store(&thread->threads, 1);
    atomic_fetch_add(&process->process->thread_starts, 1);
    push(&process->process->threads, &thread->next, ref);
    return thread;
}

uint32_t fake_creation(struct fake_process *process, uint32_t parent, uint32_t level, place_t site,
                       place_t function)
{
    struct live_creations *creations = &process->process->creations;
    const uint32_t index = atomic_load(&creations->count);
    ref_t *block = &creations->blocks[index / LIVE_CREATION_BLOCK];
    struct live_creation_step step = {
        .parent = parent, .level = level, .site = site, .function = function};
    if (index % LIVE_CREATION_BLOCK == 0)
        *block = arena_alloc(&process->arena, LIVE_CREATION_BLOCK * sizeof step);
    must(*block != 0);
    ((struct live_creation_step *)arena_at(&process->arena, *block))[index % LIVE_CREATION_BLOCK] =
        step;
    atomic_store(&creations->count, index + 1);
    return index + 1;
}

void fake_note(struct fake_process *process, const char *text)
{
    size_t bytes = strlen(text);
    ref_t ref = arena_alloc(&process->arena, sizeof(struct live_note) + bytes);
    must(ref != 0);
    struct live_note *note = arena_at(&process->arena, ref);
    note->bytes = (uint32_t)bytes;
    memcpy(note->text, text, bytes);
    push(&process->process->notes, &note->next, ref);
}

void fake_sample(struct fake_process *process, struct live_thread *thread, const uint64_t *path,
                 unsigned depth, uint64_t pc, uint64_t cost)
{
    struct arena *arena = &process->arena;
    ref_t frame = tree_root(arena, thread->tree);
    ref_t leaf = 0;
    for (unsigned i = 0; i < depth && frame; i++) {
        ref_t edge = tree_edge(arena, thread->tree, place_make(3, i ? path[i - 1] + 5 : 1),
                               place_make(3, path[i]));
        ref_t next = tree_child(arena, thread->tree, frame, edge);
        if (!next) {
            leaf = tree_unplaced(arena, thread->tree, frame);
            thread->stats.unplaced++;
            break;
        }
        frame = next;
    }
    if (!leaf)
        leaf = tree_child(arena, thread->tree, frame,
                          tree_edge(arena, thread->tree, place_make(3, pc), 0));
    tree_add(arena, leaf ? leaf : tree_unplaced(arena, thread->tree, frame), 0, cost);
    thread->stats.samples++;
    thread->stats.verdicts[VERDICT_COMPLETE]++;
    thread->stats.cost_ns += cost;
    thread->stats.handler_ns += 900;
    thread->stats.handler_histogram[live_bucket(900)]++;
}
