// SPDX-License-Identifier: MIT
#include "outside/processes.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LISTS(array) (sizeof(array) / sizeof *(array))

struct foreign_process *processes_find(const struct foreign_processes *all, uint32_t pid)
{
    struct foreign_process *process = all->process[pid % LISTS(all->process)];
    while (process && process->pid != pid)
        process = process->next;
    return process;
}

static size_t read_proc(uint32_t pid, const char *file, char *text, size_t bytes)
{
    char path[48];
    snprintf(path, sizeof path, "/proc/%u/%s", pid, file);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t length = fd < 0 ? 0 : read(fd, text, bytes - 1);
    if (fd >= 0)
        close(fd);
    text[length > 0 ? length : 0] = 0;
    return length > 0 ? (size_t)length : 0;
}

static void read_name(uint32_t pid, uint32_t tid, char name[THREAD_NAME_BYTES])
{
    char file[32], text[32];
    snprintf(file, sizeof file, "task/%u/comm", tid);
    read_proc(pid, file, text, sizeof text);
    snprintf(name, THREAD_NAME_BYTES, "%.*s", (int)strcspn(text, "\n"), text);
}

struct foreign_process *processes_get(struct foreign_processes *all, uint32_t pid)
{
    struct foreign_process *process = processes_find(all, pid);
    struct foreign_process **list = &all->process[pid % LISTS(all->process)];
    if (process || !(process = calloc(1, sizeof *process)))
        return process;
    process->pid = pid;
    read_name(pid, pid, process->name);
    process->next = *list;
    *list = process;
    return process;
}

struct foreign_thread *processes_get_thread(struct foreign_processes *all, uint32_t pid,
                                            uint32_t tid)
{
    struct foreign_thread **list = &all->thread[tid % LISTS(all->thread)], *thread = *list;
    while (thread && (thread->tid != tid || thread->process->pid != pid))
        thread = thread->next;
    struct foreign_process *process = thread ? NULL : processes_get(all, pid);
    if (thread || !process || !(thread = calloc(1, sizeof *thread)))
        return thread;
    thread->tid = tid;
    thread->process = process;
    process->threads++;
    if (tid != pid)
        read_name(pid, tid, thread->name);
    thread->next = *list;
    *list = thread;
    return thread;
}

static void end_process(struct foreign_processes *all, struct foreign_process *process)
{
    struct foreign_process **at = &all->process[process->pid % LISTS(all->process)];
    while (*at != process)
        at = &(*at)->next;
    *at = process->next;
    slice_close(&process->slice);
    space_clear(&process->space);
    free(process);
}

void processes_end_thread(struct foreign_processes *all, uint32_t pid, uint32_t tid)
{
    struct foreign_thread **at = &all->thread[tid % LISTS(all->thread)];
    while (*at && ((*at)->tid != tid || (*at)->process->pid != pid))
        at = &(*at)->next;
    struct foreign_thread *thread = *at;
    if (!thread)
        return;
    *at = thread->next;
    struct foreign_process *process = thread->process;
    free(thread);
    if (--process->threads == 0)
        end_process(all, process);
}

void processes_exec(struct foreign_processes *all, struct foreign_process *process,
                    const char *name)
{
    slice_close(&process->slice);
    space_clear(&process->space);
    process->last = NULL;
    process->is_known = true;
    process->forked = process->is_waiting = false;
    snprintf(process->name, sizeof process->name, "%s", name);
    for (size_t i = 0; i < LISTS(all->thread); i++)
        for (struct foreign_thread *thread = all->thread[i]; thread; thread = thread->next)
            if (thread->process == process)
                thread->record = NULL;
}

bool process_open(struct foreign_process *process, const struct outside_memory *memory,
                  bool exclude_kernel)
{
    char command[COMMAND_MOST];
    if (!process->space.stack_start)
        space_read_stack(&process->space, (pid_t)process->pid);
    size_t bytes = read_proc(process->pid, "cmdline", command, sizeof command);
    if (!bytes || !command[0]) { // gone by now, or a thread of the kernel
        snprintf(command, sizeof command, "%s", process->name);
        bytes = strlen(command);
    }
    command[bytes] = 0;
    const struct slice_owner owner = {
        .pid = process->pid,
        .parent_pid = process->parent_pid,
        .forked = process->forked,
        .exclude_kernel = exclude_kernel,
        .command = command,
        .command_bytes = command[bytes - 1] ? bytes + 1 : bytes,
    };
    if (!slice_open(&process->slice, memory, &owner))
        return false;
    for (size_t i = 0; i < process->space.count; i++) {
        const struct space_mapping *mapping = &process->space.mappings[i];
        if (mapping->mirror)
            slice_publish(&process->slice, mapping->mirror,
                          mapping->mirror->ref.start - mapping->shift);
    }
    return true;
}

struct live_thread *thread_tree(struct foreign_thread *thread, struct foreign_process *owner,
                                const struct outside_memory *memory,
                                const struct foreign_path *path)
{
    struct foreign_process *process = thread->process;
    struct live_thread like = {.tid = thread->tid};
    if (thread->record)
        return thread->record;
    if (process->is_kernel) {
        like.start = place_make(MODULE_KERNEL, PLACE_OFFSET_UNKNOWN);
        memcpy(like.name, process->name, sizeof like.name);
    } else if (thread->tid != process->pid) {
        like.start = path->count ? path->frames[path->count - 1].function : PLACE_UNKNOWN;
        // Threads begin with the name of what has made them.
        if (!thread_name_equals(thread->name, process->name))
            memcpy(like.name, thread->name, sizeof like.name);
    }
    return thread->record = slice_thread(&owner->slice, memory, &like);
}

void processes_visit(struct foreign_processes *all,
                     void (*visit)(void *context, struct foreign_process *process), void *context)
{
    for (size_t i = 0; i < LISTS(all->process); i++)
        for (struct foreign_process *process = all->process[i]; process; process = process->next)
            visit(context, process);
}

void processes_free(struct foreign_processes *all)
{
    for (size_t i = 0; i < LISTS(all->thread); i++)
        while (all->thread[i]) {
            struct foreign_thread *thread = all->thread[i];
            all->thread[i] = thread->next;
            free(thread);
        }
    for (size_t i = 0; i < LISTS(all->process); i++)
        while (all->process[i])
            end_process(all, all->process[i]);
}
