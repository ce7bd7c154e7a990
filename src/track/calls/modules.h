// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_CALLS_MODULES_H
#define CAIRN_TRACK_CALLS_MODULES_H

// Between call_sites.c, which patches, and modules.c, which knows what is there.

#include "track/calls/call_sites.h"
#include "track/calls/module_pages.h"
#include <link.h>
#include <stdatomic.h>
#include <stddef.h>

#define CALLS_MODULES 4096

enum part { PART_NONE, PART_CALLBACKS, PART_FOLLOWED };

struct follow_module {
    _Atomic bool here;    // release, when the bounds are right
    uintptr_t start, end; // of its code
    uintptr_t dynamic;    // its dynamic section
    enum part part;
    bool patched;
    unsigned seen;        // the last look at what is loaded that has met it
    uintptr_t *functions; // where they begin, in order; NULL until it is patched
    _Atomic size_t count; // release
    size_t room;
};

struct calls_modules {
    // Changed under the loader's lock, or before there are threads; read anywhere.
    struct follow_module module[CALLS_MODULES];
    _Atomic unsigned count;
    // Modules have come that the loader is not done with: they are patched at the next call that
    // has to be looked at. Set under the loader's lock.
    _Atomic bool pending;
    unsigned first_pending; // none of lower number is
    unsigned dropped;       // places below `count` that are free
    bool started;           // the modules loaded first are patched
    enum live_by by;
};

extern struct calls_modules calls_modules __attribute__((visibility("hidden")));

// The entry of its pages.
calls_page_t calls_module_page(const struct follow_module *module);

struct follow_module *calls_module_at(uintptr_t address); // NULL: none
bool calls_module_is_followed(uintptr_t address);         // code of such a one

// Under the loader's lock, or before there are threads: adds what is new, drops what has gone.
void calls_modules_add(void);
void calls_modules_add_new(void);
void calls_modules_drop(void);

// The function that the program means when it calls one that may be ours.
uintptr_t calls_real_function(uintptr_t function);

#endif
