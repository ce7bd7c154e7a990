// SPDX-License-Identifier: MIT
#ifndef CAIRN_CMD_RECORD_LAUNCH_KERNEL_ACCESS_H
#define CAIRN_CMD_RECORD_LAUNCH_KERNEL_ACCESS_H

// How much of the kernel's work for a program this user may see.

#include "cmd/record/options/record_options.h"

struct kernel_access {
    enum live_kernel level;
    char reason[128]; // why no frames: a clause
    char remedy[64];  // a command; "" if nothing helps
};

// With full trees and the best clock.
struct kernel_access kernel_access_here(void);

// How much a recording gets.
struct kernel_access kernel_access(const struct record_options *options);

// As a profile keeps it (struct profile); empty: nothing.
void kernel_access_text(const struct kernel_access *access, char *text, size_t bytes);

#endif
