// SPDX-License-Identifier: MIT
#ifndef CAIRN_PATCH_ENTRIES_ENTRIES_MODULE_H
#define CAIRN_PATCH_ENTRIES_ENTRIES_MODULE_H

// Between entries.c, which finds entries, and entries_switch.c, which writes them.

#include "patch/entries/entry_code.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// One module's entries, sorted by address. Made in normal context, then only read, but for what
// is quiet.
struct patched_module {
    struct patched_module *next;
    _Atomic bool gone; // unloaded; set under the loader's lock, read anywhere
    uintptr_t base;
    const unsigned char *relay; // within reach of its entries: jumps to the hook
    size_t relay_bytes;
    unsigned char relay_first; // byte, of one that is not shut
    unsigned char relay_cell;  // lowest byte of the cell that it counts down in bursts
    size_t count;
    // Which are off between bursts, in order. Changed by the thread that may switch.
    uint32_t *quiet;
    size_t quiet_count;
    uintptr_t entry[];
};

// Pushed at the head, release; a signal handler that switches reads with acquire.
extern struct patched_module *_Atomic entries_modules __attribute__((visibility("hidden")));

static inline struct patched_module *entries_first_module(void)
{
    return atomic_load_explicit(&entries_modules, memory_order_acquire);
}

static inline bool entries_module_is_here(const struct patched_module *module)
{
    return !atomic_load_explicit(&module->gone, memory_order_acquire);
}

// Memory for switching. In normal context.
void entries_switch_prepare(void);

// Writes all entries of a module as they are to be now. No thread runs there. 0 or -errno.
int entries_settle_module(struct patched_module *module);

// Makes a relay what it is to be now.
void entries_settle_relay(const struct patched_module *module, unsigned char *relay);

// Relays that count are between bursts, from now on.
void entries_rest_relays(void);

// The entry whose hook returns there: its number in the module, or -1.
ptrdiff_t entries_index(const struct patched_module *module, uintptr_t back);

#endif
