// SPDX-License-Identifier: MIT
#ifndef CAIRN_TESTS_LOADMAP_FIXTURE_H
#define CAIRN_TESTS_LOADMAP_FIXTURE_H

// Modules as the load map announces them, and questions to it.

#include "base/now.h"
#include "loadmap/loadmap.h"
#include "unwind_support.h"
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
// after those above
#include <cmocka.h>

#define ANNOUNCED_MOST 4096

static struct {
    unsigned id;
    uintptr_t base;
    size_t bytes;
    unsigned build_id_bytes;
    char path[300];
} announced[ANNOUNCED_MOST];
static _Atomic unsigned announcements;

static inline void on_found(const struct module_info *module)
{
    unsigned i = announcements;
    if (i == ANNOUNCED_MOST)
        return;
    announced[i].id = module->id;
    announced[i].base = module->base;
    announced[i].bytes = module->bytes;
    announced[i].build_id_bytes = module->build_id_bytes;
    snprintf(announced[i].path, sizeof announced[i].path, "%s", module->path);
    announcements = i + 1;
}

static inline int find_announced(const char *part)
{
    for (unsigned i = announcements; i-- > 0;)
        if (strstr(announced[i].path, part))
            return (int)i;
    return -1;
}

// A clock that goes on by so much each time that somebody looks at it.
static uint64_t away, away_each;

static inline int clock_that_runs_away(clockid_t clock, struct timespec *time)
{
    const int result = (int)syscall(SYS_clock_gettime, clock, time);
    if (clock == CLOCK_MONOTONIC)
        time->tv_sec += (time_t)((away += away_each) / 1000000000);
    return result;
}

static inline bool find_once(uintptr_t pc, struct module_ref *module)
{
    bool unloading;
    loadmap_enter();
    bool found = loadmap_find(pc, module, &unloading);
    loadmap_leave();
    return found;
}

// Where the loader cannot be asked, /proc/self/maps is, but not too often.
static inline bool find_within(unsigned tries, uintptr_t pc, struct module_ref *module)
{
    bool found = find_once(pc, module);
#ifdef LOADMAP_WITHOUT_FIND_OBJECT
    for (unsigned i = 0; !found && i < tries; i++) {
        usleep(10000);
        found = find_once(pc, module);
    }
#endif
    (void)tries;
    return found;
}

// What is there is found sooner or later.
static inline bool find(uintptr_t pc, struct module_ref *module)
{
    return find_within(1000, pc, module);
}

// What is not there is not found for a while.
static inline bool find_soon(uintptr_t pc, struct module_ref *module)
{
    return find_within(20, pc, module);
}

static inline void close_library(void *library)
{
    loadmap_before_unload();
    dlclose(library);
    loadmap_after_unload();
}

#endif
