// SPDX-License-Identifier: MIT
#include "cmd/record/launch/kernel_access.h"
#include "cmd/events/restriction.h"
#include "cmd/events/sources.h"
#include "event/event.h"
#include "profile/recorder/kernel_symbols.h"
#include "tree/tree.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PARANOID "kernel.perf_event_paranoid"
#define RESTRICT "kernel.kptr_restrict"

static bool may_see_chains(void)
{
    const int fd = open_kernel_chains();
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

struct kernel_access kernel_access_here(void)
{
    struct kernel_access access = {.level = LIVE_KERNEL_CALLS};
    const long paranoid = read_setting("/proc/sys/kernel/perf_event_paranoid", -1);
    if (!may_see_chains() && paranoid > 1) {
        snprintf(access.reason, sizeof access.reason, PARANOID " is %ld, and frames need 1 or less",
                 paranoid);
        strcpy(access.remedy, "sudo sysctl " PARANOID "=1");
    } else if (!may_see_chains()) {
        strcpy(access.reason, "perf events that see the kernel are not allowed here");
    } else if (!kernel_symbols_are_readable()) {
        snprintf(access.reason, sizeof access.reason,
                 RESTRICT " is %ld, and names need 0, or the right to read them",
                 read_setting("/proc/sys/kernel/kptr_restrict", -1));
        strcpy(access.remedy, "sudo sysctl " RESTRICT "=0");
    } else {
        access.level = LIVE_KERNEL_FRAMES;
    }
    return access;
}

struct kernel_access kernel_access(const struct record_options *options)
{
    const struct kernel_access none = {.level = LIVE_KERNEL_NONE};
    if (!options->kernel || !tree_traits_of(options->trees.kind)->keeps_all)
        return none;
    if (options->event == LIVE_EVENT_COUNTER ||
        options->event == LIVE_EVENT_OFFCPU) // its ring has no room for frames
        return (struct kernel_access){.level = LIVE_KERNEL_CALLS};
    if (!event_of(options->event)->by_clock)
        return none;
    if (options->source != LIVE_SOURCE_AUTO && options->source != LIVE_SOURCE_SIGTRAP)
        return (struct kernel_access){.level = LIVE_KERNEL_CALLS,
                                      .reason = "this clock sees no frames of the kernel"};
    return kernel_access_here();
}

void kernel_access_text(const struct kernel_access *access, char *text, size_t bytes)
{
    if (access->level == LIVE_KERNEL_NONE)
        *text = '\0';
    else if (access->level == LIVE_KERNEL_FRAMES)
        snprintf(text, bytes, "frames");
    else if (!*access->reason)
        snprintf(text, bytes, "calls");
    else
        snprintf(text, bytes, "calls: no frames: %s%s%s%s", access->reason,
                 *access->remedy ? "; run '" : "", access->remedy, *access->remedy ? "'" : "");
}
