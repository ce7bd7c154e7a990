// SPDX-License-Identifier: MIT
#ifndef CAIRN_BASE_SYSTEM_MEMORY_LIMIT_H
#define CAIRN_BASE_SYSTEM_MEMORY_LIMIT_H

// How much memory the processes of a control group may take. The shared memory counts, too, so the
// program would be killed for the profiler's memory.

#include <stdint.h>

struct memory_limit_files {
    const char *groups; // where the groups are mounted: /sys/fs/cgroup
    const char *own;    // which of them this process is in: /proc/self/cgroup
};

extern const struct memory_limit_files memory_limit_files;

// The least limit of the group and those above it, by version 1 or 2; UINT64_MAX: there is none.
uint64_t memory_limit(const struct memory_limit_files *files);

#endif
