// SPDX-License-Identifier: MIT
#ifndef CAIRN_TRACK_ENCODE_SITES_SILENT_EDGES_H
#define CAIRN_TRACK_ENCODE_SITES_SILENT_EDGES_H

// Where a function may go without a site of ours. Under the lock.

#include "encode/graph/graph.h"
#include "patch/sites.h"

// An instruction of the function that stays as it is.
void encode_add_unpatched(uint32_t function, uintptr_t address, enum site_stays why);
// Compilers put cold code elsewhere, with a table of its own: to walks it is a function.
void encode_add_function_parts(uint32_t function);
// Where a word of the GOT, or a PLT entry, leads to.
uintptr_t encode_resolve_target(uintptr_t from, uintptr_t target, uintptr_t slot);

#endif
