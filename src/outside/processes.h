// SPDX-License-Identifier: MIT
#ifndef CAIRN_OUTSIDE_PROCESSES_H
#define CAIRN_OUTSIDE_PROCESSES_H

// The processes and threads that are sampled from outside, as the kernel's records tell of them.

#include "outside/slice.h"

#define COMMAND_MOST 4096

struct foreign_thread {
    struct foreign_thread *next; // of those whose number ends so
    struct foreign_process *process;
    uint32_t tid;
    char name[THREAD_NAME_BYTES];
    struct live_thread *record; // in the process' slice; NULL: none yet
};

struct foreign_process {
    struct foreign_process *next;
    uint32_t pid, parent_pid;
    bool is_known;   // its mappings are
    bool forked;     // and runs its parent's program
    bool is_waiting; // for exec: what runs until then is not recorded
    bool has_base;   // `charged_ns` is
    bool is_kernel;  // a thread of the kernel: it has no memory of its own
    char name[THREAD_NAME_BYTES];
    struct space space;
    struct slice slice;
    struct live_thread *last; // that was charged
    unsigned threads;
    // Its CPU time: up to where it is charged, and what a sample of the present reading weighs.
    uint64_t charged_ns, samples, weight_ns;
};

struct foreign_processes {
    struct foreign_process *process[1024];
    struct foreign_thread *thread[4096];
};

// Made when it is met first. NULL: no memory.
struct foreign_process *processes_get(struct foreign_processes *all, uint32_t pid);
struct foreign_thread *processes_get_thread(struct foreign_processes *all, uint32_t pid,
                                            uint32_t tid);
struct foreign_process *processes_find(const struct foreign_processes *all, uint32_t pid);

// A thread has ended, and the process with its last one.
void processes_end_thread(struct foreign_processes *all, uint32_t pid, uint32_t tid);

// A new program runs in the process.
void processes_exec(struct foreign_processes *all, struct foreign_process *process,
                    const char *name);

// Opens its slice. False: there is no room.
bool process_open(struct foreign_process *process, const struct outside_memory *memory,
                  bool exclude_kernel);

// The tree that the thread is charged in: in its process, or in another one that stands for that.
// NULL: no memory.
struct live_thread *thread_tree(struct foreign_thread *thread, struct foreign_process *owner,
                                const struct outside_memory *memory,
                                const struct foreign_path *path);

void processes_visit(struct foreign_processes *all,
                     void (*visit)(void *context, struct foreign_process *process), void *context);
void processes_free(struct foreign_processes *all);

#endif
