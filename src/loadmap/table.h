// SPDX-License-Identifier: MIT
#ifndef CAIRN_LOADMAP_TABLE_H
#define CAIRN_LOADMAP_TABLE_H

// The modules that are loaded, in order of address, and the executable memory that belongs to none.
// Kept twice under one sequence number (a latch): while the number is odd a writer is changing copy
// 0 and readers use copy 1, else the other way round. A reader that interrupts the writer on its
// own thread finds a number that stands still and a copy that is whole.
//
// Writers hold the lock of loadmap.c; readers hold nothing. All signal-safe.

#include "loadmap/loadmap.h"
#include "loadmap/maps.h"

#define TABLE_MODULES 4096

struct table_module {
    struct module_ref ref;
    uint64_t object; // what the loader said it is (name, build id): told apart from another at the
                     // same place
    uint64_t name;   // a hash of the name that the loader has for it
    uint32_t seen;   // the last resynchronisation that met it
    uint32_t from_loader;
};

bool table_find(uintptr_t pc, struct table_module *module);
bool table_is_anonymous_code(uintptr_t pc);

// The copy that a writer may read: no other thread changes it.
unsigned table_count(void);
const struct table_module *table_at(unsigned index);
// Of the module at an address; the number of them if there is none.
unsigned table_index(uintptr_t address);

// Drops what overlaps, and inserts. False if there is no room (then nothing is dropped either).
bool table_insert(const struct table_module *module);
void table_mark_seen(unsigned index, uint32_t seen);
void table_remove(unsigned index);
void table_set_ranges(const struct maps_range *range, unsigned count);

// In a forked child: a writer may have been cut off in the middle of a change.
void table_repair(void);

#endif
