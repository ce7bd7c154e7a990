// SPDX-License-Identifier: MIT
#ifndef CAIRN_PROFILE_QUERIES_MODULE_TABLE_H
#define CAIRN_PROFILE_QUERIES_MODULE_TABLE_H

// The modules of a whole recording: each process numbers its own, a profile has one list.

#include "profile/profile.h"

struct module_table {
    struct profile_module *modules; // the reserved ones of place.h first
    unsigned count;
    unsigned written; // how many are in the file
    uint16_t *slots;  // hash of indices
    unsigned slot_count;
};

int module_table_start(struct module_table *table); // 0 or -ENOMEM
void module_table_free(struct module_table *table);

// The number of a module, by path and build id; MODULE_NONE when there are too many.
unsigned module_table_id(struct module_table *table, const char *path, size_t path_bytes,
                         const uint8_t *build_id, unsigned build_id_bytes);

#endif
