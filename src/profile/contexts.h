// SPDX-License-Identifier: MIT
#ifndef CAIRN_PROFILE_CONTEXTS_H
#define CAIRN_PROFILE_CONTEXTS_H

// The chunk with the data that decodes the contexts of a process: into the file, and back.

#include "profile/loader.h"
#include "profile/write_records.h"

// Sections are written in pieces, one behind the other: `offset` is the number of bytes before.
// Modules and counts are replaced.
void contexts_put_sections(struct batch *batch, uint32_t process, uint64_t offset,
                           const uint8_t *data, size_t size);
void contexts_put_module(struct batch *batch, uint32_t process, unsigned number, unsigned module);
void contexts_put_counts(struct batch *batch, uint32_t process,
                         const struct profile_contexts *contexts);

// All that there is of a process; nothing if there is nothing.
void contexts_put(struct batch *batch, uint32_t process, const struct profile_contexts *contexts);

// Takes one record in. False: it makes no sense, or memory is out.
bool contexts_take(struct loader *loader, struct cursor *cursor);

// A copy with other numbers of modules: module m becomes map[m]. 0 or -ENOMEM.
int contexts_copy(struct profile_contexts *to, const struct profile_contexts *from,
                  const unsigned *map, unsigned count);

#endif
