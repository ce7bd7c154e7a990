// SPDX-License-Identifier: MIT
#ifndef CAIRN_LOADMAP_LOADMAP_H
#define CAIRN_LOADMAP_LOADMAP_H

// What is mapped where. Never asks the loader from a signal handler: a pc that is not in the table is
// looked up with _dl_find_object (documented async-signal-safe; glibc 2.35), or, where that is
// missing, in /proc/self/maps read by plain system calls; what is found joins the table.
//
// A library that is unloaded and loaded again, anywhere, keeps its module id (same path and build id).

#include "base/place.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// What a walk needs to know of the module at a pc; a copy, valid while a loadmap_enter() is open.
struct module_ref {
    unsigned id;                 // place_t module; MODULE_ANONYMOUS if the pc is in no file
    uintptr_t base;              // place offset = pc - base
    uintptr_t start, end;        // extent in memory
    const unsigned char *eh_frame_hdr; // NULL if it has none
};

// What the agent publishes about a module that was met for the first time, or loaded elsewhere.
struct module_info {
    unsigned id;
    const char *path; // "[vdso]" for the kernel's
    uintptr_t base;
    size_t bytes;
    unsigned build_id_bytes;
    const unsigned char *build_id;
};

// Fills the table with what is loaded now. Not signal-safe. `found` is called for each module, then and
// later, in a signal handler too; it must not block. Returns 0 or -errno.
int loadmap_start(void (*found)(const struct module_info *module));

// In a forked child: forget who was inside the map (those threads do not exist here).
void loadmap_after_fork(void);

// Brackets around everything that reads a module's memory (unwind tables). enter() fails while a
// library is being unloaded, for modules that can be unloaded. Signal-safe, nests.
void loadmap_enter(void);
void loadmap_leave(void);

// The module at pc. Call between enter and leave. False: not code of any file (id is MODULE_ANONYMOUS), or
// *unloading is set: it may vanish. Signal-safe.
bool loadmap_find(uintptr_t pc, struct module_ref *module, bool *unloading);

// Around dlclose, in normal context. before() waits until no walk is inside a table.
void loadmap_before_unload(void);
void loadmap_after_unload(void);

// Changes whenever a pc may mean something else than before: cached knowledge about pcs carries it.
uint32_t loadmap_generation(void);

#endif
