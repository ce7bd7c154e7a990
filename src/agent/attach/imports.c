// SPDX-License-Identifier: MIT
// A preloaded agent comes before libc. One that comes later writes its functions into the tables
// that modules call other modules through. The words are whole, and other threads see the old
// function or ours.

#include "agent/attach/imports.h"
#include "agent/attach/attach.h"
#include "agent/interpose/events/alloc.h"
#include "agent/interpose/events/io.h"
#include "agent/interpose/events/lock.h"
#include <dlfcn.h>

// The functions that each recording takes: threads that begin, programs that are started, and looks
// at stacks and tables.
static const char *const names[] = {
    "pthread_create",  "thrd_create",  "pthread_setname_np",
    "execl",           "execle",       "execlp",
    "execv",           "execve",       "execveat",
    "execvp",          "execvpe",      "fexecve",
    "posix_spawn",     "posix_spawnp", "popen",
    "system",          "dlclose",      "dl_iterate_phdr",
    "_dl_find_object", "backtrace",    "_exit",
    "_Exit",
};
#define NAMES (sizeof names / sizeof *names)

static struct imports imports; // that are taken, or were in the last recording

static void add(const char *name, uintptr_t theirs, uintptr_t ours, enum import_scope scope)
{
    if (theirs && ours && imports.count < IMPORTS_MOST)
        imports.list[imports.count++] =
            (struct import){.name = name, .theirs = theirs, .ours = ours, .scope = scope};
}

static void add_base(void *own_handle)
{
    for (size_t i = 0; i < NAMES && own_handle; i++)
        add(names[i], (uintptr_t)dlsym(RTLD_NEXT, names[i]), (uintptr_t)dlsym(own_handle, names[i]),
            IMPORT_BESIDE_LIBC);
}

static void add_group(struct interposed_group group)
{
    for (struct interposed *const *entry = group.start; entry < group.end; entry++)
        add((*entry)->name, (uintptr_t)(*entry)->real, (uintptr_t)(*entry)->ours,
            IMPORT_BESIDE_LIBC);
}

// Only in the builds that have them.
#pragma weak alloc_names
#pragma weak alloc_functions
#pragma weak alloc_work_by
#pragma weak alloc_map_functions
#pragma weak io_functions
#pragma weak lock_functions

// Blocks of one allocator must not come to another one: what is taken is what all modules call, if
// nothing else in sight has that name.
static void *find_allocator(const char *name)
{
    return (void *)imports_definition(name);
}

// libc allocates for the program, too: strdup(), getline().
static void add_allocator(void)
{
    uintptr_t functions[ALLOC_FUNCTIONS];
    if (!alloc_functions || !alloc_work_by(find_allocator))
        return;
    const unsigned count = alloc_functions(functions, ALLOC_FUNCTIONS);
    for (unsigned i = 0; i < count; i++)
        add(alloc_names[i], imports_definition(alloc_names[i]), functions[i], IMPORT_EVERYWHERE);
    add_group(alloc_map_functions());
}

void imports_take(void *own_handle)
{
    imports.count = 0;
    add_base(own_handle);
    imports_prepare(&imports);
    imports_change(&imports, IMPORTS_TAKE);
}

void imports_take_events(void)
{
    const struct live_options *options = &agent.session->options;
    if (live_has(options, LIVE_EVENT_ALLOC))
        add_allocator();
    if (live_has(options, LIVE_EVENT_IO) && io_functions)
        add_group(io_functions());
    if (live_has(options, LIVE_EVENT_LOCK) && lock_functions)
        add_group(lock_functions());
    imports_prepare(&imports);
    imports_change(&imports, IMPORTS_TAKE);
}

void imports_give_back(void)
{
    imports_change(&imports, IMPORTS_GIVE_BACK);
}
