// SPDX-License-Identifier: MIT
#ifndef CAIRN_INJECT_PROCESS_H
#define CAIRN_INJECT_PROCESS_H

// A process as the kernel shows it: its state, and its memory.

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// Whether the process still runs. A zombie does not.
bool process_runs(pid_t pid);

// /proc/PID/status of a thread, as it was at one moment. False: it is gone.
struct process_status {
    char text[4096];
};
bool process_read_status(pid_t pid, pid_t tid, struct process_status *status);

// A field of it, up to the end of its line and further; "" if there is none.
const char *process_field(const struct process_status *status, const char *field);

bool process_read(pid_t pid, uint64_t address, void *to, size_t bytes);
bool process_write(pid_t pid, uint64_t address, const void *from, size_t bytes);

#endif
