// SPDX-License-Identifier: MIT
#ifndef CAIRN_PROFILE_READ_RECORDS_H
#define CAIRN_PROFILE_READ_RECORDS_H

// Shared by the readers of chunks.

#include "profile/loader.h"

// Whether gaps of so many records, of which at most per_byte fit into a byte of a damaged chunk,
// can be explained by what was lost.
bool loader_may_fill(struct loader *loader, uint64_t gap, unsigned per_byte);

// Makes sure that there is such a tree. False: it cannot be there, or memory is out.
bool loader_has_tree(struct loader *loader, uint32_t index);

// Makes sure that there are as many metrics, at least.
bool loader_want_metrics(struct loader *loader, uint64_t count);

// A module as told_module() writes it: 0 for no place at all.
bool loader_module_of(struct loader *loader, struct cursor *cursor, place_t *place);

// Takes a text, in the place of what *text was.
bool loader_take_text(struct loader *loader, struct cursor *cursor, char **text);

// Forgets all nodes of a tree.
void loader_forget_nodes(struct loader *loader, struct profile_tree *tree);

// The chunks of nodes and of their values.
bool loader_take_nodes(struct loader *loader, struct cursor *cursor);
bool loader_take_values(struct loader *loader, struct cursor *cursor);

#endif
